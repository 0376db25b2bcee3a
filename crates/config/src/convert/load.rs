//! Load sources.

use std::{fmt::Arguments, sync::Arc};

use fairway_health::{MonitorError, load::check_load_source};
use fairway_model::{LoadEndpoint, LoadMetric, LoadQuery, LoadSource, LoadSourceName, LoadUnit, ProbeAddress};

use super::{Converter, KeysByType, monitors, placeholder_url, plain_http};
use crate::{
    bounds_wire::Plain,
    load_wire::{Load, LoadType, Metric, MetricType},
};

/// Keys that are allowed for some types only.
const OWN: &KeysByType<LoadType> = &[
    (LoadType::Prometheus, &["port", "path", "signal", "metric", "overloadAt"]),
    (LoadType::Json, &["port", "path", "pointer"]),
    (LoadType::Promql, &["query", "label"]),
];

/// Rejects keys of other types, and keys of gateways together with a URL.
fn reject_foreign_keys(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: &Load) {
    let given = [
        ("label", wire.label.is_some()),
        ("metric", wire.metric.is_some()),
        ("overloadAt", wire.overload_at.is_some()),
        ("path", wire.path.is_some()),
        ("pointer", wire.pointer.is_some()),
        ("port", wire.port.is_some()),
        ("query", wire.query.is_some()),
        ("signal", wire.signal.is_some()),
    ];
    converter.reject_foreign_keys(pointer, OWN, &wire.kind.0, &given);
    if wire.url.is_some() && wire.kind.0 != LoadType::Promql {
        for (key, _) in given.iter().filter(|(key, is_given)| *is_given && ["path", "port"].contains(key)) {
            let what = format!("{key} applies to gateways, but url replaces them");
            converter.error(format_args!("{pointer}/{key}"), what, "remove one of them");
        }
    }
}

/// Converts a load source.
pub(super) fn source(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    mut wire: Load,
) -> (LoadSourceName, Arc<LoadSource>) {
    reject_foreign_keys(converter, pointer, &wire);
    let default = LoadSource::new(query(converter, pointer, &mut wire));
    let bounds = LoadSource::PERIOD_MIN..=LoadSource::PERIOD_MAX;
    let period = converter.bounded(format_args!("{pointer}/period"), wire.period, bounds, default.period);
    let source = LoadSource {
        unit: wire.unit.plain().unwrap_or_default(),
        period,
        timeout: wire.timeout.plain().unwrap_or_else(|| default.timeout.min(period)),
        token: wire.token.and_then(|wire| monitors::secret(converter, format_args!("{pointer}/token"), &wire)),
        tls: wire.tls.map(|wire| monitors::tls(converter, format_args!("{pointer}/tls"), wire)),
        ..default
    };
    if source.unit == LoadUnit::Permille && matches!(source.query, LoadQuery::Prometheus { metric: None, .. }) {
        let what = "the signals of a gateway are not in permille";
        converter.error(format_args!("{pointer}/unit"), what, "remove it, or declare a metric that is in permille");
    }
    reject_unusable(converter, pointer, &source);
    if source.token.is_some() && wire.allow_plain_http != Some(true) {
        reject_token_in_clear(converter, pointer, &source);
    }
    (wire.name.0, Arc::new(source))
}

