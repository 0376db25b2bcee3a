//! Clusters, pools, steered names, overrides.

use std::{fmt::Arguments, net::IpAddr, sync::Arc, time::SystemTime};

use fairway_model::{
    Bias, ClientPrefix, Cluster, ClusterHost, ClusterLoadSource, ClusterLocation, Coordinates, DesiredState,
    DownAnswer, KubernetesApi, LoadBounds, Member, Name, OverrideKind, OverrideRule, PinnedPools, Pool, PoolName,
    PoolPattern, SteeredName, Subject, Tier, Ttl, TtlBounds, Weight,
};

use super::{Converter, locations, schedule};
use crate::{
    OverrideSpec,
    bounds_wire::{As, Plain},
    context::Input,
    v1,
    v1_kubernetes::Kubernetes,
    values::{AddressOrHost, TextValue, show},
    values_wire::{Down, Fallback, FallbackTo, Fraction, Prefix, PrefixLength},
    words::LoadOverride,
};

/// Converts the clusters with the source and the bounds of their load. Of two clusters with the same name, the first one
/// counts.
pub(super) fn clusters(converter: &mut Converter<'_, '_>, list: Vec<v1::Cluster>, desired: &mut DesiredState) {
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format_args!("/clusters/{index}");
        let name = wire.name.0;
        let (mut addresses, mut hosts) = (Vec::new(), Vec::new());
        for (at, address) in wire.addresses.plain().unwrap_or_default().plain().into_iter().enumerate() {
            match address {
                AddressOrHost::Address(address) if address.is_unspecified() || address.is_multicast() => {
                    let what = format!("{address} is not an address that traffic can be sent to");
                    let hint = "give the address of the ingress gateway";
                    converter.error(format_args!("{pointer}/addresses/{at}"), what, hint);
                }
                AddressOrHost::Address(address) => addresses.push(address),
                AddressOrHost::Host(name) => {
                    hosts.push(ClusterHost { name: name.to_lowercase(), addresses: Arc::default() })
                }
            }
        }
        let only_host = hosts.first().filter(|_| hosts.len() == 1).map(|host| host.name.clone());
        if wire.load.is_none() && wire.scrape.is_some() {
            let what = "scrape has no effect without a load source";
            converter.error(format_args!("{pointer}/scrape"), what, "add load, or remove scrape");
        }
        let bounds = load_bounds(converter, pointer, wire.target, wire.limit);
        if !converter.declare(Subject::Cluster(name.clone()), index) {
            continue;
        }
        desired.load_bounds.extend(bounds.map(|bounds| (name.clone(), bounds)));
        if let Some(As(source)) = wire.load {
            let gateways = wire.scrape.plain().unwrap_or_default().plain();
            desired
                .cluster_load_sources
                .insert(name.clone(), ClusterLoadSource { source, gateways, is_found: false, status_port: None });
        }
        let location = wire.location.map(|wire| ClusterLocation {
            coordinates: Coordinates::from_degrees(wire.latitude.0, wire.longitude.0),
            region: wire.region.plain(),
            bias: wire.bias.plain().and_then(Bias::new).unwrap_or_default(),
        });
        let kubernetes = wire.kubernetes.map(|wire| Arc::new(kubernetes(converter, pointer, wire)));
        let cluster = Cluster {
            name: name.clone(),
            addresses,
            hosts,
            dns_name: wire.dns_name.plain().or(only_host),
            location,
            capacity: wire.capacity.plain(),
            services: wire.services.map_or_else(|| vec!["*".to_owned()], |As(services)| services.plain()),
            monitor: wire.monitor.plain(),
            fallback_monitor: None,
            kubernetes,
        };
        desired.clusters.insert(name, cluster);
    }
}

/// Converts the Kubernetes API of a cluster. Its files are those of the operator, so no client of our API may name them.
fn kubernetes(converter: &mut Converter<'_, '_>, cluster: Arguments<'_>, wire: Kubernetes) -> KubernetesApi {
    let pointer = format_args!("{cluster}/kubernetes");
    if converter.context.input == Input::ApiObject {
        let what = "kubernetes leads to credentials of this server, so a cluster of the API cannot have it";
        converter.error(pointer, what, "declare the cluster in the configuration file");
    }
    let in_cluster = wire.in_cluster.unwrap_or_default();
    if in_cluster && (wire.kubeconfig.is_some() || wire.context.is_some()) {
        let what = "inCluster uses the credentials of the Pod, and kubeconfig or context name others";
        converter.error(pointer, what, "remove one of them");
    }
    KubernetesApi {
        kubeconfig: wire.kubeconfig.map(|As(path)| converter.path(format_args!("{pointer}/kubeconfig"), &path)),
        context: wire.context.plain(),
        in_cluster,
        secret: wire.secret_ref.map(Into::into),
        gateway: wire.gateway.map(|As(gateway)| (gateway.namespace, gateway.name)),
        capacity_per_pod: wire.capacity_per_pod.plain(),
        events: wire.events.unwrap_or_default(),
    }
}

