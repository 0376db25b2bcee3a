//! Names that the objects of one Kubernetes cluster expose, with the addresses of their gateways and the numbers of their ready endpoints.
//!
//! ```text
//! objects ──► changed keys ──► objects that depend on them ──► evaluation of each ──► exposures by name ──► changed names
//! ```
//! Each object that declares names is evaluated alone. The evaluation records the keys of all objects that it looked up, also of missing
//! ones, and a change of any of them evaluates it again. So the result does not depend on the order of the changes.
//!
//! No connection, no clock and no wire format.

mod backends;
mod endpoints;
mod evaluation;
mod gateway_api;
mod istio;
mod names;
mod selectors;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{ExposedServices, RuleBackends};
use fairway_providers::Endpoint;

pub(crate) use crate::objects::Targets;
use crate::{
    objects::{Body, DnsAnnotations, ExternalService, Kind, Object, ObjectKey, ReferenceGrant},
    splits::Split,
};

use self::{
    backends::SplitIndex,
    endpoints::EndpointIndex,
    evaluation::{Evaluated, Evaluation},
    names::NameIndex,
    selectors::SelectorIndex,
};

/// The objects of one cluster, and the names that they expose.
///
/// [`take_changed`](Self::take_changed) evaluates the changes since its last call. Names, exposures, problems and the numbers of hosts of
/// gateways are those of that call.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    objects: BTreeMap<ObjectKey, Object>,
    /// Memory of the objects in bytes, as estimated.
    memory: usize,
    /// Results of the objects that have one.
    evaluated: BTreeMap<ObjectKey, Evaluated>,
    /// Pairs of an object, perhaps a missing one, and an object whose evaluation looked it up.
    dependents: BTreeSet<(ObjectKey, ObjectKey)>,
    /// Objects that changed since the last evaluation.
    touched: BTreeSet<ObjectKey>,
    endpoints: EndpointIndex,
    selectors: SelectorIndex,
    splits: SplitIndex,
    names: NameIndex,
    /// Services that objects with names lead to, with the number of these objects.
    exposed: ExposedServices,
    /// Services for which the gateways have no healthy endpoint.
    without_endpoint: BTreeSet<ObjectKey>,
}

/// Limits of what is kept of the objects of one cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of objects.
    pub objects: usize,
    /// Their memory in bytes, as estimated.
    pub memory: usize,
}

/// An exposure of a name: the gateway or record that one object declares for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exposure {
    /// Namespace of the object.
    pub namespace: Arc<str>,
    /// The object that declares the name.
    pub object: ObjectKey,
    /// Time of its creation, in seconds since 1970.
    pub created: u64,
    /// The gateway or record.
    pub declared: Declared,
    /// Number of ready endpoints of its backends; `None` if it is unknown.
    pub ready: Option<u32>,
    /// Its backends, if some may stand for another cluster.
    pub split: Option<Arc<Split>>,
    /// Annotations of the object, and those of its gateway where it has none itself.
    pub dns: Option<Arc<DnsAnnotations>>,
}

/// The gateway or record that an object declares for a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Declared {
    /// A record.
    Endpoint(Endpoint),
    /// Addresses of a gateway.
    Gateway {
        /// The Service or the Gateway of the Gateway API; `None` if it is unknown, as for an Ingress.
        gateway: Option<ObjectKey>,
        /// Its addresses, or those of the annotation `target`; at least one.
        targets: Arc<Targets>,
    },
}

/// A gateway with addresses: a Service for clients outside the cluster, or a Gateway of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewaySummary {
    /// Its key.
    pub key: ObjectKey,
    /// True if labels, selector or class are those of Istio's gateways.
    pub is_istio: bool,
    /// True if it answers at port 15021 whether it is ready.
    pub has_status_port: bool,
    /// Its addresses.
    pub targets: Arc<Targets>,
    /// Addresses of its ready pods, of one family; empty if they are not known.
    pub pods: Vec<IpAddr>,
    /// Number of names that are exposed through it.
    pub hosts: usize,
}

/// A problem of an object, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The object.
    pub object: ObjectKey,
    /// The problem.
    pub message: Arc<str>,
}

impl Graph {
    /// Maximum number of problems that are returned.
    pub(crate) const PROBLEMS_MAX: usize = 1_000;

