//! Statistics of services in the metrics of a gateway. Pure.
//!
//! Envoy's upstream clusters have these names; others are ignored:
//!
//! ```text
//! outbound|80||web.shop.svc.cluster.local       Istio: port, subset, host
//! shop/web/80/da39a3ee5e                        Contour: namespace, service, port, hash
//! shop_web_80                                   Contour, in statistics
//! httproute/shop/web/rule/0                     Envoy Gateway: kind, namespace and name of a route, number of the rule (-1: all rules)
//! httproute/shop/web/rule/0/backend/1           Envoy Gateway: one of several backends of a rule
//! service/shop/web/80                           Envoy Gateway: a service that several rules share
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use fairway_model::{ExposedServices, ServiceCounts};

use super::{exposition::Sample, gateway::AMOUNT_MAX};

/// Statistics of services by `NAMESPACE/NAME`.
pub type Services = BTreeMap<Arc<str>, ServiceCounts>;

/// Collects the statistics of the exposed services.
#[derive(Debug)]
pub(super) struct ServiceCollector {
    exposed: ExposedServices,
    /// Statistics of services by `NAMESPACE/NAME`. Each is looked up for every sample.
    found: HashMap<Arc<str>, Collected>,
    /// True if the gateway has statistics of any upstream cluster.
    has_any: bool,
    /// Key of the last sample.
    key: String,
}

/// Statistics of one service while they are collected.
#[derive(Debug, Default)]
struct Collected {
    /// Sums over its upstream clusters without those of subsets. Their endpoints are all endpoints of the service.
    whole: ServiceCounts,
    /// Sums over its upstream clusters of subsets.
    subsets: ServiceCounts,
    /// True if an upstream cluster also has requests of other services.
    is_shared: bool,
}

/// An upstream cluster of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upstream<'a> {
    /// A service, or a subset of its endpoints.
    Service { namespace: &'a str, name: &'a str, is_subset: bool },
    /// A rule of a route, or one of its backends.
    Rule { rule: &'a str, backend: Option<usize> },
}

impl ServiceCollector {
    pub(super) fn new(exposed: ExposedServices) -> Self {
        Self { exposed, found: HashMap::new(), has_any: false, key: String::new() }
    }

    /// Adds a sample; `name` is without `envoy_`.
    pub(super) fn add(&mut self, name: &str, sample: &Sample<'_>) {
        let count: fn(&mut ServiceCounts) -> &mut Option<u64> = match name {
            "cluster_membership_healthy" => |counts| &mut counts.healthy,
            "cluster_membership_total" => |counts| &mut counts.total,
            "cluster_upstream_rq_active" => |counts| &mut counts.active,
            _ => return,
        };
        // Lazy: most samples have the first label.
        let mut labels = ["cluster_name", "envoy_cluster_name"].into_iter().map(|label| sample.labels.value(label));
        let Some(upstream) = labels.find_map(Upstream::read) else { return };
        self.has_any = true;
        if !(0.0..=AMOUNT_MAX).contains(&sample.value) {
            return;
        }
        let add = |counts: &mut ServiceCounts| {
            let count = count(counts);
            // Both are at most 2^53, so the sum does not overflow.
            *count = Some((count.unwrap_or_default() + sample.value as u64).min(AMOUNT_MAX as u64));
        };
        match upstream {
            Upstream::Service { namespace, name, is_subset } => {
                self.key.clear();
                self.key.extend([namespace, "/", name]);
                let add = |of: &mut Collected| add(if is_subset { &mut of.subsets } else { &mut of.whole });
                if let Some(of) = self.found.get_mut(self.key.as_str()) {
                    add(of);
                } else if let Some((key, _)) = self.exposed.services.get_key_value(self.key.as_str()) {
                    add(self.found.entry(Arc::clone(key)).or_default());
                }
            }
            Upstream::Rule { rule, backend } => {
                let Some(rule) = self.exposed.rules.get(rule) else { return };
                let services = match backend {
                    Some(at) => rule.services.get(at..=at).unwrap_or_default(),
                    None => &rule.services,
                };
                for (at, service) in services.iter().enumerate() {
                    // A rule may have a service several times, with other ports.
                    let Some(key) = service.as_ref().filter(|_| !services[..at].contains(service)) else { continue };
                    let of = self.found.entry(Arc::clone(key)).or_default();
                    // Without a healthy endpoint of any backend, none of them has one. Otherwise each may have all of them.
                    add(&mut of.whole);
                    of.is_shared |= rule.is_shared && backend.is_none();
                }
            }
        }
    }

