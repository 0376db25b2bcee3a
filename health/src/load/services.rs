//! Statistics of services in the metrics of a gateway. Pure.
//!
//! Envoy names its upstream clusters after services in these ways; others are ignored:
//!
//! ```text
//! outbound|80||web.shop.svc.cluster.local       Istio: port, subset, host
//! shop/web/80/da39a3ee5e                        Contour: namespace, service, port, hash
//! shop_web_80                                   Contour, in statistics
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
    found: HashMap<Arc<str>, ServiceCounts>,
    /// True if the gateway has statistics of any upstream cluster.
    has_any: bool,
    /// Key of the last sample.
    key: String,
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
        let labels = ["cluster_name", "envoy_cluster_name"].map(|label| sample.labels.value(label));
        let Some((namespace, service)) = labels.into_iter().find_map(service_of) else { return };
        self.has_any = true;
        if !(0.0..=AMOUNT_MAX).contains(&sample.value) {
            return;
        }
        self.key.clear();
        self.key.extend([namespace, "/", service]);
        if !self.found.contains_key(self.key.as_str()) {
            let Some((key, _)) = self.exposed.get_key_value(self.key.as_str()) else { return };
            self.found.insert(Arc::clone(key), ServiceCounts::default());
        }
        if let Some(count) = self.found.get_mut(self.key.as_str()).map(count) {
            // Both are at most 2^53, so the sum does not overflow.
            *count = Some((count.unwrap_or_default() + sample.value as u64).min(AMOUNT_MAX as u64));
        }
    }

    /// Returns the statistics; `None` if the gateway has none of services.
    pub(super) fn finish(self) -> Option<Services> {
        self.has_any.then(|| self.found.into_iter().collect())
    }
}

/// Returns namespace and name of the service of an upstream cluster.
fn service_of(cluster: &str) -> Option<(&str, &str)> {
    if let Some(rest) = cluster.strip_prefix("outbound|") {
        let mut labels = rest.splitn(3, '|').nth(2)?.split('.');
        let (name, namespace) = (labels.next()?, labels.next()?);
        return (labels.next()?.trim_end_matches(';') == "svc").then_some((namespace, name));
    }
    // Names of namespaces and services have no underscore.
    let parts = |separator, count| {
        let parts: Vec<&str> = cluster.split(separator).take(count + 1).collect();
        (parts.len() == count).then(|| (parts[0], parts[1]))
    };
    parts('/', 4).or_else(|| parts('_', 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_upstream_clusters_are_found() {
        for (cluster, expected) in [
            ("outbound|80||web.shop.svc.cluster.local", Some(("shop", "web"))),
            ("outbound|8080|v1|web.shop.svc.corp.example;", Some(("shop", "web"))),
            ("outbound|80||web.shop.svc;", Some(("shop", "web"))),
            ("outbound|443||api.example.com", None),
            ("outbound|443||api", None),
            ("outbound|80", None),
            ("shop/web/80/da39a3ee5e", Some(("shop", "web"))),
            ("shop_web_80", Some(("shop", "web"))),
            ("httproute/shop/web/rule/0", None),
            ("xds-grpc", None),
            ("", None),
        ] {
            assert_eq!(service_of(cluster), expected, "{cluster}");
        }
    }
}