/// Returns target and limit of the load of a cluster, if any is declared.
fn load_bounds(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    target: Option<Fraction>,
    limit: Option<Fraction>,
) -> Option<LoadBounds> {
    let key = if target.is_some() { "target" } else { "limit" };
    if target.is_none() && limit.is_none() {
        return None;
    }
    let limit = limit.map_or_else(|| LoadBounds::DEFAULT.limit(), Fraction::permille);
    let target = target.map_or_else(|| LoadBounds::DEFAULT.target().min(limit), Fraction::permille);
    let bounds = LoadBounds::new(target, limit);
    bounds.map_err(|error| converter.reject(format_args!("{pointer}/{key}"), error.to_string())).ok()
}

/// Converts a pool.
pub(super) fn pool(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, mut wire: v1::Pool) -> (PoolName, Pool) {
    let policy = super::policy::policy(converter, pointer, &wire);
    schedule::check_step(converter, pointer, &wire);
    let location = locations::rules(converter, pointer, &mut wire);
    if wire.capacity_per_pod.is_some() && !policy.load {
        let what = "the pool has a capacity per pod, but the policy does not use it";
        converter.warn(format_args!("{pointer}/capacityPerPod"), what, "add the step load to the policy, or remove it");
    }
    let default = Pool::new(wire.name.0, policy);
    let mut members = Vec::with_capacity(wire.members.0.len());
    for (number, wire) in wire.members.0.into_iter().enumerate() {
        members.push(member(converter, format_args!("{pointer}/members/{number}"), wire));
    }
    let own = ttl(converter, pointer, wire.ttl).unwrap_or(default.ttl);
    let pool = Pool {
        mode: wire.mode.plain().unwrap_or_default(),
        ttl: own,
        ttl_bounds: ttl_bounds(converter, pointer, own, wire.ttl_min.plain(), wire.ttl_max.plain()),
        answers: wire.answers.plain().unwrap_or(default.answers),
        down: wire.down.map_or(DownAnswer::All, |wire| down(converter, pointer, wire)),
        spread: wire.spread.plain().unwrap_or_default(),
        client_prefix: wire.client_prefix.map_or_else(ClientPrefix::default, client_prefix),
        panic_threshold: wire.panic_threshold.map(Fraction::permille).unwrap_or_default(),
        min_healthy: wire.min_healthy.map(Fraction::permille).unwrap_or_default(),
        location,
        monitor: wire.monitor.plain(),
        weight_by_pods: wire.weight_by.is_some(),
        capacity_per_pod: wire.capacity_per_pod.plain(),
        contributions: wire.contributions.plain(),
        members,
        ..default
    };
    (pool.name.clone(), pool)
}

fn member(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: v1::Member) -> Member {
    Member {
        schedule: schedule::schedule(converter, pointer, wire.open),
        cluster: wire.cluster.0,
        weight: wire.weight.plain().map(Weight).unwrap_or_default(),
        // The type of the key limits the tier to 1..=255.
        tier: wire.tier.and_then(|As(number)| Tier::new(number).ok()).unwrap_or_default(),
        cost: wire.cost.plain().unwrap_or_default(),
        bias: wire.bias.plain().and_then(Bias::new),
        networks: wire.networks.plain().unwrap_or_default().plain(),
        internal: wire.internal.unwrap_or(false),
        monitor: wire.monitor.plain(),
        probe: wire.probe.plain(),
        service: None,
    }
}

fn client_prefix(wire: Prefix) -> ClientPrefix {
    let default = ClientPrefix::default();
    match wire {
        Prefix::V4(As(PrefixLength(v4))) => ClientPrefix { v4, ..default },
        Prefix::Both(both) => {
            ClientPrefix { v4: both.v4.plain().unwrap_or(default.v4), v6: both.v6.plain().unwrap_or(default.v6) }
        }
    }
}

fn down(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: Down) -> DownAnswer {
    let text = match wire {
        Down::Word(As(answer)) => return answer,
        Down::Fallback(Fallback { fallback: FallbackTo::Addresses(As(list)) }) => {
            return DownAnswer::FallbackAddresses(list.plain());
        }
        Down::Fallback(Fallback { fallback: FallbackTo::Text(text) }) => text,
    };
    match (text.parse::<IpAddr>(), Name::parse(&text)) {
        (Ok(address), _) => DownAnswer::FallbackAddresses(vec![address]),
        (_, Ok(name)) => DownAnswer::FallbackCname(name),
        (_, Err(why)) => {
            converter.reject(format_args!("{pointer}/down/fallback"), why);
            DownAnswer::All
        }
    }
}

