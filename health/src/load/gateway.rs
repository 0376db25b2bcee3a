//! What the metrics of one gateway tell: signals of load, and signs that it should be asked less, or soon cannot be. Pure.
//!
//! Names differ by the tag rules of the gateway's statistics. Requests in flight have four forms, all measured:
//!
//! ```text
//! envoy_http_outbound_0_0_0_0_8080_downstream_rq_active{}                           Istio's tags
//! envoy_http_outbound_0_0_0_0_8080__downstream_rq_active{}                          the same with a delimited prefix
//! envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix="x"}               Envoy's own tags
//! envoy_http_0_0_0_8080_downstream_rq_active{envoy_http_conn_manager_prefix="o_0"}  Envoy's tags, Istio's prefix
//! ```
//! The prefixes `admin`, `agent` and `stats` are left out: they count whoever looks at the gateway, which is us.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use fairway_model::{LoadMetric, LoadSignal};

use super::exposition::Sample;

/// Series that one reading adds up, at most.
pub const SERIES_MAX: usize = 65_536;
/// Numbers over this are no amounts: 2^53 - 1, up to which a float counts whole.
pub const AMOUNT_MAX: f64 = 9_007_199_254_740_991.0;
/// Days to the end of a certificate from which on it is a warning.
pub(super) const CERTIFICATE_DAYS: u64 = 14;

/// Why the metrics of a gateway tell nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GatewayError {
    /// A signal whose value is none.
    #[error("{metric} is {value}, which is no amount")]
    Amount {
        /// Its metric.
        metric: String,
        /// What it says.
        value: f64,
    },
    /// Nothing that is known as a signal of load.
    #[error("no signal of load among the metrics; let the gateway show one, or declare metric")]
    NoSignal,
    /// More series than are added up.
    #[error("over {SERIES_MAX} series of load; let the gateway show fewer")]
    TooMany,
    /// A series that stands there twice.
    #[error("a series of {0} stands there twice")]
    Twice(String),
}

/// A sign that a gateway should be asked less, or soon cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GatewayWarning {
    /// A certificate that ends in so many days, at most [`CERTIFICATE_DAYS`]. Told, and nothing else.
    CertificateEnds(u64),
    /// It drains (`envoy_server_live` is 0). Its cluster takes no more than it must.
    Draining,
    /// So many upstream hosts are ejected as outliers. Told, and nothing else.
    Ejections(u64),
    /// An overload monitor over its threshold, or an overload action at work. Its cluster takes no more than it must.
    Overloaded(String),
}

impl GatewayWarning {
    /// Returns true if the gateway is to get no more than it must.
    pub const fn exhausts(&self) -> bool {
        matches!(self, Self::Draining | Self::Overloaded(_))
    }

    /// Returns one word for metrics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CertificateEnds(_) => "certificate",
            Self::Draining => "draining",
            Self::Ejections(_) => "ejections",
            Self::Overloaded(_) => "overloaded",
        }
    }
}

impl std::fmt::Display for GatewayWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CertificateEnds(days) => write!(f, "a certificate ends in {days} days"),
            Self::Draining => f.write_str("it drains"),
            Self::Ejections(count) => write!(f, "{count} upstream hosts ejected"),
            Self::Overloaded(what) => write!(f, "overloaded: {what}"),
        }
    }
}

/// What one look at a gateway showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayMetrics {
    /// Requests in flight.
    pub in_flight: Option<f64>,
    /// Open connections.
    pub connections: Option<f64>,
    /// Requests that were answered so far.
    pub requests: Option<f64>,
    /// The declared metric; its growth counts if it is a rate.
    pub declared: Option<f64>,
    /// Seconds since the gateway's process started.
    pub uptime: Option<f64>,
    /// What else it tells, in order.
    pub warnings: Vec<GatewayWarning>,
}

impl GatewayMetrics {
    /// Returns true if there is anything that load can be read from.
    pub const fn has_signal(&self) -> bool {
        self.in_flight.is_some() || self.connections.is_some() || self.requests.is_some() || self.declared.is_some()
    }
}

/// Picks out of the samples of one gateway what tells of its load.
#[derive(Debug)]
pub struct GatewayCollector<'a> {
    metric: Option<&'a LoadMetric>,
    overload_at: f64,
    shown: GatewayMetrics,
    ejections: f64,
    /// What was added up: a hash of name and labels each.
    series: HashSet<u64>,
    fault: Option<GatewayError>,
}

impl<'a> GatewayCollector<'a> {
    /// Looks for what is known, or for the declared metric in its place.
    pub fn new(metric: Option<&'a LoadMetric>, overload_at: u8) -> Self {
        Self {
            metric,
            overload_at: overload_at.into(),
            shown: GatewayMetrics::default(),
            ejections: 0.0,
            series: HashSet::new(),
            fault: None,
        }
    }

    /// Takes one sample.
    pub fn take(&mut self, sample: Sample<'_>) {
        if self.fault.is_none()
            && let Err(fault) = self.add(&sample)
        {
            self.fault = Some(fault);
        }
    }