    /// Returns the statistics; `None` if the gateway has none of services.
    pub(super) fn finish(self) -> Option<Services> {
        self.has_any.then(|| self.found.into_iter().map(|(key, of)| (key, of.counts())).collect())
    }
}

impl Collected {
    /// Returns the statistics. Requests of a subset are in its own upstream cluster only, its endpoints are also in that of the service.
    fn counts(self) -> ServiceCounts {
        let Self { whole, subsets, is_shared } = self;
        let active = whole.active.into_iter().chain(subsets.active).reduce(u64::saturating_add);
        ServiceCounts {
            active: active.filter(|_| !is_shared),
            healthy: whole.healthy.or(subsets.healthy),
            total: whole.total.or(subsets.total),
        }
    }
}

impl<'a> Upstream<'a> {
    /// Reads the name of an upstream cluster. Returns `None` if it is none of a service.
    fn read(cluster: &'a str) -> Option<Self> {
        let service = |namespace, name| Some(Self::Service { namespace, name, is_subset: false });
        if let Some(rest) = cluster.strip_prefix("outbound|") {
            let mut parts = rest.splitn(3, '|').skip(1);
            let subset = parts.next()?;
            let mut labels = parts.next()?.split('.');
            let (name, namespace) = (labels.next()?, labels.next()?);
            let is_service = labels.next()?.trim_end_matches(';') == "svc";
            return is_service.then_some(Self::Service { namespace, name, is_subset: !subset.is_empty() });
        }
        let parts: Vec<&str> = cluster.split('/').take(PARTS_MAX + 1).collect();
        match *parts {
            [kind, _, _, "rule", _] if ROUTES.contains(&kind) => Some(Self::Rule { rule: cluster, backend: None }),
            [kind, _, _, "rule", _, "backend", backend] if ROUTES.contains(&kind) => {
                let (rule, _) = cluster.split_once("/backend/")?;
                Some(Self::Rule { rule, backend: Some(backend.parse().ok()?) })
            }
            // Contour has a hash here, which is longer than a port.
            ["service", namespace, name, port] | ["service", namespace, name, port, _]
                if port.parse::<u16>().is_ok() =>
            {
                service(namespace, name)
            }
            [namespace, name, _, _] => service(namespace, name),
            _ => {
                // Names of namespaces and services have no underscore.
                let (namespace, rest) = cluster.split_once('_')?;
                let (name, port) = rest.split_once('_')?;
                if port.contains('_') { None } else { service(namespace, name) }
            }
        }
    }
}

/// Kinds of routes in names of Envoy Gateway.
const ROUTES: [&str; 5] = ["httproute", "grpcroute", "tlsroute", "tcproute", "udproute"];
/// Maximum number of parts of a name between slashes.
const PARTS_MAX: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_rules_of_upstream_clusters_are_found() {
        let service = |namespace, name, is_subset| Some(Upstream::Service { namespace, name, is_subset });
        let rule = |rule, backend| Some(Upstream::Rule { rule, backend });
        for (cluster, expected) in [
            ("outbound|80||web.shop.svc.cluster.local", service("shop", "web", false)),
            ("outbound|8080|v1|web.shop.svc.corp.example;", service("shop", "web", true)),
            ("outbound|80||web.shop.svc;", service("shop", "web", false)),
            ("outbound|443||api.example.com", None),
            ("outbound|443||api", None),
            ("outbound|80", None),
            ("shop/web/80/da39a3ee5e", service("shop", "web", false)),
            ("service/web/80/da39a3ee5e", service("service", "web", false)),
            ("shop_web_80", service("shop", "web", false)),
            ("shop_web_80_x", None),
            ("httproute/shop/web/rule/0", rule("httproute/shop/web/rule/0", None)),
            ("grpcroute/shop/web/rule/12/backend/3", rule("grpcroute/shop/web/rule/12", Some(3))),
            ("tcproute/shop/db/rule/-1", rule("tcproute/shop/db/rule/-1", None)),
            ("httproute/shop/web/rule/0/backend/x", None),
            ("httproute/shop/web/rule/0/backend/0/x", None),
            ("securitypolicy/shop/web/rule/0", None),
            ("service/shop/web/80", service("shop", "web", false)),
            ("service/shop/web/80/http2", service("shop", "web", false)),
            ("xds-grpc", None),
            ("xds_cluster", None),
            ("", None),
        ] {
            assert_eq!(Upstream::read(cluster), expected, "{cluster}");
        }
    }
}
