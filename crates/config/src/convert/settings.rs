//! Settings of the process.

use std::{collections::BTreeSet, mem, net::SocketAddr, time::Duration};

use fairway_health::ProbeNetworks;
use fairway_hosts::ResolverSettings;
use fairway_zones::ServerIdentity;

use super::{Converter, cookies, rate_limit, store, traces, webhook};
use crate::{
    HealthListenerSettings, HealthSettings, LandlockSettings, LogSettings, QueryLogSettings, QueryLogSink, Settings,
    TcpSettings, UdpSettings, WithdrawalSettings,
    bounds_wire::{As, List, Plain, Text},
    landlock_wire::Landlock,
    reason::Reason,
    v1, v1_process,
    values::Sample,
    values_wire::{HttpAddress, SampleRate},
};

/// Converts the sections about the process, which it takes. Environment variables are applied later.
pub(super) fn settings(converter: &mut Converter<'_, '_>, config: &mut v1::Config) -> Settings {
    let default = Settings::default();
    let networks = mem::take(&mut config.health.networks).unwrap_or_default();
    let (health, udp, identity) = (&config.health, &config.udp, mem::take(&mut config.identity));
    let publish_owner = config.publish.owner.take().plain().unwrap_or_else(|| Settings::PUBLISH_OWNER.to_owned());
    Settings {
        dns: config.listen.dns.take().map_or(default.dns, |As(list)| listen(converter, list.plain())),
        http: config.listen.http.map_or(default.http, |As(HttpAddress(address))| address),
        health_listener: config.listen.health.take().map(|wire| health_listener(converter, wire)),
        access: default.access,
        data_dir: config.data_dir.as_ref().map(|As(path)| converter.path("/dataDir", path)),
        user: config.user.take().plain(),
        landlock: landlock(converter, mem::take(&mut config.landlock)),
        log: log(converter, mem::take(&mut config.log)),
        identity: ServerIdentity { version: identity.version.plain(), id: identity.id.plain() },
        challenge: config.evidence.challenge.unwrap_or(default.challenge),
        explain: config.explain.networks.take().plain().unwrap_or_default().plain(),
        cookies: cookies::cookies(converter, config.cookies.take()),
        rate_limits: config.rate_limit.take().map(|wire| rate_limit::rate_limits(converter, wire)),
        tcp: tcp(converter, &config.tcp),
        udp: UdpSettings {
            workers: udp.workers.plain(),
            payload_max: udp.payload_max.plain().unwrap_or(default.udp.payload_max),
        },
        health: HealthSettings {
            sockets_max: health.sockets_max.plain().unwrap_or(default.health.sockets_max),
            first_round: converter.bounded(
                "/health/firstRound",
                health.first_round,
                Duration::ZERO..=TEN_MINUTES,
                default.health.first_round,
            ),
            networks: ProbeNetworks {
                allow: networks.allow.plain().unwrap_or_default().plain(),
                deny: networks.deny.plain().unwrap_or_default().plain(),
                credentials: networks.credentials.plain().unwrap_or_default().plain(),
            },
            tenant_probes_max: health.tenant_probes_max.plain().unwrap_or(default.health.tenant_probes_max),
        },
        resolvers: resolvers(converter, mem::take(&mut config.resolvers), default.resolvers),
        callback: config.ready.callback.take().plain(),
        traces: traces::traces(converter, config.traces.take()),
        query_log: config.query_log.take().map(|query_log| self::query_log(converter, query_log)),
        limits: mem::take(&mut config.limits).into(),
        history: (mem::take(&mut config.history), mem::take(&mut config.events)).into(),
        store: store::store(converter, mem::take(&mut config.store)),
        // Filled in once the clusters are known.
        publish: Vec::new(),
        publish_owner,
        webhook: config.webhook.take().map(|wire| webhook::webhook(converter, wire)),
        withdrawals: withdrawals(converter, &config.withdrawals, default.withdrawals),
        override_rules: default.override_rules,
        drain_timeout: converter.bounded(
            "/drainTimeout",
            config.drain_timeout,
            Duration::ZERO..=TEN_MINUTES,
            default.drain_timeout,
        ),
    }
}

fn resolvers(
    converter: &mut Converter<'_, '_>,
    wire: v1_process::Resolvers,
    default: ResolverSettings,
) -> ResolverSettings {
    ResolverSettings {
        servers: wire.servers.map_or(default.servers, |As(servers)| servers.plain()),
        keep_for: converter.bounded("/resolvers/keepFor", wire.keep_for, Duration::ZERO..=YEAR, default.keep_for),
    }
}