fn query(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: &mut Load) -> LoadQuery {
    let mut need = |key: &str| converter.error(pointer, format!("key {key} is missing"), format!("add {key}"));
    match wire.kind.0 {
        LoadType::Prometheus => {
            let metric = wire.metric.take().map(|wire| metric(converter, format_args!("{pointer}/metric"), wire));
            if metric.is_some() && wire.signal.is_some() {
                let what = "signal has no effect if a metric is declared";
                converter.error(format_args!("{pointer}/signal"), what, "remove one of them");
            }
            LoadQuery::Prometheus {
                endpoint: endpoint(wire, 15_090, "/stats/prometheus"),
                signal: wire.signal.take().plain(),
                metric,
                overload_at: wire.overload_at.take().plain().unwrap_or(95),
            }
        }
        LoadType::Json => {
            if wire.url.is_none() && wire.port.is_none() {
                need("port");
            }
            if wire.pointer.is_none() {
                need("pointer");
            }
            let found = wire.pointer.take().plain().unwrap_or_default();
            if !found.is_empty() && !found.starts_with('/') {
                let what = format!("{found:?} is not a JSON pointer");
                converter.error(format_args!("{pointer}/pointer"), what, "write it like /load (RFC 6901)");
            }
            LoadQuery::Json { endpoint: endpoint(wire, 1, "/"), pointer: found }
        }
        LoadType::Promql => {
            if wire.query.is_none() {
                need("query");
            }
            if wire.url.is_none() {
                need("url");
            }
            LoadQuery::Promql {
                url: wire.url.take().plain().unwrap_or_else(placeholder_url),
                query: wire.query.take().plain().unwrap_or_default(),
                label: wire.label.take().plain().unwrap_or_else(|| "cluster".to_owned()),
            }
        }
    }
}

fn endpoint(wire: &mut Load, port: u16, path: &str) -> LoadEndpoint {
    let port = wire.port.take().plain().unwrap_or(port);
    let path = wire.path.take().unwrap_or_else(|| path.to_owned());
    wire.url.take().plain().map_or(LoadEndpoint::Gateways { port, path }, LoadEndpoint::Url)
}

fn metric(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: Metric) -> LoadMetric {
    let word = |text: &str, colon: bool| {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colon && c == ':');
        text.chars().all(letter) && !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty()
    };
    let name = wire.name.0;
    if !word(&name, true) {
        let what = format!("{name:?} is not a metric name");
        converter.error(format_args!("{pointer}/name"), what, "write the name only; labels have their own key");
    }
    let labels = wire.labels.unwrap_or_default();
    for label in labels.keys().filter(|label| !word(label, false)) {
        let key = label.replace('~', "~0").replace('/', "~1");
        let what = format!("{label:?} is not a label name");
        converter.error(format_args!("{pointer}/labels/{key}"), what, "write it like reporter: source");
    }
    LoadMetric { name, labels: labels.into_iter().collect(), is_rate: wire.kind.plain() == Some(MetricType::Rate) }
}

/// Rejects a token that would be sent over plain HTTP to another machine.
fn reject_token_in_clear(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, source: &LoadSource) {
    let host = match &source.query {
        LoadQuery::Prometheus { endpoint: LoadEndpoint::Url(url), .. }
        | LoadQuery::Json { endpoint: LoadEndpoint::Url(url), .. }
        | LoadQuery::Promql { url, .. } => (!url.https && !is_loopback(&url.address)).then(|| url.address.to_string()),
        // Gateways are on other machines.
        _ => source.tls.is_none().then(|| "gateways".to_owned()),
    };
    if let Some(host) = host {
        plain_http::reject(converter, format_args!("{pointer}/token"), &host);
    }
}

fn is_loopback(address: &ProbeAddress) -> bool {
    match address {
        ProbeAddress::Address(address) | ProbeAddress::OfHost(address, _) => address.is_loopback(),
        ProbeAddress::Socket(socket) => socket.ip().is_loopback(),
        ProbeAddress::Host(name, _) => name == "localhost",
    }
}

/// Rejects a source that could not be asked: invalid paths, tokens, certificates and keys.
fn reject_unusable(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, source: &LoadSource) {
    match check_load_source(source) {
        Ok(()) => {}
        // The text of the error would show the token.
        Err(MonitorError::Header(_)) => {
            let what = "the token cannot be sent: it is not one line of printable ASCII";
            let hint = "check the file or variable for line breaks";
            converter.error(format_args!("{pointer}/token"), what, hint);
        }
        Err(MonitorError::Path(path)) if !source.is_per_gateway() => {
            converter.reject(format_args!("{pointer}/url"), MonitorError::Path(path).to_string());
        }
        Err(error) => {
            let key = monitors::key_of(&error).unwrap_or_default();
            converter.reject(format_args!("{pointer}{key}"), error.to_string());
        }
    }
}
