//! How sources of load appear in the file: a section of version 1 in a file of its own.

use std::{collections::BTreeMap, time::Duration};

use fairway_model::{LoadSourceName, LoadUrl};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{Int, Text, each_once},
    v1::Tls,
    values_wire::{As, Reference},
};

/// A source of load: where it is asked how much of clusters is in use. Which keys have a meaning depends on `type`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Load {
    /// Its name.
    pub(super) name: As<LoadSourceName>,
    /// What is asked: metrics of each gateway (`prometheus`), a number in a JSON text (`json`), or one query of a
    /// Prometheus server for many clusters (`promql`).
    #[serde(rename = "type")]
    pub(super) kind: LoadType,
    /// Where, in place of each gateway: scheme, host, port and path. `{cluster}` in its path stands for the cluster's name.
    /// promql: the server, which is needed.
    pub(super) url: Option<As<LoadUrl>>,
    /// prometheus, json: port of the gateways. Default: 15090 for prometheus; needed for json without `url`.
    pub(super) port: Option<Int<u16, 1, 65_535>>,
    /// prometheus, json: path and query at the gateways. Default: `/stats/prometheus` for prometheus, `/` for json.
    pub(super) path: Option<String>,
    /// prometheus: the one signal that counts. Default: the best that all gateways of a cluster show.
    pub(super) signal: Option<Signal>,
    /// prometheus: the metric that is the load, in place of those known of Envoy and Istio.
    pub(super) metric: Option<Metric>,
    /// prometheus: from which pressure on, in per cent, an overload monitor of Envoy takes a gateway out.
    #[schemars(extend("default" = 95))]
    pub(super) overload_at: Option<Int<u8, 1, 100>>,
    /// json: JSON pointer to the number (RFC 6901), needed. `{cluster}` in it stands for the cluster's name.
    pub(super) pointer: Option<Text<0, 1024>>,
    /// promql: the query, needed. Its result is an instant vector.
    pub(super) query: Option<Text<1, 8192>>,
    /// promql: the label of a result that names its cluster. Default: `cluster`.
    pub(super) label: Option<Text<1, 128>>,
    /// What the numbers count in: the unit of the clusters' capacity, or permille of it.
    #[schemars(extend("default" = "capacity"))]
    pub(super) unit: Option<Unit>,
    /// Token that is sent as `Authorization: Bearer`.
    pub(super) token: Option<Reference>,
    /// How TLS is spoken. To gateways it is spoken only if this is there; to a URL as its scheme says.
    pub(super) tls: Option<Tls>,
    /// Time from reading to reading, before ±10 % jitter; 50ms to 1d. `interval` is accepted too.
    #[schemars(extend("default" = "10s"))]
    pub(super) period: Option<As<Duration>>,
    /// A reading that takes longer fails; at most the period. Default: 4s, or the period where that is shorter.
    pub(super) timeout: Option<As<Duration>>,
}

/// What is asked for load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum LoadType {
    /// A number in a JSON text.
    Json,
    /// Metrics of each gateway.
    Prometheus,
    /// One query of a Prometheus server.
    Promql,
}

/// What load is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum Signal {
    /// Open connections.
    Connections,
    /// Requests in flight.
    InFlight,
    /// Requests a second.
    RequestRate,
}

/// What numbers count in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum Unit {
    /// The unit of the capacity.
    Capacity,
    /// Permille of the capacity.
    Permille,
}

/// A metric that is the load: the sum of all its series that fit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LoadMetric")]
pub(super) struct Metric {
    /// Its name.
    pub(super) name: Text<1, 256>,
    /// Labels that a series must have with these values.
    #[serde(default, deserialize_with = "each_once")]
    pub(super) labels: Option<BTreeMap<String, String>>,
    /// What counts: its value (`gauge`), or its growth a second (`rate`, for counters).
    #[serde(rename = "type")]
    #[schemars(extend("default" = "gauge"))]
    pub(super) kind: Option<MetricType>,
}

/// What of a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum MetricType {
    /// Its value.
    Gauge,
    /// Its growth a second.
    Rate,
}
