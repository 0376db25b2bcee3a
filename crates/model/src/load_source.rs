//! Load sources: where the load of clusters is read, how often, and in which unit.

use std::time::Duration;

use crate::{LoadSignal, LoadSourceName, ProbeAddress, Secret, TlsCheck};

/// A declared load source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadSource {
    /// The query and the part of its response that is the load.
    pub query: LoadQuery,
    /// The unit of its numbers.
    pub unit: LoadUnit,
    /// Time between two readings, before ±10 % jitter; default 10 s, range 50 ms to one day.
    pub period: Duration,
    /// Time after which a reading fails; default 4 s, at most the period.
    pub timeout: Duration,
    /// Token of `Authorization: Bearer` in each request.
    pub token: Option<Secret>,
    /// TLS settings. A URL uses TLS if its scheme is `https`.
    pub tls: Option<TlsCheck>,
}

/// The query and the part of its response that is the load.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoadQuery {
    /// Metrics of each gateway of a cluster, in Prometheus' text format.
    Prometheus {
        /// The endpoint.
        endpoint: LoadEndpoint,
        /// The measurement to use; default the best that all gateways of a cluster offer.
        signal: Option<LoadSignal>,
        /// A metric to use instead of the known ones of Envoy and Istio.
        metric: Option<LoadMetric>,
        /// Pressure of an Envoy overload monitor, in per cent, from which on a gateway counts as exhausted; default 95.
        overload_at: u8,
    },
    /// A number in a JSON text.
    Json {
        /// The endpoint.
        endpoint: LoadEndpoint,
        /// JSON pointer (RFC 6901) to the number; `{cluster}` is replaced by the cluster's name.
        pointer: String,
    },
    /// A query of a Prometheus server, with one result per cluster.
    Promql {
        /// The server: scheme, host, port, and the path before `/api/v1/query`.
        url: LoadUrl,
        /// The query; its result is an instant vector.
        query: String,
        /// The label of a result that names its cluster; default `cluster`.
        label: String,
    },
}

/// The endpoint that a load source reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoadEndpoint {
    /// Each address of a cluster, or the gateways that the cluster names instead.
    Gateways {
        /// Port to connect to; default 15090, which is Envoy's own listener for statistics in Istio's gateways.
        port: u16,
        /// Path and query of the request; default `/stats/prometheus`.
        path: String,
    },
    /// One URL for all clusters; `{cluster}` in path and query is replaced by the cluster's name.
    Url(LoadUrl),
}

/// An `http` or `https` URL without user and password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadUrl {
    /// True if the scheme is `https`.
    pub https: bool,
    /// Host and port.
    pub address: ProbeAddress,
    /// Path and query, beginning with `/`.
    pub path: String,
}

/// A metric that an operator declares to be the load: the sum of all matching series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadMetric {
    /// Its name.
    pub name: String,
    /// Labels that a series must have with these values.
    pub labels: Vec<(String, String)>,
    /// True if the load is its increase per second (a counter), false if it is its value (a gauge).
    pub is_rate: bool,
}

/// The unit of a load source's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadUnit {
    /// The unit of the cluster's capacity; gateways are added up.
    #[default]
    Capacity,
    /// Permille of the capacity; gateways are averaged.
    Permille,
}

/// The load source of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterLoadSource {
    /// The source.
    pub source: LoadSourceName,
    /// Gateways to read instead of the cluster's addresses, one per pod for example. Empty: its addresses.
    pub gateways: Vec<ProbeAddress>,
    /// True if the gateways are pods that were found in the cluster. While none of them can be reached, the cluster's addresses are read.
    pub is_found: bool,
    /// Port at which gateways that were found answer whether they are ready; `None`: they have none.
    pub status_port: Option<u16>,
}

impl LoadSource {
    /// Shortest period accepted.
    pub const PERIOD_MIN: Duration = Duration::from_millis(50);
    /// Longest period accepted: one day, because older load says nothing about the present.
    pub const PERIOD_MAX: Duration = Duration::from_secs(86_400);
    /// Number of periods that a report stays valid; then the load is unknown.
    pub const PERIODS_VALID: u32 = 3;

    /// Returns a source with the default times (10 s, 4 s), in the unit of the capacity.
    pub const fn new(read: LoadQuery) -> Self {
        Self {
            query: read,
            unit: LoadUnit::Capacity,
            period: Duration::from_secs(10),
            timeout: Duration::from_secs(4),
            token: None,
            tls: None,
        }
    }

    /// Returns the declared measurement; `None` means the best one.
    pub const fn signal(&self) -> Option<LoadSignal> {
        match &self.query {
            LoadQuery::Prometheus { signal, .. } => *signal,
            LoadQuery::Json { .. } | LoadQuery::Promql { .. } => None,
        }
    }

    /// Returns the metric that is declared to be the load.
    pub const fn metric(&self) -> Option<&LoadMetric> {
        match &self.query {
            LoadQuery::Prometheus { metric, .. } => metric.as_ref(),
            LoadQuery::Json { .. } | LoadQuery::Promql { .. } => None,
        }
    }

    /// Returns true if each gateway of a cluster is read separately.
    pub const fn is_per_gateway(&self) -> bool {
        matches!(
            &self.query,
            LoadQuery::Prometheus { endpoint: LoadEndpoint::Gateways { .. }, .. }
                | LoadQuery::Json { endpoint: LoadEndpoint::Gateways { .. }, .. }
        )
    }
}
