//! Load sources, and the source of each cluster.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fairway_health::{MonitorError, load::check_load_source};
use fairway_model::{
    ClusterLoadSource, ClusterName, LoadBounds, LoadEndpoint, LoadMetric, LoadQuery, LoadSignal, LoadSource,
    LoadSourceName, LoadUnit, Subject,
};

use super::{Converter, KeysByType, monitors};
use crate::{
    bounds_wire::{Int, List, Text},
    load_wire::{Load, LoadType, Metric, MetricType, Signal, Unit},
    v1,
    values::TextValue,
    values_wire::{As, Fraction},
};

/// Keys that are allowed for some types only.
const OWN: &KeysByType<LoadType> = &[
    (LoadType::Prometheus, "prometheus", &["port", "path", "signal", "metric", "overloadAt"]),
    (LoadType::Json, "json", &["port", "path", "pointer"]),
    (LoadType::Promql, "promql", &["query", "label"]),
];

/// Returns the load sources by name.
pub(super) fn sources(converter: &mut Converter<'_, '_>, list: Vec<Load>) -> BTreeMap<LoadSourceName, Arc<LoadSource>> {
    let mut sources = BTreeMap::new();
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format!("/load/{index}");
        let As(name) = wire.name.clone();
        reject_foreign_keys(converter, &pointer, &wire);
        let source = source(converter, &pointer, wire);
        if converter.declare(Subject::LoadSource(name.clone()), index) {
            sources.insert(name, Arc::new(source));
        }
    }
    sources
}

/// Returns the load source of each cluster. Of two clusters with the same name, the first one counts.
pub(super) fn cluster_sources(
    converter: &mut Converter<'_, '_>,
    list: &[v1::Cluster],
) -> BTreeMap<ClusterName, ClusterLoadSource> {
    let mut sources = BTreeMap::new();
    for (index, cluster) in list.iter().enumerate() {
        let gateways = cluster.scrape.as_ref().map(|List(list)| list.iter().map(|As(at)| at.clone()).collect());
        match (&cluster.load, gateways) {
            (Some(As(name)), gateways) => {
                let source = ClusterLoadSource { source: name.clone(), gateways: gateways.unwrap_or_default() };
                sources.entry(cluster.name.0.clone()).or_insert(source);
            }
            (None, Some(_)) => {
                let what = "scrape has no effect without a load source";
                converter.error(format_args!("/clusters/{index}/scrape"), what, "add load, or remove scrape");
            }
            (None, None) => {}
        }
    }
    sources
}

/// Returns target and limit of the load of each cluster that declares any.
pub(super) fn bounds(converter: &mut Converter<'_, '_>, list: &[v1::Cluster]) -> BTreeMap<ClusterName, LoadBounds> {
    let mut bounds = BTreeMap::new();
    for (index, cluster) in list.iter().enumerate() {
        if cluster.target.is_none() && cluster.limit.is_none() {
            continue;
        }
        let default = LoadBounds::DEFAULT;
        let limit = cluster.limit.as_ref().map_or_else(|| default.limit(), Fraction::permille);
        let target = cluster.target.as_ref().map_or_else(|| default.target().min(limit), Fraction::permille);
        match LoadBounds::new(target, limit) {
            Ok(found) => _ = bounds.entry(cluster.name.0.clone()).or_insert(found),
            Err(error) => {
                let key = if cluster.target.is_some() { "target" } else { "limit" };
                let text = error.to_string();
                let (what, hint) = text.split_once("; ").unwrap_or((&text, ""));
                converter.error(format_args!("/clusters/{index}/{key}"), what, hint);
            }
        }
    }
    bounds
}

/// Rejects keys of other types, and keys of gateways together with a URL.
fn reject_foreign_keys(converter: &mut Converter<'_, '_>, pointer: &str, wire: &Load) {
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
    converter.reject_foreign_keys(pointer, OWN, wire.kind, &given);
    if wire.url.is_some() && wire.kind != LoadType::Promql {
        for (key, _) in given.iter().filter(|(key, is_given)| *is_given && ["path", "port"].contains(key)) {
            let what = format!("{key} applies to gateways, but url replaces them");
            converter.error(format_args!("{pointer}/{key}"), what, "remove one of them");
        }
    }
}

