//! How traces appear in the file: a section of version 1 in a file of its own.

use std::{collections::BTreeMap, time::Duration};

use fairway_http::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{List, Text, each_once},
    publish_to_wire::CallTls,
    values_wire::{As, Fraction, Reference},
};

/// Destination of traces by OTLP. Default: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Traces {
    /// URL of the collector, `http` or `https`, without user and password. Over HTTP, `/v1/traces` is added if it has no path. Default: the
    /// value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(super) endpoint: Option<As<Url>>,
    /// Protocol of the collector: OTLP over HTTP, usually on port 4318, or over gRPC, usually on port 4317.
    #[schemars(extend("default" = "http/protobuf"))]
    pub(super) protocol: Option<TraceProtocol>,
    /// Headers of each request, such as one that says who asks.
    pub(super) headers: Option<List<TraceHeader, 0, 32>>,
    /// TLS of the connections.
    #[serde(default)]
    pub(super) tls: CallTls,
    /// Longest time of a request, 100ms to 1m.
    #[schemars(extend("default" = "10s"))]
    pub(super) timeout: Option<As<Duration>>,
    /// Which part of the traces that begin here is recorded. Those that come with a request are recorded where they are elsewhere.
    #[schemars(extend("default" = 1.0))]
    pub(super) ratio: Option<Fraction>,
    /// What this service is called in traces (`service.name`).
    #[schemars(extend("default" = "fairway"))]
    pub(super) service: Option<Text<1, 255>>,
    /// What is further said of this server, by the names of OpenTelemetry's resource attributes (`deployment.environment.name`).
    #[serde(default, deserialize_with = "each_once")]
    pub(super) resource: Option<BTreeMap<String, String>>,
}

/// Protocol of a collector.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) enum TraceProtocol {
    /// OTLP over HTTP in protobuf.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
    /// OTLP over gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

/// A header of each request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TraceHeader {
    /// Its name.
    pub(super) name: Text<1, 128>,
    /// Its value, which never stands in a configuration.
    pub(super) value: Reference,
}
