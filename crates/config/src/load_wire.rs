//! Load sources in the file: a section of version 1.

use std::{collections::BTreeMap, time::Duration};

use fairway_model::{LoadSignal, LoadSourceName, LoadUnit, LoadUrl};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Int, Text, Word, each_once},
    v1::Tls,
    values_wire::Reference,
    words::Words,
};

/// A load source: where the load of clusters is read. Some keys are allowed for some types only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Load {
    /// Name of the source.
    pub(super) name: As<LoadSourceName>,
    /// Type: metrics of each gateway (`prometheus`), a number in a JSON document (`json`), or one query of a Prometheus
    /// server for many clusters (`promql`).
    #[serde(rename = "type")]
    pub(super) kind: Word<LoadType>,
    /// URL to ask instead of the gateways. `{cluster}` in its path is replaced by the name of the cluster. promql: URL
    /// of the server; required.
    pub(super) url: Option<As<LoadUrl>>,
    /// prometheus, json: port of the gateways. Default: 15090 for prometheus; required for json without `url`.
    pub(super) port: Option<Int<u16, 1, 65_535>>,
    /// prometheus, json: path and query at the gateways. Default: `/stats/prometheus` for prometheus, `/` for json.
    pub(super) path: Option<String>,
    /// prometheus: the signal to use. Default: the best one that all gateways of a cluster have.
    pub(super) signal: Option<Word<LoadSignal>>,
    /// prometheus: the metric to use as load, instead of the known ones of Envoy and Istio.
    pub(super) metric: Option<Metric>,
    /// prometheus: pressure of an Envoy overload monitor, in per cent, from which on a gateway counts as exhausted.
    #[schemars(extend("default" = 95))]
    pub(super) overload_at: Option<Int<u8, 1, 100>>,
    /// json: JSON pointer to the number (RFC 6901); required. `{cluster}` in it is replaced by the name of the cluster.
    pub(super) pointer: Option<Text<0, 1024>>,
    /// promql: the query; required. Its result is an instant vector.
    pub(super) query: Option<Text<1, 8192>>,
    /// promql: label of a result that contains the name of its cluster. Default: `cluster`.
    pub(super) label: Option<Text<1, 128>>,
    /// Unit of the numbers: that of the clusters' capacity, or permille of the capacity.
    #[schemars(extend("default" = "capacity"))]
    pub(super) unit: Option<Word<LoadUnit>>,
    /// Token to send as `Authorization: Bearer`.
    pub(super) token: Option<Reference>,
    /// True if the token may be sent without encryption to a host that is not a loopback address.
    #[schemars(extend("default" = false))]
    pub(super) allow_plain_http: Option<bool>,
    /// TLS settings. Requests to gateways use TLS only if this key is present; requests to a URL, if its scheme is https.
    pub(super) tls: Option<Tls>,
    /// Time between requests, before ±10 % jitter; 50ms to 1d. `interval` is accepted too.
    #[schemars(extend("default" = "10s"))]
    pub(super) period: Option<As<Duration>>,
    /// Longest time of a request; a longer one fails. At most the period. Default: 4s, or the period if that is
    /// shorter.
    pub(super) timeout: Option<As<Duration>>,
}

/// Type of a load source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadType {
    /// A number in a JSON document.
    Json,
    /// Metrics of each gateway.
    Prometheus,
    /// One query of a Prometheus server.
    Promql,
}

impl Words for LoadType {
    const WORDS: &'static [(&'static str, Self)] =
        &[("json", Self::Json), ("prometheus", Self::Prometheus), ("promql", Self::Promql)];
}

/// A metric to use as load: the sum of all series that match.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LoadMetric")]
pub(super) struct Metric {
    /// Name of the metric.
    pub(super) name: Text<1, 256>,
    /// Labels that a series must have, with these values.
    #[serde(default, deserialize_with = "each_once")]
    pub(super) labels: Option<BTreeMap<String, String>>,
    /// Number to use: its value (`gauge`), or its growth per second (`rate`, for counters).
    #[serde(rename = "type")]
    #[schemars(extend("default" = "gauge"))]
    pub(super) kind: Option<Word<MetricType>>,
}

/// Use of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricType {
    /// Its value.
    Gauge,
    /// Its growth per second.
    Rate,
}

impl Words for MetricType {
    const WORDS: &'static [(&'static str, Self)] = &[("gauge", Self::Gauge), ("rate", Self::Rate)];
}
