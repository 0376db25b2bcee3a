//! Evaluation of Gateways and VirtualServices of Istio.

use std::{collections::BTreeSet, sync::Arc};

use super::evaluation::{Evaluation, Readiness, Through};
use crate::objects::{
    Body, Destinations, DnsAnnotations, HostPattern, IstioGateway, Kind, ObjectKey, Targets, VirtualService,
};

impl<'g> Evaluation<'g> {
    /// A Gateway declares no names by its hosts, only by its annotation. It has no backends.
    pub(super) fn istio_gateway(&mut self, gateway: &'g IstioGateway) {
        self.report_invalid(&gateway.invalid);
        let names = self.annotated_names();
        self.expose_through_services(names, self.key, gateway, None, None);
    }

    pub(super) fn virtual_service(&mut self, service: &'g VirtualService) {
        self.report_invalid(&service.hosts);
        let annotated = self.annotated_names();
        if service.hosts.is_empty() && annotated.is_empty() {
            return; // It is a delegate.
        }
        if service.gateways.is_empty() {
            if !annotated.is_empty() {
                self.report(|| "its annotation hostname has no effect: it has no gateway".to_owned());
            }
            return;
        }
        let ready = self.virtual_service_ready(service);
        for (namespace, name) in &service.gateways {
            let key = ObjectKey::new(Kind::IstioGateway, Arc::clone(namespace), Arc::clone(name));
            let Some(object) = self.look_up(&key) else {
                self.report(|| format!("{key} does not exist"));
                continue;
            };
            let Body::IstioGateway(gateway) = &object.body else { continue };
            if !service.is_visible_to(namespace) {
                self.report(|| format!("exportTo excludes the namespace of {key}"));
                continue;
            }
            let common = gateway.hosts.intersection(&service.hosts, &self.key.namespace);
            if annotated.is_empty() {
                if common.has_any {
                    self.report_host(&HostPattern::Any);
                } else if common.names.is_empty() {
                    self.report(|| format!("{key} has no host in common with it"));
                }
            }
            let names = common.names.into_iter().chain(annotated.iter().cloned()).collect();
            self.expose_through_services(names, &key, gateway, object.dns.as_ref(), ready);
        }
    }

    /// Exposes names through the Services of a Gateway that have addresses.
    fn expose_through_services(
        &mut self,
        names: BTreeSet<Arc<str>>,
        key: &ObjectKey,
        gateway: &'g IstioGateway,
        dns: Option<&Arc<DnsAnnotations>>,
        ready: Option<u32>,
    ) {
        if names.is_empty() {
            return;
        }
        let services = self.graph.selectors.services(&gateway.selector);
        if self.replaced_targets(dns).is_some() {
            // The addresses are the same for each Service.
            let key = services.first().map(|(key, _)| key);
            return self.expose(names, Through { key, targets: &Arc::default(), dns }, ready);
        }
        let with_addresses: Vec<_> = services.iter().filter(|(_, targets)| !targets.is_empty()).collect();
        if with_addresses.is_empty() {
            let key = services.first().map_or(key, |(key, _)| key);
            let none = Arc::<Targets>::default();
            if services.is_empty() {
                self.report(|| {
                    format!(
                        "its names are not exposed: no Service of type LoadBalancer has the labels that {key} selects"
                    )
                });
                return;
            }
            return self.expose(names, Through { key: Some(key), targets: &none, dns }, ready);
        }
        for (key, targets) in with_addresses {
            self.expose(names.clone(), Through { key: Some(key), targets, dns }, ready);
        }
    }

    /// Returns the number of ready endpoints of the destinations of a VirtualService and its delegates. Delegates of delegates do not
    /// count, as in Istio.
    fn virtual_service_ready(&mut self, service: &'g VirtualService) -> Option<u32> {
        let mut all = vec![&service.destinations];
        for (namespace, name) in &service.delegates {
            let key = ObjectKey::new(Kind::VirtualService, Arc::clone(namespace), Arc::clone(name));
            match self.look_up(&key).map(|object| &object.body) {
                Some(Body::VirtualService(delegate)) if !delegate.hosts.is_empty() => {
                    self.report(|| format!("delegate {key} has hosts, so it is no delegate"));
                }
                Some(Body::VirtualService(delegate)) if !delegate.is_visible_to(&self.key.namespace) => {
                    self.report(|| format!("exportTo of delegate {key} excludes this namespace"));
                }
                Some(Body::VirtualService(delegate)) => all.push(&delegate.destinations),
                _ => self.report(|| format!("delegate {key} does not exist")),
            }
        }
        let is_declared = !service.delegates.is_empty() || all.iter().any(|of| of.is_declared);
        let mut readiness = Readiness::new(is_declared);
        self.add_destinations(&all, &mut readiness);
        readiness.ready()
    }

    fn add_destinations(&mut self, all: &[&'g Destinations], readiness: &mut Readiness) {
        if all.iter().any(|of| of.has_others) {
            readiness.add(None);
        }
        let services: BTreeSet<_> = all.iter().flat_map(|of| &of.services).collect();
        let mut counted = BTreeSet::new();
        for service in services {
            let key = ObjectKey::new(Kind::Service, Arc::clone(&service.namespace), Arc::clone(&service.name));
            let ready = self.service_readiness(&key);
            if ready.is_none() && !service.is_ambiguous {
                // A mesh of several clusters may have it in another one, and the gateway leads there.
                self.report(|| {
                    format!("destination {key} does not exist in this cluster, so its endpoints are unknown")
                });
            }
            // Two hosts may stand for one Service, such as web.shop and web.shop.svc.
            if counted.insert(key) {
                readiness.add(ready.flatten());
            }
        }
    }
}
