//! Evaluation of Gateways and VirtualServices of Istio.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    backends::{Collected, Reached},
    evaluation::{Evaluation, Through},
};
use crate::objects::{
    Body, Destinations, DnsAnnotations, HostPattern, IstioGateway, Kind, ObjectKey, Targets, VirtualService,
};

impl<'g> Evaluation<'g> {
    /// A Gateway declares no names by its hosts, only by its annotation. It has no backends.
    pub(super) fn istio_gateway(&mut self, gateway: &'g IstioGateway) {
        self.report_invalid(&gateway.invalid);
        let names = self.annotated_names();
        self.expose_through_services(names, self.key, gateway, None, &Reached::default());
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
        let reached = self.virtual_service_reached(service);
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
            self.expose_through_services(names, &key, gateway, object.dns.as_ref(), &reached);
        }
    }

    /// Exposes names through the Services of a Gateway that have addresses.
    fn expose_through_services(
        &mut self,
        names: BTreeSet<Arc<str>>,
        key: &ObjectKey,
        gateway: &'g IstioGateway,
        dns: Option<&Arc<DnsAnnotations>>,
        reached: &Reached,
    ) {
        if names.is_empty() {
            return;
        }
        let services = self.graph.selectors.services(&gateway.selector);
        if self.replaced_targets(dns).is_some() {
            // The addresses are the same for each Service.
            let key = services.first().map(|(key, _)| key);
            return self.expose(names, Through { key, targets: &Arc::default(), dns }, reached);
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
            return self.expose(names, Through { key: Some(key), targets: &none, dns }, reached);
        }
        for (key, targets) in with_addresses {
            self.expose(names.clone(), Through { key: Some(key), targets, dns }, reached);
        }
    }

    /// Returns the endpoints of the destinations of a VirtualService and its delegates. Delegates of delegates do not count, as in Istio.
    fn virtual_service_reached(&mut self, service: &'g VirtualService) -> Reached {
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
        let mut collected = Collected::default();
        for (destination, weight) in all.iter().flat_map(|of| &of.services) {
            let (namespace, name) = (Arc::clone(&destination.namespace), Arc::clone(&destination.name));
            let key = ObjectKey::new(Kind::Service, namespace, name);
            if self.collect(&key, *weight, &mut collected) {
                continue;
            }
            if !destination.is_ambiguous {
                // A mesh of several clusters may have it in another one, and the gateway leads there.
                self.report(|| {
                    format!("destination {key} does not exist in this cluster, so its endpoints are unknown")
                });
            }
            collected.add_unknown(*weight, None);
        }
        all.iter().filter_map(|of| of.others).for_each(|weight| collected.add_unknown(weight, None));
        let has_any = |of: &&Destinations| !of.services.is_empty() || of.others.is_some();
        self.reached(collected, !service.delegates.is_empty() || all.iter().any(has_any))
    }
}
