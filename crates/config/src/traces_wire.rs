//! Traces in the file: a section of version 1.

use std::{collections::BTreeMap, time::Duration};

use fairway_http::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, List, Text, Word, each_once},
    publish_to_wire::CallTls,
    values_wire::{Fraction, Reference},
    words::Words,
};

/// Export of traces over OTLP. Default: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Traces {
    /// URL of the collector, `http` or `https`, without user and password. Over HTTP, `/v1/traces` is added if it has
    /// no path. Default: `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(super) endpoint: Option<As<Url>>,
    /// Protocol of the collector: OTLP over HTTP, usually on port 4318, or over gRPC, usually on port 4317.
    #[schemars(extend("default" = "http/protobuf"))]
    pub(super) protocol: Option<Word<TraceProtocol>>,
    /// Headers of each request, for example for authentication.
    pub(super) headers: Option<List<TraceHeader, 0, 32>>,
    /// True if the headers may be sent without encryption to a host that is not a loopback address.
    #[schemars(extend("default" = false))]
    pub(super) allow_plain_http: Option<bool>,
    /// TLS of the connections.
    #[serde(default)]
    pub(super) tls: CallTls,
    /// Time limit of a request, 100ms to 1m.
    #[schemars(extend("default" = "10s"))]
    pub(super) timeout: Option<As<Duration>>,
    /// Recorded part of the traces that begin here. Traces of incoming requests are recorded if their caller records
    /// them.
    #[schemars(extend("default" = 1.0))]
    pub(super) ratio: Option<Fraction>,
    /// Name of this service in traces (`service.name`).
    #[schemars(extend("default" = "fairway"))]
    pub(super) service: Option<Text<1, 255>>,
    /// Additional resource attributes, by OpenTelemetry's names (`deployment.environment.name`).
    #[serde(default, deserialize_with = "each_once")]
    pub(super) resource: Option<BTreeMap<String, String>>,
}

/// Protocol of a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceProtocol {
    /// OTLP over HTTP in protobuf, usually on port 4318.
    #[default]
    HttpProtobuf,
    /// OTLP over gRPC, usually on port 4317.
    Grpc,
}

impl Words for TraceProtocol {
    const WORDS: &'static [(&'static str, Self)] = &[("http/protobuf", Self::HttpProtobuf), ("grpc", Self::Grpc)];
}

/// A header of each request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TraceHeader {
    /// Name of the header.
    pub(super) name: Text<1, 128>,
    /// Value of the header; always a reference.
    pub(super) value: Reference,
}
