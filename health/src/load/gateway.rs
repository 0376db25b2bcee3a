//! The metrics of one gateway: signals of load, and warnings that it should get less traffic or will soon fail. Pure.
//!
//! Names depend on the tag rules of the gateway's statistics. Requests in flight have four forms, all of them observed:
//!
//! ```text
//! envoy_http_outbound_0_0_0_0_8080_downstream_rq_active{}                           Istio's tags
//! envoy_http_outbound_0_0_0_0_8080__downstream_rq_active{}                          the same with a delimited prefix
//! envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix="x"}               Envoy's own tags
//! envoy_http_0_0_0_8080_downstream_rq_active{envoy_http_conn_manager_prefix="o_0"}  Envoy's tags, Istio's prefix
//! ```
//! The prefixes `admin`, `agent` and `stats` are ignored: they count requests for statistics, including ours.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use fairway_model::{ExposedServices, LoadMetric, LoadSignal};

use super::{
    exposition::Sample,
    services::{ServiceCollector, Services},
};

/// Largest number of series that are added in one reading; 512 KiB of hashes.
pub const SERIES_MAX: usize = 65_536;
/// Largest amount: 2^53 - 1, up to which a float represents every whole number.
pub const AMOUNT_MAX: f64 = 9_007_199_254_740_991.0;
/// Number of days before the expiry of a certificate from which on there is a warning. cert-manager renews certificates of
/// 90 days 30 days before, so at 14 days renewal has failed.
pub(super) const CERTIFICATE_DAYS: u64 = 14;

/// The reason why the metrics of a gateway give no load.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GatewayError {
    /// A signal with an invalid value.
    #[error("{metric} is {value}, which is not an amount")]
    Amount {
        /// The metric.
        metric: String,
        /// Its value.
        value: f64,
    },
    /// Neither a known signal of load nor statistics of services, and no reason to take the gateway out.
    #[error("the metrics have no signal of load; configure the gateway to export one, or declare `metric`")]
    NoSignal,
    /// More than [`SERIES_MAX`] series of load.
    #[error("over {SERIES_MAX} series of load; configure the gateway to export fewer")]
    TooMany,
    /// A duplicate series.
    #[error("a series of {0} occurs twice")]
    Twice(String),
}

/// A warning that a gateway should get less traffic or will soon fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GatewayWarning {
    /// A certificate expires in this many days, at most `CERTIFICATE_DAYS`. Only reported.
    CertificateEnds(u64),
    /// The gateway drains (`envoy_server_live` is 0). It counts as exhausted.
    Draining,
    /// This many upstream hosts are ejected as outliers. Only reported.
    Ejections(u64),
    /// The status port answers another status than 200, as while it starts or drains. The gateway counts as exhausted.
    NotReady,
    /// An overload monitor is over its threshold, or an overload action is active. The gateway counts as exhausted.
    Overloaded(String),
}

impl GatewayWarning {
    /// Values of [`GatewayWarning::kind`].
    pub const KINDS: [&'static str; 5] = ["certificate", "draining", "ejections", "notReady", "overloaded"];

    /// Returns true if the gateway counts as exhausted.
    pub const fn exhausts(&self) -> bool {
        matches!(self, Self::Draining | Self::NotReady | Self::Overloaded(_))
    }

    /// Returns the kind as metrics name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CertificateEnds(_) => "certificate",
            Self::Draining => "draining",
            Self::Ejections(_) => "ejections",
            Self::NotReady => "notReady",
            Self::Overloaded(_) => "overloaded",
        }
    }
}

impl std::fmt::Display for GatewayWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CertificateEnds(days) => write!(f, "a certificate expires in {days} days"),
            Self::Draining => f.write_str("draining"),
            Self::Ejections(count) => write!(f, "{count} upstream hosts ejected"),
            Self::NotReady => f.write_str("not ready"),
            Self::Overloaded(what) => write!(f, "overloaded: {what}"),
        }
    }
}