    /// Returns a graph without objects.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Inserts, replaces or (`None`) removes an object.
    pub(crate) fn apply(&mut self, key: ObjectKey, object: Option<Object>) {
        // Most updates change fields that do not matter here, and each watch begins with objects that are known.
        if self.objects.get(&key) == object.as_ref() {
            return;
        }
        let key = self.with_shared_namespace(key);
        self.memory = self.memory_with(&key, object.as_ref());
        let before = match object {
            Some(object) => self.objects.insert(key.clone(), object),
            None => self.objects.remove(&key),
        };
        let [before, after] = [before.as_ref(), self.objects.get(&key)].map(|object| object.map(|object| &object.body));
        match before.or(after) {
            Some(Body::EndpointSlice(_)) => {
                let slice = |body: Option<&Body>| match body {
                    Some(Body::EndpointSlice(slice)) => slice.service.clone(),
                    _ => None,
                };
                self.endpoints.replace_slice(&key, slice(before), slice(after));
                return; // Only the numbers of endpoints count.
            }
            Some(Body::Service(_)) => self.selectors.replace_service(&key, after.and_then(external)),
            Some(Body::IstioGateway(_)) => {
                let selector = |body: Option<&Body>| match body {
                    Some(Body::IstioGateway(gateway)) => Some(gateway.selector.clone()),
                    _ => None,
                };
                self.selectors.replace_gateway(&key, selector(before), selector(after));
            }
            Some(Body::TrafficSplit(_)) => {
                self.touched.extend(self.splits.replace(&key, [before, after]));
                return; // An evaluation looks up those of a Service with the Service.
            }
            Some(Body::ReferenceGrant(_)) => {
                self.touched.insert(ObjectKey::before(Kind::ReferenceGrant, &key.namespace));
                return; // An evaluation looks up all grants of a namespace together.
            }
            _ => {}
        }
        self.touched.insert(key);
    }

    /// Removes all objects of a kind that are not in `keys`, as after a list of all objects.
    pub(crate) fn retain(&mut self, kind: Kind, keys: &HashSet<ObjectKey>) {
        let start = ObjectKey::before(kind, &Arc::default());
        let of_kind = self.objects.range(start..).map(|(key, _)| key).take_while(|key| key.kind == kind);
        let gone: Vec<_> = of_kind.filter(|key| !keys.contains(*key)).cloned().collect();
        for key in gone {
            self.apply(key, None);
        }
    }