fn withdrawals(
    converter: &mut Converter<'_, '_>,
    wire: &v1_process::Withdrawals,
    default: WithdrawalSettings,
) -> WithdrawalSettings {
    let mut bounded = |key: &str, given, default| {
        converter.bounded(format_args!("/withdrawals/{key}"), given, Duration::ZERO..=THIRTY_DAYS, default)
    };
    WithdrawalSettings {
        hold_for: bounded("holdFor", wire.hold_for, default.hold_for),
        hold_last_for: bounded("holdLastFor", wire.hold_last_for, default.hold_last_for),
    }
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);
const THIRTY_DAYS: Duration = Duration::from_secs(30 * 86_400);
const TEN_MINUTES: Duration = Duration::from_secs(600);
const SHORTEST: Duration = Duration::from_millis(100);

fn listen(converter: &mut Converter<'_, '_>, list: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut seen = BTreeSet::new();
    for (index, address) in list.iter().enumerate() {
        // Port 0 means a different port for each.
        if address.port() != 0 && !seen.insert(*address) {
            converter.error(format_args!("/listen/dns/{index}"), format!("{address} is repeated"), "remove one");
        }
    }
    list
}

fn health_listener(converter: &mut Converter<'_, '_>, wire: v1_process::HealthListener) -> HealthListenerSettings {
    let v1_process::HealthListener { address: As(address), metrics, networks } = wire;
    let (metrics, networks) = (metrics.unwrap_or(false), networks.plain().unwrap_or_default().plain());
    let settings = HealthListenerSettings { address, metrics, networks };
    if let Some(why) = settings.exposed_metrics() {
        converter.reject("/listen/health/metrics", why);
    }
    settings
}

fn landlock(converter: &Converter<'_, '_>, wire: Landlock) -> LandlockSettings {
    let paths = |key: &str, given: Option<List<Text<1>, 1, 64>>| {
        let paths = given.plain().unwrap_or_default().plain();
        let path = |(at, path): (usize, &String)| converter.path(format_args!("/landlock/{key}/{at}"), path);
        paths.iter().enumerate().map(path).collect()
    };
    LandlockSettings {
        enabled: wire.enabled.unwrap_or(true),
        read: paths("read", wire.read),
        execute: paths("execute", wire.execute),
        write: paths("write", wire.write),
    }
}

fn log(converter: &mut Converter<'_, '_>, log: v1_process::Log) -> LogSettings {
    let filter = log.level.plain().unwrap_or_else(|| LogSettings::default().filter);
    if let Err(why) = check_filter(&filter) {
        converter.reject("/log/level", why);
    }
    LogSettings { filter, format: log.format.plain().unwrap_or_default() }
}

/// Checks a log filter.
pub(crate) fn check_filter(filter: &str) -> Result<(), Reason> {
    const HINT: &str = "write a level (error, warn, info, debug, trace, off), or TARGET=LEVEL, separated by commas";
    // The parser accepts any word as the name of a target, and so also a misspelt level.
    let word = filter.split(',').map(str::trim).find(|directive| {
        !directive.contains(['=', ':', '[', '_']) && directive.parse::<tracing::level_filters::LevelFilter>().is_err()
    });
    if let Some(word) = word {
        return Err(Reason::new(format!("{word:?} is not a level"), HINT));
    }
    let parsed = tracing_subscriber::EnvFilter::try_new(filter);
    parsed.map(|_| ()).map_err(|error| Reason::new(format!("{filter:?} is not a log filter: {error}"), HINT))
}

fn tcp(converter: &mut Converter<'_, '_>, tcp: &v1_process::Tcp) -> TcpSettings {
    let default = TcpSettings::default();
    let bounds = SHORTEST..=TEN_MINUTES;
    TcpSettings {
        connections_max: tcp.connections_max.plain().unwrap_or(default.connections_max),
        per_client_max: tcp.per_client_max.plain().unwrap_or(default.per_client_max),
        idle_timeout: converter.bounded("/tcp/idleTimeout", tcp.idle_timeout, bounds.clone(), default.idle_timeout),
        query_timeout: converter.bounded("/tcp/queryTimeout", tcp.query_timeout, bounds, default.query_timeout),
    }
}

fn query_log(converter: &Converter<'_, '_>, query_log: v1_process::QueryLog) -> QueryLogSettings {
    let sink = match query_log.file.plain().as_deref() {
        None | Some("stdout") => QueryLogSink::Stdout,
        Some(path) => QueryLogSink::File(converter.path("/queryLog/file", path)),
    };
    QueryLogSettings { one_in: query_log.sample.map_or(Sample::DEFAULT.0, SampleRate::one_in), sink }
}
