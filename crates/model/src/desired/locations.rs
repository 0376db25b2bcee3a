//! The rules of a pool that ranks its members by the client's location: its map and latency table, locations of its
//! clusters, and regions that it prefers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use super::{
    DesiredState, Subject, Violation,
    validate::{error, nearest, warning},
};
use crate::{Geo, LatencyTableName, MapName, Pool, Rank};

pub(super) fn check_locations(desired: &DesiredState, pool: &Pool, found: &mut Vec<Violation>) {
    let (name, subject) = (&pool.name, || Subject::Pool(pool.name.clone()));
    let (mut by_region, mut by_distance, mut by_latency) = (false, false, false);
    for rank in pool.policy.location_rankings() {
        match rank {
            Rank::Geo => by_region = true,
            Rank::Nearest => by_distance = true,
            Rank::Latency { .. } => by_latency = true,
            Rank::Tier | Rank::Cost => {}
        }
    }
    if by_region && pool.location.geo == Geo::default() {
        let what = format!("pool {name} has geo in its policy, but no preference");
        found.push(error(subject(), what, "give geo.prefer or geo.default, or remove geo from the policy"));
    }
    let (map, table) = (pool.location.map.as_ref(), pool.location.latencies.as_ref());
    let map = missing(by_region || by_distance, "map", &desired.maps, map, MapName::as_str);
    let table = missing(by_latency, "latency table", &desired.latencies, table, LatencyTableName::as_str);
    for (what, hint) in map.into_iter().chain(table) {
        found.push(error(subject(), format!("pool {name}: {what}"), hint));
    }
    let clusters = || pool.members.iter().filter_map(|member| desired.clusters.get(&member.cluster));
    if by_distance {
        for cluster in clusters().filter(|cluster| cluster.location.is_none()) {
            let cluster = &cluster.name;
            let what = format!("pool {name} has nearest in its policy, but cluster {cluster} has no location");
            found.push(warning(subject(), what, "give the cluster a location; until then it is ranked last"));
        }
    }
    let regions: BTreeSet<&str> = clusters().filter_map(|c| c.location.as_ref()?.region.as_deref()).collect();
    let geo = &pool.location.geo;
    let preferred = geo.prefer.iter().flat_map(|preference| &preference.regions).chain(&geo.default);
    let preferred: BTreeSet<&str> = preferred.map(|region| &**region).collect();
    for region in preferred.difference(&regions) {
        let what = format!("pool {name} prefers region {region}, but none of its members is there");
        found.push(warning(subject(), what, nearest(region, regions.iter().copied())));
    }
}

/// Returns fact and hint if an object that is named or needed cannot be found.
fn missing<K: Ord + Display, V>(
    is_needed: bool,
    kind: &str,
    all: &BTreeMap<K, V>,
    named: Option<&K>,
    text: fn(&K) -> &str,
) -> Option<(String, String)> {
    match named {
        Some(name) if all.contains_key(name) => None,
        Some(name) => Some((format!("{kind} {name} is not declared"), nearest(text(name), all.keys().map(text)))),
        None if !is_needed || all.len() == 1 => None,
        None if all.is_empty() => {
            Some((format!("its policy needs a {kind}, and none is declared"), format!("declare a {kind}")))
        }
        None => {
            let what = format!("its policy needs a {kind}, and {} are declared", all.len());
            Some((what, format!("name the {kind} in the pool")))
        }
    }
}
