//! Clusters, pools, steered names, overrides.

use std::{collections::BTreeMap, fmt::Arguments, net::IpAddr, time::SystemTime};

use fairway_model::{
    AnswerMode, Bias, ClientPrefix, Cluster, ClusterLocation, ClusterName, Coordinates, DesiredState, DownAnswer,
    Member, Name, OverrideAction, Pool, PoolName, SharedMap, Spread, SteeredName, Subject, Tier, Ttl, TtlBounds,
    Weight,
};

use super::{Converter, locations, schedule};
use crate::{
    OverrideSpec,
    bounds_wire::{Int, List, Text},
    v1,
    values::{TextValue, show},
    values_wire::{As, Down, DownWord, Fallback, FallbackTo, Fraction, Prefix, PrefixLength},
};

/// Returns the clusters by name.
pub(super) fn clusters(converter: &mut Converter<'_, '_>, list: Vec<v1::Cluster>) -> BTreeMap<ClusterName, Cluster> {
    let mut clusters = BTreeMap::new();
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format_args!("/clusters/{index}");
        let As(name) = wire.name;
        let List(addresses) = wire.addresses;
        for (at, As(address)) in addresses.iter().enumerate() {
            if address.is_unspecified() || address.is_multicast() {
                let what = format!("{address} is not an address that traffic can be sent to");
                converter.error(
                    format_args!("{pointer}/addresses/{at}"),
                    what,
                    "give the address of the ingress gateway",
                );
            }
        }
        if !converter.declare(Subject::Cluster(name.clone()), index) {
            continue;
        }
        let location = wire.location.map(|wire| ClusterLocation {
            coordinates: Coordinates::from_degrees(wire.latitude.0, wire.longitude.0),
            region: wire.region.map(|Text(region)| region),
            bias: wire.bias.and_then(|Int(bias)| Bias::new(bias)).unwrap_or_default(),
        });
        let cluster = Cluster {
            name: name.clone(),
            addresses: addresses.into_iter().map(|As(address)| address).collect(),
            dns_name: wire.dns_name.map(|As(name)| name),
            location,
            capacity: wire.capacity.map(|Int(capacity)| capacity),
            services: wire
                .services
                .map_or_else(every_service, |List(list)| list.into_iter().map(|Text(of)| of).collect()),
        };
        clusters.insert(name, cluster);
    }
    clusters
}

/// Default services of a cluster: all.
fn every_service() -> Vec<String> {
    vec!["*".to_owned()]
}

/// Returns the pools by name.
pub(super) fn pools(converter: &mut Converter<'_, '_>, list: Vec<v1::Pool>) -> SharedMap<PoolName, Pool> {
    let mut pools = Vec::with_capacity(list.len());
    for (index, wire) in list.into_iter().enumerate() {
        let pool = pool(converter, format_args!("/pools/{index}"), wire);
        if converter.declare(Subject::Pool(pool.name.clone()), index) {
            pools.push((pool.name.clone(), pool));
        }
    }
    pools.into_iter().collect()
}

fn pool(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: v1::Pool) -> Pool {
    let policy = super::policy::policy(converter, pointer, &wire);
    schedule::check_step(converter, pointer, &wire);
    let fraction = |given: Option<&Fraction>| given.map(Fraction::permille).unwrap_or_default();
    let keys = locations::LocationKeys { map: wire.map, geo: wire.geo, nearest: wire.nearest, latency: wire.latency };
    let location = locations::rules(converter, pointer, keys);
    let default = Pool::new(wire.name.0, policy);
    let mut members = Vec::with_capacity(wire.members.0.len());
    for (number, wire) in wire.members.0.into_iter().enumerate() {
        members.push(member(converter, format_args!("{pointer}/members/{number}"), wire));
    }
    let own = ttl(converter, pointer, wire.ttl).unwrap_or(default.ttl);
    Pool {
        mode: match wire.mode {
            None | Some(v1::Mode::Address) => AnswerMode::Address,
            Some(v1::Mode::Cname) => AnswerMode::Cname,
        },
        ttl: own,
        ttl_bounds: ttl_bounds(converter, pointer, own, (wire.ttl_min, wire.ttl_max)),
        answers: wire.answers.map_or(default.answers, |Int(answers)| answers),
        down: wire.down.map_or(DownAnswer::All, |wire| down(converter, pointer, wire)),
        spread: match wire.spread {
            None | Some(v1::Spread::Client) => Spread::Client,
            Some(v1::Spread::Query) => Spread::Query,
        },
        client_prefix: wire.client_prefix.map_or_else(ClientPrefix::default, client_prefix),
        panic_threshold: fraction(wire.panic_threshold.as_ref()),
        min_healthy: fraction(wire.min_healthy.as_ref()),
        location,
        monitor: wire.monitor.map(|As(name)| name),
        members,
        ..default
    }
}

fn member(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: v1::Member) -> Member {
    Member {
        schedule: schedule::schedule(converter, pointer, wire.open),
        cluster: wire.cluster.0,
        weight: wire.weight.map(|Int(weight)| Weight(weight)).unwrap_or_default(),
        // The type of the key limits the tier to 1..=255.
        tier: wire.tier.and_then(|Int(number)| Tier::new(number).ok()).unwrap_or_default(),
        cost: wire.cost.map_or(0, |Int(cost)| cost),
        bias: wire.bias.and_then(|Int(bias)| Bias::new(bias)),
        networks: wire
            .networks
            .map_or_else(Vec::new, |List(list)| list.into_iter().map(|As(network)| network).collect()),
        internal: wire.internal.unwrap_or(false),
        monitor: wire.monitor.map(|As(name)| name),
        probe: wire.probe.map(|As(probe)| probe),
    }
}

