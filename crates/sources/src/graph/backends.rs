//! The backends of an object: their ready endpoints, and the weights of those that may stand for other clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::evaluation::Evaluation;
use crate::{
    objects::{Backend, Backends, Body, EndpointOrigin, Kind, Object, ObjectKey, Service, TrafficSplit},
    splits::{Place, Readiness, Split, SplitPart},
};

/// The TrafficSplits of each Service.
#[derive(Debug, Default)]
pub(super) struct SplitIndex(BTreeMap<ObjectKey, BTreeSet<ObjectKey>>);

impl SplitIndex {
    /// Replaces a TrafficSplit, which was about a Service and is about another, or the same, one. Returns both.
    pub(super) fn replace(&mut self, split: &ObjectKey, bodies: [Option<&Body>; 2]) -> BTreeSet<ObjectKey> {
        let [before, after] = bodies.map(|body| match body {
            Some(Body::TrafficSplit(of)) => {
                Some(ObjectKey::new(Kind::Service, Arc::clone(&split.namespace), Arc::clone(&of.service)))
            }
            _ => None,
        });
        if let Some(service) = before.as_ref().filter(|_| before != after)
            && let Some(splits) = self.0.get_mut(service)
        {
            splits.remove(split);
            if splits.is_empty() {
                self.0.remove(service);
            }
        }
        if let Some(service) = after.clone() {
            self.0.entry(service).or_default().insert(split.clone());
        }
        before.into_iter().chain(after).collect()
    }
}

/// The endpoints that names lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reached {
    /// Number of ready endpoints of all backends; `None` if it is unknown.
    pub(super) ready: Option<u32>,
    /// The backends, if some may stand for another cluster.
    pub(super) split: Option<Arc<Split>>,
}

/// The backends of an object while they are collected.
#[derive(Default)]
pub(super) struct Collected {
    backends: Vec<CollectedBackend>,
    /// Creation and key of the oldest TrafficSplit.
    split: Option<(u64, ObjectKey)>,
}

/// A backend with the weight `weight * part / sum`.
struct CollectedBackend {
    /// The Service; `None` for any other backend.
    service: Option<ObjectKey>,
    ready: Option<u32>,
    place: Option<Place>,
    weight: u64,
    part: u64,
    sum: u64,
}

impl Collected {
    /// Adds a backend that is no Service of the cluster, or is missing there.
    pub(super) fn add_unknown(&mut self, weight: u32, ready: Option<u32>) {
        let backend = CollectedBackend { service: None, ready, place: None, weight: weight.into(), part: 1, sum: 1 };
        self.backends.push(backend);
    }
}

impl<'g> Evaluation<'g> {
    /// Returns the endpoints of the backends of an Ingress or a route.
    pub(super) fn reach(&mut self, backends: &Backends) -> Reached {
        let mut collected = Collected::default();
        for (backend, weight) in backends {
            match backend {
                Backend::Other => collected.add_unknown(*weight, None),
                Backend::Service { namespace, name } => {
                    let key = ObjectKey::new(Kind::Service, Arc::clone(namespace), Arc::clone(name));
                    if self.is_permitted(namespace, name) && !self.collect(&key, *weight, &mut collected) {
                        self.report(|| format!("backend {key} does not exist, so it has no ready endpoint"));
                        collected.add_unknown(*weight, Some(0));
                    }
                }
            }
        }
        self.reached(collected, !backends.is_empty())
    }

    /// Adds a Service, or those that its TrafficSplit has in its place. Returns false if it does not exist.
    pub(super) fn collect(&mut self, service: &ObjectKey, weight: u32, collected: &mut Collected) -> bool {
        let Some(apex) = self.service_at(service) else { return false };
        let Some((key, object, split)) = self.split_of(service) else {
            collected.backends.push(self.backend(service.clone(), Some(apex), [weight.into(), 1, 1]));
            return true;
        };
        let origin = (object.created, key.clone());
        collected.split = collected.split.take().map(|oldest| oldest.min(origin.clone())).or(Some(origin));
        let mut backends = Vec::new();
        for (name, part) in &split.backends {
            let backend = ObjectKey::new(Kind::Service, Arc::clone(&service.namespace), Arc::clone(name));
            match self.service_at(&backend) {
                Some(of) if !has_common_port(apex, of) => self.report(|| {
                    format!("backend {backend} of {key} gets no traffic, because it has no port of {service}")
                }),
                of => {
                    if of.is_none() {
                        self.report(|| {
                            format!("backend {backend} of {key} does not exist, so it has no ready endpoint")
                        });
                    }
                    backends.push((backend, of, u64::from(*part)));
                }
            }
        }
        if backends.iter().all(|(.., part)| *part == 0) {
            self.report(|| format!("the weights of {key} are 0, so its backends get equal parts"));
            backends.iter_mut().for_each(|(.., part)| *part = 1);
        }
        let sum = backends.iter().map(|(.., part)| part).sum();
        for (backend, of, part) in backends {
            collected.backends.push(self.backend(backend, of, [weight.into(), part, sum]));
        }
        true
    }