    /// What all of them showed.
    pub fn end(mut self) -> Result<GatewayMetrics, GatewayError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if !self.shown.has_signal() {
            return Err(GatewayError::NoSignal);
        }
        if self.ejections >= 1.0 {
            self.shown.warnings.push(GatewayWarning::Ejections(self.ejections as u64));
        }
        self.shown.warnings.sort();
        self.shown.warnings.dedup();
        Ok(self.shown)
    }

    fn add(&mut self, sample: &Sample<'_>) -> Result<(), GatewayError> {
        if let Some(rest) = sample.name.strip_prefix("envoy_") {
            self.warn(rest, sample);
        }
        let Some(signal) = self.signal_of(sample) else { return Ok(()) };
        if !(0.0..=AMOUNT_MAX).contains(&sample.value) {
            return Err(GatewayError::Amount { metric: sample.name.to_owned(), value: sample.value });
        }
        if self.series.len() == SERIES_MAX {
            return Err(GatewayError::TooMany);
        }
        if !self.series.insert(identity(sample)) {
            return Err(GatewayError::Twice(sample.name.to_owned()));
        }
        let sum = match signal {
            LoadSignal::Declared => &mut self.shown.declared,
            LoadSignal::InFlight => &mut self.shown.in_flight,
            LoadSignal::Connections => &mut self.shown.connections,
            LoadSignal::RequestRate => &mut self.shown.requests,
        };
        *sum = Some(sum.unwrap_or(0.0) + sample.value);
        Ok(())
    }

    /// Which signal a sample is a part of.
    fn signal_of(&self, sample: &Sample<'_>) -> Option<LoadSignal> {
        if let Some(metric) = self.metric {
            let fits = |(name, value): &(String, String)| sample.labels.has(name, value);
            let is_it = sample.name == metric.name && metric.labels.iter().all(fits);
            return is_it.then_some(LoadSignal::Declared);
        }
        match sample.name {
            "envoy_server_total_connections" => Some(LoadSignal::Connections),
            "istio_requests_total" => sample.labels.has("reporter", "source").then_some(LoadSignal::RequestRate),
            name => is_in_flight(name, sample).then_some(LoadSignal::InFlight),
        }
    }

    /// Keeps what a gauge of Envoy's warns of; `name` lacks its `envoy_`. What is no number warns of nothing.
    fn warn(&mut self, name: &str, sample: &Sample<'_>) {
        let value = sample.value;
        if name == "server_uptime" {
            self.shown.uptime = Some(value).filter(|uptime| *uptime >= 0.0);
        } else if name == "server_live" && value == 0.0 {
            self.shown.warnings.push(GatewayWarning::Draining);
        } else if name == "server_days_until_first_cert_expiring" {
            // Envoy says the largest number of 32 bits where it has none. A float casts to the nearest number there is.
            if value <= CERTIFICATE_DAYS as f64 {
                self.shown.warnings.push(GatewayWarning::CertificateEnds(value as u64));
            }
        } else if let Some(of) = name.strip_prefix("overload_") {
            let pressed = of.ends_with("pressure") && value >= self.overload_at;
            let active = of.ends_with("active") && value >= 1.0;
            if (pressed || active) && self.shown.warnings.len() < WARNINGS_MAX {
                let what: String = of.chars().take(WARNING_LENGTH_MAX).collect();
                self.shown.warnings.push(GatewayWarning::Overloaded(format!("{what} is {value}")));
            }
        } else if name.starts_with("cluster_") && name.ends_with("outlier_detection_ejections_active") && value >= 1.0 {
            self.ejections = (self.ejections + value).min(AMOUNT_MAX);
        }
    }
}

/// Warnings that are kept of one gateway.
const WARNINGS_MAX: usize = 8;
/// Characters of a metric's name that a warning quotes.
const WARNING_LENGTH_MAX: usize = 100;

/// `^envoy_http_(.*_)?downstream_rq_active$`, without what counts those who look at the gateway.
fn is_in_flight(name: &str, sample: &Sample<'_>) -> bool {
    let Some(inner) = name.strip_prefix("envoy_http_").and_then(|rest| rest.strip_suffix("downstream_rq_active"))
    else {
        return false;
    };
    let is_ours = |prefix: &str| ["admin", "agent", "stats"].contains(&prefix.trim_end_matches(['_', ';']));
    (inner.is_empty() || inner.ends_with('_'))
        && !is_ours(inner)
        && !is_ours(sample.labels.value("envoy_http_conn_manager_prefix"))
        && !is_ours(sample.labels.value("http_conn_manager_prefix"))
}

/// The same for two samples of one series, whatever the order of its labels.
fn identity(sample: &Sample<'_>) -> u64 {
    let hash = |of: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        of(&mut hasher);
        hasher.finish()
    };
    let name = hash(&|hasher| sample.name.hash(hasher));
    sample.labels.iter().fold(name, |sum, label| sum.wrapping_add(hash(&|hasher| label.hash(hasher))))
}
