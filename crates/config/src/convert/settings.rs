//! Settings of the process.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use fairway_zones::ServerIdentity;

use super::{Converter, publish, store, traces, webhook};
use crate::{
    HealthSettings, LogSettings, QueryLogSettings, QueryLogSink, Settings, TcpSettings, UdpSettings,
    bounds_wire::{Int, List, Text},
    v1, v1_process,
    values::Sample,
    values_wire::{As, HttpAddress},
};

/// Converts the sections about the process. Environment variables are applied later.
pub(super) fn settings(converter: &mut Converter<'_, '_>, config: &v1::Config) -> Settings {
    let default = Settings::default();
    let dns = config.listen.dns.as_ref().map(|List(list)| listen(converter, list));
    Settings {
        dns: dns.unwrap_or(default.dns),
        http: config.listen.http.as_ref().map_or(default.http, |As(HttpAddress(address))| *address),
        access: default.access,
        data_dir: config.data_dir.as_ref().map(|Text(path)| converter.path("/dataDir", path)),
        user: text(config.user.as_ref()),
        log: log(converter, &config.log),
        identity: ServerIdentity {
            version: text(config.identity.version.as_ref()),
            id: text(config.identity.id.as_ref()),
        },
        explain: config.explain.networks.iter().flat_map(|List(list)| list).map(|As(network)| *network).collect(),
        tcp: tcp(converter, &config.tcp),
        udp: UdpSettings {
            workers: config.udp.workers.map(|Int(workers)| usize::from(workers)),
            payload_max: config.udp.payload_max.map_or(default.udp.payload_max, |Int(octets)| octets),
        },
        health: HealthSettings {
            sockets_max: count(config.health.sockets_max, default.health.sockets_max),
            first_round: converter.bounded(
                "/health/firstRound",
                config.health.first_round.as_ref(),
                &(Duration::ZERO..=TEN_MINUTES),
                default.health.first_round,
            ),
        },
        callback: config.ready.callback.as_ref().map(|As(url)| url.clone()),
        traces: traces::traces(converter, config.traces.as_ref()),
        query_log: config.query_log.as_ref().map(|query_log| self::query_log(converter, query_log)),
        store: store::store(converter, &config.store),
        publish: publish::publish(converter, &config.publish),
        publish_owner: publish::owner(&config.publish).to_owned(),
        webhook: config.webhook.as_ref().map(|wire| webhook::webhook(converter, wire)),
        drain_timeout: converter.bounded(
            "/drainTimeout",
            config.drain_timeout.as_ref(),
            &(Duration::ZERO..=TEN_MINUTES),
            default.drain_timeout,
        ),
    }
}

const TEN_MINUTES: Duration = Duration::from_secs(600);
const SHORTEST: Duration = Duration::from_millis(100);

fn listen(converter: &mut Converter<'_, '_>, list: &[As<SocketAddr>]) -> Vec<SocketAddr> {
    let mut seen = BTreeSet::new();
    for (index, As(address)) in list.iter().enumerate() {
        // Port 0 means a different port for each.
        if address.port() != 0 && !seen.insert(*address) {
            converter.error(format_args!("/listen/dns/{index}"), format!("{address} is repeated"), "remove one");
        }
    }
    list.iter().map(|As(address)| *address).collect()
}

fn log(converter: &mut Converter<'_, '_>, log: &v1_process::Log) -> LogSettings {
    let default = LogSettings::default();
    if let Some(what) = log.level.as_ref().and_then(|Text(level)| filter_error(level)) {
        converter.error("/log/level", what, FILTER_HINT);
    }
    LogSettings { filter: text(log.level.as_ref()).unwrap_or(default.filter), format: log.format.unwrap_or_default() }
}

/// Returns why a log filter is invalid; `None` if it is valid.
pub(crate) fn filter_error(filter: &str) -> Option<String> {
    // The parser accepts any word as the name of a target, and so also a misspelt level.
    let word = filter.split(',').map(str::trim).find(|directive| {
        !directive.contains(['=', ':', '[', '_']) && directive.parse::<tracing::level_filters::LevelFilter>().is_err()
    });
    if let Some(word) = word {
        return Some(format!("{word:?} is not a level"));
    }
    let parsed = tracing_subscriber::EnvFilter::try_new(filter);
    parsed.err().map(|error| format!("{filter:?} is not a log filter: {error}"))
}

/// Syntax of a log filter.
pub(crate) const FILTER_HINT: &str =
    "write a level (error, warn, info, debug, trace, off), or TARGET=LEVEL, separated by commas";

fn tcp(converter: &mut Converter<'_, '_>, tcp: &v1_process::Tcp) -> TcpSettings {
    let default = TcpSettings::default();
    let bounds = SHORTEST..=TEN_MINUTES;
    let idle = converter.bounded("/tcp/idleTimeout", tcp.idle_timeout.as_ref(), &bounds, default.idle_timeout);
    let query = converter.bounded("/tcp/queryTimeout", tcp.query_timeout.as_ref(), &bounds, default.query_timeout);
    TcpSettings {
        connections_max: count(tcp.connections_max, default.connections_max),
        per_client_max: count(tcp.per_client_max, default.per_client_max),
        idle_timeout: idle,
        query_timeout: query,
    }
}

fn text<const MIN: usize, const MAX: usize>(given: Option<&Text<MIN, MAX>>) -> Option<String> {
    given.map(|Text(text)| text.clone())
}

fn count(given: Option<Int<u32, 1, 1_000_000>>, default: usize) -> usize {
    given.map_or(default, |Int(count)| usize::try_from(count).unwrap_or(usize::MAX))
}

fn query_log(converter: &Converter<'_, '_>, query_log: &v1_process::QueryLog) -> QueryLogSettings {
    let one_in = query_log.sample.as_ref().map_or(Sample::DEFAULT, |As(sample)| *sample).0;
    let sink = match query_log.file.as_ref().map(|Text(file)| file.as_str()) {
        None | Some("stdout") => QueryLogSink::Stdout,
        Some(path) => QueryLogSink::File(converter.path("/queryLog/file", path)),
    };
    QueryLogSettings { one_in, sink }
}