fn client_prefix(wire: Prefix) -> ClientPrefix {
    let default = ClientPrefix::default();
    match wire {
        Prefix::V4(As(PrefixLength(v4))) => ClientPrefix { v4, ..default },
        Prefix::Both(both) => {
            ClientPrefix { v4: both.v4.map_or(default.v4, |Int(v4)| v4), v6: both.v6.map_or(default.v6, |Int(v6)| v6) }
        }
    }
}

fn down(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: Down) -> DownAnswer {
    let fallback = match wire {
        Down::Word(DownWord::All) => return DownAnswer::All,
        Down::Word(DownWord::Empty) => return DownAnswer::Empty,
        Down::Word(DownWord::LastGood) => return DownAnswer::LastGood,
        Down::Word(DownWord::Refuse) => return DownAnswer::Refuse,
        Down::Fallback(Fallback { fallback }) => fallback,
    };
    match fallback {
        FallbackTo::Addresses(List(list)) => {
            DownAnswer::FallbackAddresses(list.into_iter().map(|As(address)| address).collect())
        }
        FallbackTo::Text(text) => match (text.parse::<IpAddr>(), Name::parse(&text)) {
            (Ok(address), _) => DownAnswer::FallbackAddresses(vec![address]),
            (_, Ok(name)) => DownAnswer::FallbackCname(name),
            (_, Err(rejection)) => {
                converter.error(format_args!("{pointer}/down/fallback"), rejection.what, rejection.hint);
                DownAnswer::All
            }
        },
    }
}

/// Returns the TTL of a pool or name; at most a day, because answers would not follow health any more.
fn ttl(converter: &mut Converter<'_, '_>, owner: Arguments<'_>, given: Option<As<Ttl>>) -> Option<Ttl> {
    let As(ttl) = given?;
    if ttl.secs() > 86_400 {
        let shown = show(std::time::Duration::from_secs(ttl.secs().into()));
        converter.error(
            format_args!("{owner}/ttl"),
            format!("{shown} is over a day, and answers would not follow health for that long"),
            "the default is 30s",
        );
    }
    Some(ttl)
}

/// Returns the bounds of an adaptive TTL, if any is declared.
fn ttl_bounds(
    converter: &mut Converter<'_, '_>,
    pool: Arguments<'_>,
    own: Ttl,
    (min, max): (Option<As<Ttl>>, Option<As<Ttl>>),
) -> Option<TtlBounds> {
    if min.is_none() && max.is_none() {
        return None;
    }
    let bounds = TtlBounds { short: min.map_or(own, |As(ttl)| ttl), long: max.map_or(own, |As(ttl)| ttl) };
    if bounds.short > own {
        let what = format!("ttlMin {} is over the TTL {own}", bounds.short);
        converter.error(format_args!("{pool}/ttlMin"), what, "give at most the TTL");
    }
    if bounds.long < own {
        let what = format!("ttlMax {} is under the TTL {own}", bounds.long);
        converter.error(format_args!("{pool}/ttlMax"), what, "give at least the TTL");
    }
    if bounds.long.secs() > 86_400 {
        let what = format!("ttlMax {} is over a day, and answers would not follow health for that long", bounds.long);
        converter.error(format_args!("{pool}/ttlMax"), what, "give at most 1d");
    }
    Some(bounds)
}

/// Returns the steered names.
pub(super) fn names(converter: &mut Converter<'_, '_>, list: Vec<v1::SteeredName>) -> SharedMap<Name, SteeredName> {
    // Collected first: building a map from a list is several times as fast as inserting, and most lists are sorted.
    let mut names = Vec::with_capacity(list.len());
    for (index, wire) in list.into_iter().enumerate() {
        let As(name) = wire.name;
        let ttl = ttl(converter, format_args!("/names/{index}"), wire.ttl);
        if converter.declare(Subject::Name(name.clone()), index) {
            names.push((name.clone(), SteeredName { name, pool: wire.pool.0, ttl }));
        }
    }
    names.into_iter().collect()
}

/// Returns the declared overrides. One that matches nothing is a warning: its cluster may be misspelt.
pub(super) fn overrides(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1::Override>,
    desired: &DesiredState,
) -> Vec<OverrideSpec> {
    let mut overrides = Vec::new();
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format!("/overrides/{index}");
        let As(scope) = wire.scope;
        let matched = |c: &Cluster| c.addresses.iter().any(|address| scope.matches(&c.name, *address));
        if converter.is_complete("clusters") && !desired.clusters.values().any(matched) {
            let what = format!("{scope} matches no address of any cluster");
            converter.warn(format_args!("{pointer}/match"), what, "fix it, or remove the override");
        }
        overrides.push(OverrideSpec {
            scope,
            action: match wire.action {
                v1::Action::Drain => OverrideAction::Drain,
                v1::Action::Down => OverrideAction::Down,
                v1::Action::Up => OverrideAction::Up,
            },
            reason: wire.reason.0,
            until: SystemTime::from(wire.until.0),
            location: converter.location(&pointer),
        });
    }
    overrides
}