/// The metrics of one reading of a gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayMetrics {
    /// Requests in flight.
    pub in_flight: Option<f64>,
    /// Open connections.
    pub connections: Option<f64>,
    /// Number of requests answered so far.
    pub requests: Option<f64>,
    /// The declared metric; for a rate, the value of the counter.
    pub declared: Option<f64>,
    /// Time since the process of the gateway started.
    pub uptime: Option<Duration>,
    /// Its warnings, sorted.
    pub warnings: Vec<GatewayWarning>,
    /// Statistics of the exposed services; `None` if the gateway has none, or does not serve yet.
    pub services: Option<Services>,
    /// True if statistics of services were not requested, since all of them are too many bytes.
    pub is_reduced: bool,
    /// Version of Istio's proxy (label `tag` of `istio_build`), at most 64 characters; `None` for other gateways.
    pub version: Option<String>,
}

impl GatewayMetrics {
    /// Returns true if any signal of load is present.
    pub const fn has_signal(&self) -> bool {
        self.in_flight.is_some() || self.connections.is_some() || self.requests.is_some() || self.declared.is_some()
    }
}

/// Collects the metrics of one gateway from its samples.
#[derive(Debug)]
pub struct GatewayCollector<'a> {
    metric: Option<&'a LoadMetric>,
    overload_at: f64,
    metrics: GatewayMetrics,
    ejections: f64,
    services: Option<ServiceCollector>,
    /// Hash of name and labels of each series that was added.
    series: HashSet<u64>,
    error: Option<GatewayError>,
}

impl<'a> GatewayCollector<'a> {
    /// Returns a collector of the known metrics, or of the declared metric instead.
    pub fn new(metric: Option<&'a LoadMetric>, overload_at: u8) -> Self {
        Self {
            metric,
            overload_at: overload_at.into(),
            metrics: GatewayMetrics::default(),
            ejections: 0.0,
            services: None,
            series: HashSet::new(),
            error: None,
        }
    }

    /// Collects the statistics of these services, too.
    pub fn with_services(mut self, exposed: ExposedServices) -> Self {
        self.services = (!exposed.is_empty()).then(|| ServiceCollector::new(exposed));
        self
    }

    /// Adds one sample.
    pub fn add_sample(&mut self, sample: Sample<'_>) {
        if self.error.is_none()
            && let Err(error) = self.add(&sample)
        {
            self.error = Some(error);
        }
    }

