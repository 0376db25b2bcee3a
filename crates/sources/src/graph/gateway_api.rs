//! Evaluation of Gateways, ListenerSets and routes of the Gateway API.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::RuleBackends;

use super::{
    backends::Reached,
    evaluation::{Evaluation, Through},
    service_text,
};
use crate::objects::{
    AllowedRoutes, Backend, Body, Gateway, HostPattern, Kind, Listener, ListenerSet, ObjectKey, Parent, Route,
};

impl<'g> Evaluation<'g> {
    /// A Gateway declares no names.
    pub(super) fn gateway(&mut self, gateway: &'g Gateway) {
        self.report_omitted(gateway.omitted);
        self.report_invalid(gateway.listeners.iter().map(|listener| &listener.host));
    }

    /// A ListenerSet declares no names.
    pub(super) fn listener_set(&mut self, set: &'g ListenerSet) {
        self.report_invalid(set.listeners.iter().map(|listener| &listener.host));
        if set.gateway.is_none() {
            self.report(|| "its parentRef is no Gateway".to_owned());
        } else if !set.is_accepted {
            self.report(|| "its Gateway has not accepted it".to_owned());
        }
    }

    pub(super) fn route(&mut self, route: &'g Route) {
        self.report_invalid(&route.hosts);
        if route.parents.is_empty() {
            return; // It is for traffic within a mesh.
        }
        if !route.parents.iter().any(|parent| parent.is_accepted) {
            self.report(|| "its names are not exposed: no Gateway has accepted it".to_owned());
            return;
        }
        let mut names_by_gateway = BTreeMap::<ObjectKey, BTreeSet<Arc<str>>>::new();
        for parent in route.parents.iter().filter(|parent| parent.is_accepted) {
            let Some((gateway, listeners)) = self.listeners(&parent.key) else { continue };
            let mut fitting = listeners.iter().filter(|listener| self.fits(parent, listener)).peekable();
            if fitting.peek().is_none() {
                self.report(|| format!("{} has no listener for it", parent.key));
                continue;
            }
            let names = names_by_gateway.entry(gateway).or_default();
            fitting.for_each(|listener| add_common(names, self.key.kind, route, listener));
        }
        let annotated = self.annotated_names();
        let is_exposed = !names_by_gateway.is_empty();
        let reached = if is_exposed { self.reach(&route.backends()) } else { Reached::default() };
        self.rules = if is_exposed { self.upstream_clusters(route) } else { Box::default() };
        for (key, mut names) in names_by_gateway {
            names.extend(annotated.iter().cloned());
            if names.is_empty() {
                self.report(|| {
                    format!(
                        "it has no host in common with {key}; give names in hostnames, or in the annotation hostname"
                    )
                });
            }
            let Some(object) = self.look_up(&key) else { continue };
            let Body::Gateway(gateway) = &object.body else { continue };
            let through = Through { key: Some(&key), targets: &gateway.targets, dns: object.dns.as_ref() };
            self.expose(names, through, &reached);
        }
    }

    /// Returns the backends of each upstream cluster that Envoy Gateway makes for a route, by its name: one for each rule of requests,
    /// and one for all rules of a route of bytes. Only Services that the route leads to are named.
    fn upstream_clusters(&self, route: &Route) -> Box<[(Arc<str>, Arc<RuleBackends>)]> {
        let ObjectKey { kind, namespace, name } = self.key;
        let has_requests = matches!(kind, Kind::HttpRoute | Kind::GrpcRoute);
        let route_name = format!("{}/{namespace}/{name}", kind.as_str().to_ascii_lowercase());
        let service = |(backend, weight): &(Backend, u32)| match backend {
            Backend::Service { namespace, name } if *weight > 0 => {
                let key = ObjectKey::new(Kind::Service, Arc::clone(namespace), Arc::clone(name));
                self.has_looked_up(&key).then(|| service_text(&key).into())
            }
            _ => None,
        };
        let cluster = |rule: String, backends: &[(Backend, u32)]| {
            let with_traffic: BTreeSet<_> =
                backends.iter().filter(|(_, weight)| *weight > 0).map(|(backend, _)| backend).collect();
            let services = backends.iter().map(service).collect();
            let backends = RuleBackends { services, is_shared: with_traffic.len() > 1 };
            (format!("{route_name}/rule/{rule}").into(), Arc::new(backends))
        };
        if has_requests {
            return route.rules.iter().enumerate().map(|(rule, of)| cluster(rule.to_string(), of)).collect();
        }
        Box::new([cluster("-1".to_owned(), &route.rules.concat())])
    }

    /// Returns the Gateway of a parent, and the listeners of the parent. Returns `None` if one of them is missing: a problem.
    fn listeners(&mut self, parent: &ObjectKey) -> Option<(ObjectKey, &'g [Listener])> {
        let object = self.look_up(parent);
        let Some(object) = object else {
            self.report(|| format!("{parent} does not exist"));
            return None;
        };
        match &object.body {
            Body::Gateway(gateway) => Some((parent.clone(), &gateway.listeners)),
            Body::ListenerSet(set) => {
                let Some((namespace, name)) = set.gateway.as_ref().filter(|_| set.is_accepted) else {
                    self.report(|| format!("no Gateway has accepted {parent}"));
                    return None;
                };
                let key = ObjectKey::new(Kind::Gateway, Arc::clone(namespace), Arc::clone(name));
                if self.look_up(&key).is_none() {
                    self.report(|| format!("{key} of {parent} does not exist"));
                    return None;
                }
                Some((key, &set.listeners))
            }
            _ => None,
        }
    }

    /// Returns true if the listener of a parent serves the route.
    fn fits(&self, parent: &Parent, listener: &Listener) -> bool {
        let is_allowed = match listener.allowed {
            AllowedRoutes::All => true,
            AllowedRoutes::None => false,
            AllowedRoutes::Same => parent.key.namespace == self.key.namespace,
        };
        is_allowed
            && listener.protocol.serves(self.key.kind)
            && parent.section.as_ref().is_none_or(|section| *section == listener.name)
            && parent.port.is_none_or(|port| port == listener.port)
    }

    /// Returns true if the object may refer to a Service: it is in the same namespace, or a ReferenceGrant of its namespace permits it.
    pub(super) fn is_permitted(&mut self, namespace: &Arc<str>, service: &str) -> bool {
        if *namespace == self.key.namespace {
            return true;
        }
        self.depend_on(ObjectKey::before(Kind::ReferenceGrant, namespace));
        let is_permitted = self.graph.grants(namespace).any(|grant| grant.permits(self.key, service));
        if !is_permitted {
            self.report(|| format!("no ReferenceGrant in {namespace} permits the backend {namespace}/{service}"));
        }
        is_permitted
    }
}

/// Adds the names that a route and a listener have in common. Routes of bytes have no host names.
fn add_common(names: &mut BTreeSet<Arc<str>>, kind: Kind, route: &Route, listener: &Listener) {
    if matches!(kind, Kind::TcpRoute | Kind::UdpRoute) {
        return;
    }
    let all = [HostPattern::Any];
    let hosts = if route.hosts.is_empty() { &all[..] } else { &*route.hosts };
    names.extend(hosts.iter().filter_map(|host| match host.intersection(&listener.host) {
        Some(HostPattern::Name(name)) => Some(name),
        _ => None,
    }));
}
