//! Load of a cluster: the part of its capacity in use, with source and age.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Instant,
};

use crate::{Backend, ClusterName, SharedMap};

/// Load of one cluster, in permille of its declared capacity: 1000 = full, more = overloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load(pub u32);

impl Load {
    /// A cluster at its capacity.
    pub const FULL: Self = Self(1000);
    /// The largest load, a hundred times the capacity; a larger one is reported as this.
    pub const MAX: Self = Self(100_000);

    /// Returns the load of `used`, in the unit of the capacity; rounded up, so that a used cluster never has load 0.
    pub fn of(used: u64, capacity: std::num::NonZeroU64) -> Self {
        let permille = (u128::from(used) * 1000).div_ceil(u128::from(capacity.get()));
        Self(u32::try_from(permille).map_or(Self::MAX.0, |permille| permille.min(Self::MAX.0)))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} %", self.0 / 10, self.0 % 10)
    }
}

/// The kind of measurement behind a load, best first: if a gateway offers several, the first one is used.
///
/// Its words (`inFlight`) are those of configuration, API and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
#[strum(serialize_all = "camelCase")]
pub enum LoadSignal {
    /// Declared by the operator: an expression, a feed, a push.
    Declared,
    /// Requests in flight (Envoy's `downstream_rq_active`, summed over listeners).
    InFlight,
    /// Open connections (Envoy's `server.total_connections`).
    Connections,
    /// Requests a second (Istio's `istio_requests_total` with `reporter="source"`).
    RequestRate,
}

/// One report of the load of a cluster, or of a service there, by one source.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// The cluster, or the service.
    pub backend: Backend,
    /// Its load.
    pub load: Load,
    /// The measurement behind it.
    pub signal: LoadSignal,
    /// Number of the report among those of this source and backend; a report that does not increase it is ignored.
    pub sequence: u64,
    /// The time of the measurement, by this host's monotonic clock.
    pub at: Instant,
}

/// Statistics of a service at the gateways of a cluster: sums over the gateways, and over the upstream clusters of its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Requests in flight (Envoy's `upstream_rq_active`). Gateways that do not report it count as the average of the others.
    pub active: Option<u64>,
    /// Endpoints that the gateways use (Envoy's `membership_healthy`). Those of other services may be among them, if they share an upstream
    /// cluster; 0 means that there is none.
    pub healthy: Option<u64>,
    /// Endpoints that the gateways know (Envoy's `membership_total`).
    pub total: Option<u64>,
}

/// Statistics of the exposed services of a cluster, as its gateways last reported them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceReport {
    /// The services by `NAMESPACE/NAME`.
    pub counts: BTreeMap<Arc<str>, ServiceCounts>,
    /// Services for which no gateway has a healthy endpoint.
    pub without_endpoint: BTreeSet<Arc<str>>,
    /// The time of the measurement, by this host's monotonic clock.
    pub at: Instant,
}

/// The reports of all clusters whose gateways have statistics of services.
pub type ServiceReports = BTreeMap<ClusterName, Arc<ServiceReport>>;

/// The services that names of a cluster lead to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExposedServices {
    /// Number of objects that lead to each service, by `NAMESPACE/NAME`.
    pub services: SharedMap<Arc<str>, u32>,
    /// Backends of each rule of a route, by the name that Envoy Gateway gives its upstream cluster.
    pub rules: SharedMap<Arc<str>, Arc<RuleBackends>>,
}

/// The backends of a rule of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleBackends {
    /// Its backends in the order of the rule: the service, as `NAMESPACE/NAME`; `None` for any other backend, and for one without traffic.
    pub services: Box<[Option<Arc<str>>]>,
    /// True if several backends get traffic, so that statistics of the rule are of all of them together.
    pub is_shared: bool,
}

impl ExposedServices {
    /// Returns no services.
    pub const fn new() -> Self {
        Self { services: SharedMap::new(), rules: SharedMap::new() }
    }

    /// Returns true if there are no services.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }
}

impl FromIterator<(Arc<str>, u32)> for ExposedServices {
    /// Returns services that no rule of a route leads to.
    fn from_iter<I: IntoIterator<Item = (Arc<str>, u32)>>(services: I) -> Self {
        Self { services: services.into_iter().collect(), rules: SharedMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_rounded_up_and_capped() {
        let of = |used, capacity: u64| Load::of(used, capacity.try_into().unwrap()).0;
        assert_eq!([of(0, 7), of(1, 1_000_000), of(400, 800), of(800, 800)], [0, 1, 500, 1000]);
        assert_eq!(of(u64::MAX, 1), Load::MAX.0);
        assert_eq!(Load(1375).to_string(), "137.5 %");
    }
}