    /// Evaluates the changes since the last call. Returns the names whose exposures changed.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.extend(self.endpoints.refresh(&self.objects));
        touched.extend(self.selectors.refresh());
        let dependents: BTreeSet<_> = touched.iter().flat_map(|key| self.dependents_of(key)).cloned().collect();
        let mut changed = BTreeSet::new();
        touched.extend(dependents);
        for key in touched {
            let after = self.objects.get(&key).map(|object| Evaluation::run(self, &key, object)).unwrap_or_default();
            self.replace(key, after, &mut changed);
        }
        changed
    }

    /// Returns the exposures of a name, in order of creation and key of their objects. The name is in lower case, without final dot.
    pub(crate) fn exposures(&self, name: &str) -> Vec<&Exposure> {
        self.names.exposures(name).iter().map(|exposure| &**exposure).collect()
    }

    /// Returns all names that have an exposure.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter().map(|(name, _)| name)
    }

    /// Returns the gateways that have addresses.
    pub(crate) fn gateways(&self) -> Vec<GatewaySummary> {
        let mut hosts = BTreeMap::<&ObjectKey, usize>::new();
        for (_, exposures) in self.names.iter() {
            let through: BTreeSet<_> = exposures.iter().filter_map(|exposure| exposure.declared.gateway()).collect();
            through.into_iter().for_each(|key| *hosts.entry(key).or_default() += 1);
        }
        let summary = |(key, object): (&ObjectKey, &Object)| {
            let (is_istio, has_status_port, targets) = match &object.body {
                Body::Gateway(gateway) => (gateway.is_istio, false, &gateway.targets),
                body => external(body).map(|service| (service.is_istio, service.has_status_port, &service.targets))?,
            };
            let hosts = hosts.get(key).copied().unwrap_or_default();
            let pods = if key.kind == Kind::Service { self.ready_pods(key) } else { Vec::new() };
            (!targets.is_empty()).then(|| GatewaySummary {
                key: key.clone(),
                is_istio,
                has_status_port,
                targets: Arc::clone(targets),
                pods,
                hosts,
            })
        };
        self.objects.iter().filter_map(summary).collect()
    }

    /// Returns the addresses of the ready pods of a Service. One of two families has all pods.
    fn ready_pods(&self, service: &ObjectKey) -> Vec<IpAddr> {
        let ready = self.endpoints.addresses(&self.objects, service).into_iter().filter(|(_, is_ready)| *is_ready);
        let (v4, v6): (Vec<_>, Vec<_>) = ready.map(|(address, _)| address).partition(|address| address.is_ipv4());
        if v4.is_empty() { v6 } else { v4 }
    }

    /// Returns the services that objects with names lead to.
    pub(crate) const fn exposed(&self) -> &ExposedServices {
        &self.exposed
    }

    /// Returns the services that an object leads to, as `NAMESPACE/NAME`. Those of gateways are in it if the object is one.
    pub(crate) fn services_of(&self, object: &ObjectKey) -> Vec<Arc<str>> {
        let own = Some(object).filter(|key| key.kind == Kind::Service);
        let of_object = self.evaluated.get(object).into_iter().flat_map(Evaluated::services);
        let is_gateway = |key: &ObjectKey| self.objects.get(key).is_some_and(|of| external(&of.body).is_some());
        let all = own.into_iter().chain(of_object.filter(|key| !is_gateway(key)));
        let text = |key: &ObjectKey| Some(Arc::clone(self.exposed.services.get_key_value(&*service_text(key))?.0));
        all.filter_map(text).collect()
    }

    /// Replaces the services, as `NAMESPACE/NAME`, for which the gateways have no healthy endpoint. They count as without ready endpoints.
    pub(crate) fn set_without_endpoint(&mut self, services: &BTreeSet<Arc<str>>) {
        let key = |text: &Arc<str>| {
            let (namespace, name) = text.split_once('/')?;
            Some(ObjectKey::new(Kind::Service, namespace, name))
        };
        let now: BTreeSet<ObjectKey> = services.iter().filter_map(key).collect();
        self.touched.extend(self.without_endpoint.symmetric_difference(&now).cloned());
        self.without_endpoint = now;
    }

    /// Returns the number of ready endpoints of a Service.
    fn ready(&self, service: &ObjectKey) -> u32 {
        if self.without_endpoint.contains(service) { 0 } else { self.endpoints.ready(service) }
    }

    /// Returns the number of ready endpoints of a service, as `NAMESPACE/NAME`; 0 if there is no such Service.
    pub(crate) fn ready_of(&self, service: &str) -> u32 {
        let Some((namespace, name)) = service.split_once('/') else { return 0 };
        let key = ObjectKey::new(Kind::Service, namespace, name);
        if self.objects.contains_key(&key) { self.ready(&key) } else { 0 }
    }

    /// Returns the problems of all objects, at most [`Self::PROBLEMS_MAX`].
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let of_object = |(key, evaluated): (&ObjectKey, &Evaluated)| {
            let problem = |message: &Arc<str>| Problem { object: key.clone(), message: Arc::clone(message) };
            evaluated.problems.iter().map(problem).collect::<Vec<_>>()
        };
        self.evaluated.iter().flat_map(of_object).take(Self::PROBLEMS_MAX).collect()
    }

    /// Returns the number of objects of each kind that has some.
    pub(crate) fn counts(&self) -> BTreeMap<Kind, usize> {
        let mut counts = BTreeMap::new();
        self.objects.keys().for_each(|key| *counts.entry(key.kind).or_default() += 1);
        counts
    }

    /// Returns the memory of the objects in bytes, as estimated.
    pub(crate) const fn memory(&self) -> usize {
        self.memory
    }

    /// Returns true if the graph would have more objects than it may, or more bytes of them, with this object in place of the one that it has.
    pub(crate) fn is_over(&self, limits: Limits, key: &ObjectKey, object: &Object) -> bool {
        let memory = self.memory_with(key, Some(object));
        self.objects.len() >= limits.objects && !self.contains(key) || memory > limits.memory && memory > self.memory
    }

    fn memory_with(&self, key: &ObjectKey, object: Option<&Object>) -> usize {
        let [before, after] = [self.objects.get(key), object].map(|object| object.map_or(0, |of| of.memory(key)));
        self.memory - before + after
    }

    /// Returns true if there is an object with this key.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns the ReferenceGrants of a namespace.
    fn grants<'g>(&'g self, namespace: &'g Arc<str>) -> impl Iterator<Item = &'g ReferenceGrant> {
        let from_namespace = self.objects.range(ObjectKey::before(Kind::ReferenceGrant, namespace)..);
        let of_namespace = from_namespace.take_while(move |(key, _)| key.namespace == *namespace);
        of_namespace.map_while(|(_, object)| match &object.body {
            Body::ReferenceGrant(grant) => Some(&**grant),
            _ => None,
        })
    }

    /// Returns the objects whose evaluation looked up this one.
    fn dependents_of(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        let first = ObjectKey::before(Kind::ALL[0], &Arc::default());
        let key = key.clone();
        let pairs = self.dependents.range((key.clone(), first)..).take_while(move |(looked_up, _)| *looked_up == key);
        pairs.map(|(_, dependent)| dependent)
    }

    /// Returns the key with the namespace in the memory that other objects of the kind use.
    fn with_shared_namespace(&self, key: ObjectKey) -> ObjectKey {
        let next = self.objects.range(ObjectKey::before(key.kind, &key.namespace)..).next();
        let namespace = next.map(|(next, _)| &next.namespace).filter(|namespace| **namespace == key.namespace);
        match namespace {
            Some(namespace) => ObjectKey { namespace: Arc::clone(namespace), ..key },
            None => key,
        }
    }

    /// Replaces the result of an object.
    fn replace(&mut self, key: ObjectKey, mut after: Evaluated, changed: &mut BTreeSet<Arc<str>>) {
        let before = self.evaluated.remove(&key).unwrap_or_default();
        if before.lookups != after.lookups {
            for looked_up in &before.lookups {
                self.dependents.remove(&(looked_up.clone(), key.clone()));
            }
            self.dependents.extend(after.lookups.iter().map(|looked_up| (looked_up.clone(), key.clone())));
        }
        self.expose(&before, &after, &key);
        if before.groups == after.groups {
            after.groups = before.groups; // those that the index of names shares
        } else {
            self.names.replace(&before.groups, &after.groups, changed);
        }
        if !after.is_empty() {
            self.evaluated.insert(key, after);
        }
    }
}