    /// Returns the metrics of all samples.
    pub fn finish(mut self) -> Result<GatewayMetrics, GatewayError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.metrics.services = self.services.take().and_then(ServiceCollector::finish);
        // A gateway that drains or is overloaded may export nothing else.
        let is_exhausted = self.metrics.warnings.iter().any(GatewayWarning::exhausts);
        if !self.metrics.has_signal() && !is_exhausted && self.metrics.services.is_none() {
            return Err(GatewayError::NoSignal);
        }
        if self.ejections >= 1.0 {
            self.metrics.warnings.push(GatewayWarning::Ejections(self.ejections as u64));
        }
        self.metrics.warnings.sort();
        self.metrics.warnings.dedup();
        Ok(self.metrics)
    }

    fn add(&mut self, sample: &Sample<'_>) -> Result<(), GatewayError> {
        if let Some(rest) = sample.name.strip_prefix("envoy_") {
            self.warn(rest, sample);
            if let Some(services) = &mut self.services {
                services.add(rest, sample);
            }
        } else if sample.name == "istio_build" && sample.labels.has("component", "proxy") {
            let version: String =
                sample.labels.value("tag").chars().filter(char::is_ascii_graphic).take(VERSION_MAX).collect();
            self.metrics.version = Some(version).filter(|version| !version.is_empty());
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
            LoadSignal::Declared => &mut self.metrics.declared,
            LoadSignal::InFlight => &mut self.metrics.in_flight,
            LoadSignal::Connections => &mut self.metrics.connections,
            LoadSignal::RequestRate => &mut self.metrics.requests,
        };
        *sum = Some(sum.unwrap_or(0.0) + sample.value);
        Ok(())
    }

    /// Returns the signal that a sample is part of.
    fn signal_of(&self, sample: &Sample<'_>) -> Option<LoadSignal> {
        if let Some(metric) = self.metric {
            let has = |(name, value): &(String, String)| sample.labels.has(name, value);
            let is_declared = sample.name == metric.name && metric.labels.iter().all(has);
            return is_declared.then_some(LoadSignal::Declared);
        }
        match sample.name {
            "envoy_server_total_connections" => Some(LoadSignal::Connections),
            "istio_requests_total" => sample.labels.has("reporter", "source").then_some(LoadSignal::RequestRate),
            name => is_in_flight(name, sample).then_some(LoadSignal::InFlight),
        }
    }

    /// Adds the warning of an Envoy gauge; `name` is without `envoy_`. NaN gives no warning.
    fn warn(&mut self, name: &str, sample: &Sample<'_>) {
        let value = sample.value;
        if name == "server_uptime" {
            self.metrics.uptime = Duration::try_from_secs_f64(value).ok();
        } else if name == "server_live" && value == 0.0 {
            self.metrics.warnings.push(GatewayWarning::Draining);
        } else if name == "server_state" && value != 0.0 {
            // Before it is live, a gateway does not know the endpoints.
            self.services = None;
        } else if name == "server_days_until_first_cert_expiring" {
            // Without a certificate, Envoy reports the largest number of 32 bits. The cast saturates.
            if value <= CERTIFICATE_DAYS as f64 {
                self.metrics.warnings.push(GatewayWarning::CertificateEnds(value as u64));
            }
        } else if let Some(of) = name.strip_prefix("overload_") {
            let is_over = of.ends_with("pressure") && value >= self.overload_at;
            let is_active = of.ends_with("active") && value >= 1.0;
            if (is_over || is_active) && self.metrics.warnings.len() < WARNINGS_MAX {
                let what: String = of.chars().take(WARNING_LENGTH_MAX).collect();
                self.metrics.warnings.push(GatewayWarning::Overloaded(format!("{what} is {value}")));
            }
        } else if name.starts_with("cluster_") && name.ends_with("outlier_detection_ejections_active") && value >= 1.0 {
            self.ejections = (self.ejections + value).min(AMOUNT_MAX);
        }
    }
}

/// Largest number of overload warnings of one gateway. Envoy has fewer monitors and actions.
const WARNINGS_MAX: usize = 8;
/// Largest number of characters of a version. A version of a release has about 6, one of a build about 50.
const VERSION_MAX: usize = 64;
/// Largest number of characters of a metric's name in a warning.
const WARNING_LENGTH_MAX: usize = 100;

/// Returns true for `^envoy_http_(.*_)?downstream_rq_active$`, except for listeners that serve statistics.
fn is_in_flight(name: &str, sample: &Sample<'_>) -> bool {
    let Some(inner) = name.strip_prefix("envoy_http_").and_then(|rest| rest.strip_suffix("downstream_rq_active"))
    else {
        return false;
    };
    let is_statistics = |prefix: &str| ["admin", "agent", "stats"].contains(&prefix.trim_end_matches(['_', ';']));
    (inner.is_empty() || inner.ends_with('_'))
        && !is_statistics(inner)
        && !is_statistics(sample.labels.value("envoy_http_conn_manager_prefix"))
        && !is_statistics(sample.labels.value("http_conn_manager_prefix"))
}

/// Returns a hash that two samples have in common if they are of one series, in any order of labels.
fn identity(sample: &Sample<'_>) -> u64 {
    let hash = |of: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        of(&mut hasher);
        hasher.finish()
    };
    let name = hash(&|hasher| sample.name.hash(hasher));
    sample.labels.iter().fold(name, |sum, label| sum.wrapping_add(hash(&|hasher| label.hash(hasher))))
}
