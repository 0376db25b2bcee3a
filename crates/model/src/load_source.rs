//! Where the load of clusters is read: what is asked, how often, and what its answer counts in.

use std::time::Duration;

use crate::{LoadSignal, LoadSourceName, ProbeAddress, Secret, TlsCheck};

/// A place that tells load, as declared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadSource {
    /// What is asked, and what of the answer counts.
    pub read: LoadQuery,
    /// What its numbers count in.
    pub unit: LoadUnit,
    /// From one reading's due time to the next, before ±10 % jitter; default 10 s, 50 ms to a day.
    pub period: Duration,
    /// A reading that takes longer fails; default 4 s, at most the period.
    pub timeout: Duration,
    /// `Authorization: Bearer` of each request.
    pub token: Option<Secret>,
    /// How TLS is spoken; of a URL, its scheme says whether it is.
    pub tls: Option<TlsCheck>,
}

/// What is asked, and what of the answer counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoadQuery {
    /// Metrics of each gateway of a cluster, in Prometheus' text format.
    Prometheus {
        /// Where.
        at: LoadEndpoint,
        /// The one signal that counts; default the best that all gateways of a cluster show.
        signal: Option<LoadSignal>,
        /// A metric that is the load, in place of those that are known of Envoy and Istio.
        metric: Option<LoadMetric>,
        /// From which pressure on, in per cent, an overload monitor of Envoy takes a gateway out; default 95.
        overload_at: u8,
    },
    /// A number in a JSON text.
    Json {
        /// Where.
        at: LoadEndpoint,
        /// JSON pointer (RFC 6901) to the number; `{cluster}` in it stands for the cluster's name.
        pointer: String,
    },
    /// A query of a Prometheus server: one number a cluster.
    Promql {
        /// The server: scheme, host, port, and the path before `/api/v1/query`.
        url: LoadUrl,
        /// The query; its result is an instant vector.
        query: String,
        /// The label of a result that names its cluster; default `cluster`.
        label: String,
    },
}

/// Where a number is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoadEndpoint {
    /// At each address of a cluster, or where the cluster says instead.
    Gateways {
        /// Port to connect to; default 15090, which is Envoy's own listener for statistics in Istio's gateways.
        port: u16,
        /// Path and query of the request; default `/stats/prometheus`.
        path: String,
    },
    /// At one place for all clusters; `{cluster}` in path and query stands for the cluster's name.
    Url(LoadUrl),
}

/// An `http` or `https` URL without user and password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadUrl {
    /// Whether TLS is spoken.
    pub https: bool,
    /// Host and port.
    pub address: ProbeAddress,
    /// Path and query, beginning with `/`.
    pub path: String,
}

/// A metric that an operator declares to be the load: the sum over all its series that fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadMetric {
    /// Its name.
    pub name: String,
    /// Labels that a series must have with these values.
    pub labels: Vec<(String, String)>,
    /// Whether its growth a second counts (a counter), or what it says (a gauge).
    pub is_rate: bool,
}

/// What the numbers of a source count in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadUnit {
    /// The unit of the cluster's capacity; several gateways add up.
    #[default]
    Capacity,
    /// Permille of the capacity; of several gateways the mean counts.
    Permille,
}

/// From where the load of one cluster is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterLoadSource {
    /// The source.
    pub source: LoadSourceName,
    /// Its gateways, in place of its addresses: one for each pod, for example. Empty for its addresses.
    pub gateways: Vec<ProbeAddress>,
}

impl LoadSource {
    /// Shortest period accepted.
    pub const PERIOD_MIN: Duration = Duration::from_millis(50);
    /// Longest period accepted: load of yesterday steers nothing.
    pub const PERIOD_MAX: Duration = Duration::from_secs(86_400);
    /// How many periods a report counts after it was made (then what it says is unknown).
    pub const PERIODS_HELD: u32 = 3;

    /// A source with the default times (10 s, 4 s), in the unit of the capacity.
    pub const fn new(read: LoadQuery) -> Self {
        Self {
            read,
            unit: LoadUnit::Capacity,
            period: Duration::from_secs(10),
            timeout: Duration::from_secs(4),
            token: None,
            tls: None,
        }
    }

    /// The one signal that counts; none for the best.
    pub const fn signal(&self) -> Option<LoadSignal> {
        match &self.read {
            LoadQuery::Prometheus { signal, .. } => *signal,
            LoadQuery::Json { .. } | LoadQuery::Promql { .. } => None,
        }
    }

    /// The metric that is declared to be the load.
    pub const fn metric(&self) -> Option<&LoadMetric> {
        match &self.read {
            LoadQuery::Prometheus { metric, .. } => metric.as_ref(),
            LoadQuery::Json { .. } | LoadQuery::Promql { .. } => None,
        }
    }

    /// Whether each gateway of a cluster is asked by itself.
    pub const fn asks_gateways(&self) -> bool {
        matches!(
            &self.read,
            LoadQuery::Prometheus { at: LoadEndpoint::Gateways { .. }, .. }
                | LoadQuery::Json { at: LoadEndpoint::Gateways { .. }, .. }
        )
    }
}

impl ClusterLoadSource {
    /// Most gateways of one cluster that are read.
    pub const GATEWAYS_MAX: usize = 64;
}