    fn backend(&self, key: ObjectKey, service: Option<&Service>, [weight, part, sum]: [u64; 3]) -> CollectedBackend {
        let (ready, place) = match service.map(|service| &service.origin) {
            None => (Some(0), None),
            Some(EndpointOrigin::Host(host)) => (None, host.clone().map(Place::Host)),
            Some(EndpointOrigin::Pods) => (Some(self.graph.ready(&key)), None),
            Some(EndpointOrigin::Written) => {
                let addresses = self.graph.endpoints.addresses(&self.graph.objects, &key);
                let addresses: Box<[_]> = addresses.into_iter().map(|(address, _)| address).collect();
                let is_few = (1..=Place::ADDRESSES_MAX).contains(&addresses.len());
                (Some(self.graph.ready(&key)), is_few.then_some(Place::Addresses(addresses)))
            }
        };
        CollectedBackend { service: Some(key), ready, place, weight, part, sum }
    }

    /// Returns the TrafficSplit that is used for a Service: the oldest one for all of its traffic. Reports the others.
    fn split_of(&mut self, service: &ObjectKey) -> Option<(&'g ObjectKey, &'g Object, &'g TrafficSplit)> {
        let of_service = self.graph.splits.0.get(service)?;
        let mut used: Option<(&ObjectKey, &Object, &TrafficSplit)> = None;
        let mut splits: Vec<_> =
            of_service.iter().filter_map(|key| Some((key, self.graph.objects.get(key)?))).collect();
        splits.sort_by_key(|(key, object)| (object.created, *key));
        for (key, object) in splits {
            let Body::TrafficSplit(split) = &object.body else { continue };
            match used {
                _ if split.has_matches => self.report(|| {
                    format!("{key} has matches, so it does not split all traffic of {service}; it is left out")
                }),
                _ if split.backends.is_empty() => self.report(|| format!("{key} has no backend; it is left out")),
                None => used = Some((key, object, split)),
                Some((older, _, of)) if of.backends != split.backends => self.report(|| {
                    format!("{key} is left out, because {older} splits {service} already, and takes precedence")
                }),
                Some(_) => {}
            }
        }
        used
    }

    fn service_at(&mut self, key: &ObjectKey) -> Option<&'g Service> {
        match &self.look_up(key)?.body {
            Body::Service(service) => Some(service),
            _ => None,
        }
    }

    /// Returns the endpoints of all collected backends. A Service that is reached in two ways counts once.
    pub(super) fn reached(&self, collected: Collected, is_declared: bool) -> Reached {
        let Collected { backends, split } = collected;
        let whole = backends.iter().map(|of| of.sum).fold(1, common_multiple);
        let mut parts = BTreeMap::<Option<ObjectKey>, SplitPart>::new();
        let mut others = Vec::new();
        for CollectedBackend { service, ready, place, weight, part, sum } in backends {
            let exact = u128::from(weight) * u128::from(part) * u128::from(whole);
            let least = u128::from(weight > 0 && part > 0);
            let weight = u64::try_from((exact / u128::from(sum)).max(least)).unwrap_or(u64::MAX);
            let new = SplitPart { weight: 0, ready, place };
            if service.is_none() {
                others.push(SplitPart { weight, ..new });
                continue;
            }
            let of_service = parts.entry(service).or_insert(new);
            of_service.weight = of_service.weight.saturating_add(weight);
        }
        let parts: Box<[SplitPart]> = parts.into_values().chain(others).collect();
        let with_traffic = parts.iter().filter(|part| part.weight > 0).map(|part| part.ready);
        let ready = with_traffic.fold(Readiness::new(is_declared), Readiness::with).ready();
        let is_weighted = self.key.kind != Kind::Ingress || split.is_some();
        let (created, object) = split.unwrap_or_else(|| (self.object.created, self.key.clone()));
        let is_split = parts.iter().any(|part| part.place.is_some());
        let split = is_split.then(|| Arc::new(Split { created, object, is_weighted, parts }));
        Reached { ready, split }
    }
}

/// Returns true if traffic for one Service can go to another. One without ports, as an ExternalName may be, takes all.
fn has_common_port(apex: &Service, backend: &Service) -> bool {
    let is_any = |service: &Service| service.ports.is_empty();
    is_any(apex) || is_any(backend) || backend.ports.iter().any(|port| apex.ports.contains(port))
}

/// Returns the least common multiple, up to a limit: then parts are rounded.
fn common_multiple(a: u64, b: u64) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (a / divisor(a, b)).saturating_mul(b).min(WHOLE_MAX)
}

/// Largest multiple by which weights are scaled, so that parts of TrafficSplits stay whole.
const WHOLE_MAX: u64 = 1_000_000_000;
