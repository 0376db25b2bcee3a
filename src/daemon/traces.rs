//! Options of the trace export, from the configuration.

use fairway_config::{Settings, TraceProtocol, TraceSettings};
use fairway_http::header::{HeaderMap, HeaderValue};
use fairway_telemetry::traces::{self, TraceOptions, Traces};

/// Starts the export of traces. An error is logged; it must not prevent the start of a name server.
pub(super) fn start_traces(settings: &Settings) -> Traces {
    let Some(settings) = &settings.traces else { return Traces::default() };
    Traces::start(&trace_options(settings)).unwrap_or_else(|error| {
        tracing::error!(%error, "traces are off: exporter rejected its options");
        Traces::default()
    })
}

fn trace_options(settings: &TraceSettings) -> TraceOptions {
    let TraceSettings { endpoint, protocol, headers: pairs, tls, timeout, per_million, service, resource } =
        settings.clone();
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        if let Ok(mut value) = HeaderValue::from_str(value.expose().trim()) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    let protocol = match protocol {
        TraceProtocol::HttpProtobuf => traces::TraceProtocol::HttpProtobuf,
        TraceProtocol::Grpc => traces::TraceProtocol::Grpc,
    };
    TraceOptions { endpoint, protocol, headers, tls, timeout, per_million, service, resource }
}