impl Graph {
    /// Counts the services of an object that has names now, or had some before, and replaces its rules.
    fn expose(&mut self, before: &Evaluated, after: &Evaluated, key: &ObjectKey) {
        let services = |evaluated: &Evaluated| -> BTreeSet<Arc<str>> {
            let own = Some(key).filter(|key| key.kind == Kind::Service);
            let all = own.into_iter().chain(evaluated.services()).filter(|_| !evaluated.groups.is_empty());
            all.map(|service| service_text(service).into()).collect()
        };
        let rules = |evaluated: &Evaluated| -> BTreeMap<Arc<str>, Arc<RuleBackends>> {
            evaluated.rules.iter().filter(|_| !evaluated.groups.is_empty()).cloned().collect()
        };
        let (rules_before, rules_after) = (rules(before), rules(after));
        let (before, after) = (services(before), services(after));
        let ExposedServices { services: exposed, rules } = &mut self.exposed;
        for gone in before.difference(&after) {
            match exposed.get(gone).copied() {
                Some(count @ 2..) => _ = exposed.insert(Arc::clone(gone), count - 1),
                _ => _ = exposed.remove(gone),
            }
        }
        for new in after.difference(&before) {
            let count = exposed.get(new).copied().unwrap_or_default();
            exposed.insert(Arc::clone(new), count + 1);
        }
        // No other object has rules of these names.
        for gone in rules_before.keys().filter(|name| !rules_after.contains_key(*name)) {
            rules.remove(gone);
        }
        for (name, backends) in rules_after {
            if rules_before.get(&name) != Some(&backends) {
                rules.insert(name, backends);
            }
        }
    }
}

impl Declared {
    /// Returns the key of the gateway.
    const fn gateway(&self) -> Option<&ObjectKey> {
        match self {
            Self::Gateway { gateway, .. } => gateway.as_ref(),
            Self::Endpoint(_) => None,
        }
    }
}

/// Returns the text of a service: `NAMESPACE/NAME`.
fn service_text(service: &ObjectKey) -> String {
    format!("{}/{}", service.namespace, service.name)
}

/// Returns the fields of a Service for clients outside the cluster.
fn external(body: &Body) -> Option<&ExternalService> {
    match body {
        Body::Service(service) => service.external.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
