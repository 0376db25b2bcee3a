//! The number of ready endpoints of each Service, from its EndpointSlices.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use crate::objects::{Body, EndpointOrigin, Kind, Object, ObjectKey};

/// The EndpointSlices of each Service.
#[derive(Debug, Default)]
pub(super) struct EndpointIndex {
    services: BTreeMap<ObjectKey, ServiceEndpoints>,
    /// Services whose slices changed since the last refresh.
    stale: BTreeSet<ObjectKey>,
}

#[derive(Debug, Default)]
struct ServiceEndpoints {
    /// Names of its slices.
    slices: Vec<Arc<str>>,
    /// Number of ready endpoints.
    ready: u32,
}

impl EndpointIndex {
    /// Replaces a slice, which belonged to a Service and belongs to another, or the same, one.
    pub(super) fn replace_slice(&mut self, slice: &ObjectKey, before: Option<Arc<str>>, after: Option<Arc<str>>) {
        let key = |name: &Arc<str>| ObjectKey {
            kind: Kind::Service,
            namespace: Arc::clone(&slice.namespace),
            name: Arc::clone(name),
        };
        self.stale.extend(before.iter().chain(&after).map(key));
        if before == after {
            return;
        }
        if let Some(service) = before.and_then(|name| self.services.get_mut(&key(&name))) {
            service.slices.retain(|name| *name != slice.name);
        }
        if let Some(name) = after {
            self.services.entry(key(&name)).or_default().slices.push(Arc::clone(&slice.name));
        }
    }

    /// Counts the endpoints of Services whose slices changed. Returns the Services whose number changed, and those without a selector:
    /// their addresses matter, too.
    pub(super) fn refresh(&mut self, objects: &BTreeMap<ObjectKey, Object>) -> Vec<ObjectKey> {
        let mut changed = Vec::new();
        for key in std::mem::take(&mut self.stale) {
            let ready = self.count(objects, &key);
            let Some(service) = self.services.get_mut(&key) else { continue };
            let before = std::mem::replace(&mut service.ready, ready);
            if service.slices.is_empty() {
                self.services.remove(&key);
            }
            let is_written = |object: &Object| matches!(&object.body, Body::Service(service) if service.origin == EndpointOrigin::Written);
            if before != ready || objects.get(&key).is_some_and(is_written) {
                changed.push(key);
            }
        }
        changed
    }

    /// Returns the number of ready endpoints of a Service.
    pub(super) fn ready(&self, service: &ObjectKey) -> u32 {
        self.services.get(service).map_or(0, |service| service.ready)
    }

    /// Returns the address of each endpoint of a Service, and true if it is ready, sorted.
    pub(super) fn addresses(&self, objects: &BTreeMap<ObjectKey, Object>, service: &ObjectKey) -> Vec<(IpAddr, bool)> {
        let Some(endpoints) = self.services.get(service) else { return Vec::new() };
        let key = |name: &Arc<str>| ObjectKey {
            kind: Kind::EndpointSlice,
            namespace: Arc::clone(&service.namespace),
            name: Arc::clone(name),
        };
        let mut addresses = Vec::new();
        for slice in &endpoints.slices {
            if let Some(Object { body: Body::EndpointSlice(slice), .. }) = objects.get(&key(slice)) {
                addresses.extend_from_slice(&slice.endpoints);
            }
        }
        // While an endpoint moves from one slice to another, it may be in both. It is ready if one of them has it as ready.
        addresses.sort_unstable_by_key(|(address, is_ready)| (*address, !is_ready));
        addresses.dedup_by_key(|(address, _)| *address);
        addresses
    }

    /// Counts the ready endpoints. A Service of two address families has each pod once per family, so the larger number counts.
    fn count(&self, objects: &BTreeMap<ObjectKey, Object>, service: &ObjectKey) -> u32 {
        let (mut v4, mut v6) = (0_u32, 0_u32);
        for (address, is_ready) in self.addresses(objects, service) {
            let family = if address.is_ipv4() { &mut v4 } else { &mut v6 };
            *family = family.saturating_add(u32::from(is_ready));
        }
        v4.max(v6)
    }
}