fn source(converter: &mut Converter<'_, '_>, pointer: &str, mut wire: Load) -> LoadSource {
    let bounds = LoadSource::PERIOD_MIN..=LoadSource::PERIOD_MAX;
    let read = read(converter, pointer, &mut wire);
    let default = LoadSource::new(read);
    let period = converter.bounded(&format!("{pointer}/period"), wire.period.as_ref(), &bounds, default.period);
    let timeout = wire.timeout.map_or_else(|| default.timeout.min(period), |As(timeout): As<Duration>| timeout);
    let source = LoadSource {
        unit: match wire.unit {
            None | Some(Unit::Capacity) => LoadUnit::Capacity,
            Some(Unit::Permille) => LoadUnit::Permille,
        },
        period,
        timeout,
        token: wire.token.and_then(|wire| monitors::secret(converter, &format!("{pointer}/token"), &wire)),
        tls: wire.tls.map(|wire| monitors::tls(converter, &format!("{pointer}/tls"), wire)),
        ..default
    };
    if source.unit == LoadUnit::Permille && matches!(source.query, LoadQuery::Prometheus { metric: None, .. }) {
        let what = "the signals of a gateway are not in permille";
        converter.error(format_args!("{pointer}/unit"), what, "remove it, or declare a metric that is in permille");
    }
    reject_unusable(converter, pointer, &source);
    source
}

fn read(converter: &mut Converter<'_, '_>, pointer: &str, wire: &mut Load) -> LoadQuery {
    let mut need = |key: &str| converter.error(pointer, format!("key {key} is missing"), format!("add {key}"));
    match wire.kind {
        LoadType::Prometheus => {
            let metric = wire.metric.take().map(|wire| metric(converter, &format!("{pointer}/metric"), wire));
            if metric.is_some() && wire.signal.is_some() {
                let what = "signal has no effect if a metric is declared";
                converter.error(format_args!("{pointer}/signal"), what, "remove one of them");
            }
            LoadQuery::Prometheus {
                endpoint: endpoint(wire, 15_090, "/stats/prometheus"),
                signal: wire.signal.map(signal),
                metric,
                overload_at: wire.overload_at.map_or(95, |Int(percent)| percent),
            }
        }
        LoadType::Json => {
            if wire.url.is_none() && wire.port.is_none() {
                need("port");
            }
            let found = wire.pointer.take().map(|Text(pointer)| pointer);
            if found.is_none() {
                need("pointer");
            }
            let found = found.unwrap_or_default();
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
            let placeholder = || As(TextValue::parse("http://localhost").expect("a valid literal"));
            LoadQuery::Promql {
                url: wire.url.take().unwrap_or_else(placeholder).0,
                query: wire.query.take().map(|Text(query)| query).unwrap_or_default(),
                label: wire.label.take().map_or_else(|| "cluster".to_owned(), |Text(label)| label),
            }
        }
    }
}

fn endpoint(wire: &mut Load, port: u16, path: &str) -> LoadEndpoint {
    let (port, path) = (wire.port.map_or(port, |Int(port)| port), wire.path.take().unwrap_or_else(|| path.to_owned()));
    wire.url.take().map_or(LoadEndpoint::Gateways { port, path }, |As(url)| LoadEndpoint::Url(url))
}

fn metric(converter: &mut Converter<'_, '_>, pointer: &str, wire: Metric) -> LoadMetric {
    let word = |text: &str, colon: bool| {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colon && c == ':');
        text.chars().all(letter) && !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty()
    };
    let Text(name) = wire.name;
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
    LoadMetric { name, labels: labels.into_iter().collect(), is_rate: wire.kind == Some(MetricType::Rate) }
}

const fn signal(wire: Signal) -> LoadSignal {
    match wire {
        Signal::Connections => LoadSignal::Connections,
        Signal::InFlight => LoadSignal::InFlight,
        Signal::RequestRate => LoadSignal::RequestRate,
    }
}

/// Rejects a source that could not be asked: invalid paths, tokens, certificates and keys.
fn reject_unusable(converter: &mut Converter<'_, '_>, pointer: &str, source: &LoadSource) {
    let Err(error) = check_load_source(source) else { return };
    let key = match &error {
        MonitorError::Ca(_) => "/tls/ca",
        MonitorError::ClientCertificate(_) => "/tls/cert",
        MonitorError::ClientKey(_) => "/tls/key",
        MonitorError::Path(_) if source.is_per_gateway() => "/path",
        MonitorError::Path(_) => "/url",
        MonitorError::ServerName(_) => "/tls/serverName",
        // The text of the error would show the token.
        MonitorError::Header(_) => {
            let what = "the token cannot be sent: it is not one line of printable ASCII";
            return converter.error(
                format_args!("{pointer}/token"),
                what,
                "check the file or variable for line breaks",
            );
        }
        _ => "",
    };
    let text = error.to_string();
    let (what, hint) = text.split_once("; ").unwrap_or((&text, ""));
    converter.error(format_args!("{pointer}{key}"), what, hint);
}
