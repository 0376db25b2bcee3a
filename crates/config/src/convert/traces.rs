//! Export of traces.

use std::{ops::RangeInclusive, time::Duration};

use hyper::header::{HeaderName, HeaderValue};

use super::{Converter, monitors::secret, publish_to::tls};
use crate::{
    TraceSettings,
    bounds_wire::{List, Text},
    otel,
    traces_wire::Traces,
    values_wire::As,
};

/// Combines the section and OpenTelemetry's variables; `None` if neither names a collector.
pub(super) fn traces(converter: &mut Converter<'_, '_>, wire: Option<&Traces>) -> Option<TraceSettings> {
    let variables = otel::read_variables(converter.context);
    let of_file =
        wire.and_then(|wire| wire.endpoint.as_ref()).map(|As(url)| url.with_default_path(TraceSettings::PATH));
    let endpoint = variables.endpoint.clone().or(of_file);
    if wire.is_some() && endpoint.is_none() && !variables.is_off {
        let hint = "add endpoint, set OTEL_EXPORTER_OTLP_ENDPOINT, or remove the section";
        converter.error("/traces", "no collector is configured", hint);
    }
    let mut settings = TraceSettings::to(endpoint?);
    if let Some(wire) = wire {
        read(converter, wire, &mut settings);
    }
    let is_off = variables.is_off;
    variables.apply(&mut settings);
    (!is_off).then_some(settings)
}

fn read(converter: &mut Converter<'_, '_>, wire: &Traces, settings: &mut TraceSettings) {
    let bounds: RangeInclusive<_> = Duration::from_millis(100)..=Duration::from_secs(60);
    settings.timeout = converter.bounded("/traces/timeout", wire.timeout.as_ref(), &bounds, settings.timeout);
    for (at, header) in wire.headers.iter().flat_map(|List(all)| all).enumerate() {
        let Text(name) = &header.name;
        let value = secret(converter, &format!("/traces/headers/{at}/value"), &header.value);
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
    if let Some(tls) = tls(converter, "/traces/tls", &wire.tls) {
        settings.tls = tls;
    }
    let is_given = wire.tls.ca.is_some() || wire.tls.cert.is_some();
    if is_given && wire.endpoint.as_ref().is_some_and(|As(url)| !url.is_https()) {
        let what = "certificates have no effect on an http URL";
        converter.error("/traces/tls", what, "write https://, or remove the certificates");
    }
    settings.protocol = wire.protocol.unwrap_or_default();
    settings.per_million = wire.ratio.as_ref().map_or(settings.per_million, |ratio| ratio.per_million());
    if let Some(Text(service)) = &wire.service {
        settings.service.clone_from(service);
    }
    settings.resource = wire.resource.clone().unwrap_or_default();
}
