//! Export of traces.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

use super::{Converter, monitors::secret, placeholder_url, plain_http::reject_secret_in_clear, publish_to::tls};
use crate::{
    TraceSettings,
    bounds_wire::{As, Plain},
    otel,
    traces_wire::Traces,
};

/// Combines the section and OpenTelemetry's variables; `None` if neither names a collector.
pub(super) fn traces(converter: &mut Converter<'_, '_>, wire: Option<Traces>) -> Option<TraceSettings> {
    let of_variables = otel::endpoint(converter.context);
    let of_file =
        wire.as_ref().and_then(|wire| wire.endpoint.as_ref()).map(|As(url)| url.with_default_path(TraceSettings::PATH));
    let allowed = wire.as_ref().and_then(|wire| wire.allow_plain_http);
    let (has_section, is_overridden) = (wire.is_some(), of_variables.is_some());
    let endpoint = of_variables.or(of_file);
    let has_endpoint = endpoint.is_some();
    let mut settings = TraceSettings::to(endpoint.unwrap_or_else(placeholder_url));
    if let Some(wire) = wire {
        read(converter, wire, &mut settings);
    }
    let is_on = otel::apply(converter.context, &mut settings, is_overridden);
    if has_section && !has_endpoint && is_on {
        let hint = "add endpoint, set OTEL_EXPORTER_OTLP_ENDPOINT, or remove the section";
        converter.error("/traces", "no collector is configured", hint);
    }
    if has_endpoint && is_on && !settings.headers.is_empty() {
        reject_secret_in_clear(converter, "/traces/headers", allowed, [&settings.endpoint]);
    }
    (has_endpoint && is_on).then_some(settings)
}

fn read(converter: &mut Converter<'_, '_>, wire: Traces, settings: &mut TraceSettings) {
    let bounds = Duration::from_millis(100)..=Duration::from_secs(60);
    settings.timeout = converter.bounded("/traces/timeout", wire.timeout, bounds, settings.timeout);
    for (at, header) in wire.headers.plain().unwrap_or_default().into_iter().enumerate() {
        let name = header.name.0;
        let value = secret(converter, format_args!("/traces/headers/{at}/value"), &header.value);
        match (name.parse::<HeaderName>(), value) {
            (Err(_), _) => {
                let what = format!("{name:?} is not a header name");
                converter.error(format_args!("/traces/headers/{at}/name"), what, "write it like Authorization");
            }
            // The value is not shown: it is a secret.
            (_, Some(value)) if HeaderValue::from_str(value.expose().trim()).is_err() => {
                let what = "the value cannot be sent in a header";
                converter.error(format_args!("/traces/headers/{at}/value"), what, "use one line of printable ASCII");
            }
            (Ok(name), Some(value)) => settings.headers.push((name, value)),
            (Ok(_), None) => {}
        }
    }
    let is_encrypted = wire.endpoint.is_none_or(|As(url)| url.is_https());
    settings.tls = tls(converter, "/traces/tls", &wire.tls, is_encrypted).unwrap_or_default();
    settings.protocol = wire.protocol.plain().unwrap_or_default();
    settings.per_million = wire.ratio.map_or(settings.per_million, |ratio| ratio.per_million());
    settings.service = wire.service.plain().unwrap_or_else(|| std::mem::take(&mut settings.service));
    settings.resource = wire.resource.unwrap_or_default();
}