/// Returns the TTL of a pool or name; at most a day, because answers would not follow health any more.
fn ttl(converter: &mut Converter<'_, '_>, owner: Arguments<'_>, given: Option<As<Ttl>>) -> Option<Ttl> {
    let As(ttl) = given?;
    converter.warn_if_uncached(format_args!("{owner}/ttl"), Some(ttl));
    if ttl.secs() > 86_400 {
        let shown = show(std::time::Duration::from_secs(ttl.secs().into()));
        let what = format!("{shown} is over a day, and answers would not follow health for that long");
        converter.error(format_args!("{owner}/ttl"), what, "the default is 30s");
    }
    Some(ttl)
}

/// Returns the bounds of an adaptive TTL, if any is declared.
fn ttl_bounds(
    converter: &mut Converter<'_, '_>,
    pool: Arguments<'_>,
    own: Ttl,
    min: Option<Ttl>,
    max: Option<Ttl>,
) -> Option<TtlBounds> {
    if min.is_none() && max.is_none() {
        return None;
    }
    converter.warn_if_uncached(format_args!("{pool}/ttlMin"), min);
    let bounds = TtlBounds { short: min.unwrap_or(own), long: max.unwrap_or(own) };
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

/// Converts a steered name.
pub(super) fn name(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    wire: v1::SteeredName,
) -> (Name, SteeredName) {
    let ttl = ttl(converter, pointer, wire.ttl);
    (wire.name.0.clone(), SteeredName { name: wire.name.0, pool: wire.pool.0, ttl })
}

/// Returns the declared overrides. One that matches nothing is a warning: its cluster or pool may be misspelt.
pub(super) fn overrides(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1::Override>,
    desired: &DesiredState,
) -> Vec<OverrideSpec> {
    let mut overrides = Vec::new();
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format!("/overrides/{index}");
        let kind = match override_kind(&wire) {
            Ok(kind) => kind,
            Err((key, what, hint)) => {
                converter.error(format_args!("{pointer}{key}"), what, hint);
                continue;
            }
        };
        let (section, key) = if kind.pools().is_some() { ("pools", "pools") } else { ("clusters", "match") };
        if converter.is_complete(section)
            && let Some((what, hint)) = kind.unmatched(desired, &PinnedPools::new())
        {
            converter.warn(format_args!("{pointer}/{key}"), what, hint);
        }
        overrides.push(OverrideSpec {
            kind,
            reason: wire.reason.0,
            until: SystemTime::from(wire.until.0),
            location: converter.location(&pointer),
        });
    }
    overrides
}

/// Returns the kind of an override: of health with `match` and `action`, of load control with `pools` and `load`. An error has the key
/// that it is about.
fn override_kind(wire: &v1::Override) -> Result<OverrideKind, (&'static str, &'static str, &'static str)> {
    const EITHER: &str = "give either match and action, or pools and load";
    match (&wire.scope, &wire.action, &wire.pools, &wire.load) {
        (Some(As(scope)), Some(As(action)), None, None) => {
            Ok(OverrideKind::Health { scope: scope.clone(), action: *action })
        }
        (None, None, Some(As(pools)), Some(As(LoadOverride::Off))) => {
            Ok(OverrideKind::LoadOff { pools: pools.clone() })
        }
        (Some(_), _, Some(_), _) => {
            Err(("/pools", "an override has either match or pools", "write two overrides, one with each"))
        }
        (Some(_), _, None, Some(_)) => Err(("/load", "load is set for pools, not for clusters", EITHER)),
        (None, Some(_), Some(_), _) => Err(("/action", "action is set for clusters, not for pools", EITHER)),
        (Some(_), None, ..) => Err(("", "key action is missing", "add action: drain, down or up")),
        (None, None, Some(_), None) => Err(("", "key load is missing", "add load: off")),
        (None, Some(_), None, _) => Err(("", "key match is missing", "add match: CLUSTER or CLUSTER/ADDRESS")),
        (None, None, None, Some(_)) => Err(("", "key pools is missing", "add pools: a pattern of pool names")),
        (None, None, None, None) => Err(("", "keys match and pools are missing", EITHER)),
    }
}

/// Returns the rules for overrides. A pattern that matches no pool is a warning, since a misspelt one protects nothing.
pub(super) fn override_rules(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1::OverrideRule>,
    desired: &DesiredState,
) -> Vec<OverrideRule> {
    let rule = |(index, wire): (usize, v1::OverrideRule)| {
        let pools: Vec<PoolPattern> = wire.pools.0.plain();
        for (at, pattern) in pools.iter().enumerate() {
            if converter.is_complete("pools") && !desired.pools.keys().any(|pool| pattern.matches(pool)) {
                let pointer = format_args!("/overrideRules/{index}/pools/{at}");
                let hint = "fix it, unless the pool is declared over the API";
                converter.warn(pointer, format!("{pattern} matches no pool of the files"), hint);
            }
        }
        OverrideRule { pools, min_clusters: wire.min_clusters.0 }
    };
    list.into_iter().enumerate().map(rule).collect()
}
