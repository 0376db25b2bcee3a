//! What pools that go by place must find.

use std::collections::{BTreeMap, BTreeSet};

use super::{DesiredState, Subject, Violation, error, nearest, warning};
use crate::{Geo, LatencyTableName, MapName, Pool, Rank};

/// What a pool that goes by place must find: its map and table, places of its members, regions where members are.
pub(super) fn check_places(desired: &DesiredState, pool: &Pool, found: &mut Vec<Violation>) {
    let mut add = |problem: &dyn Fn(Subject) -> Violation| found.push(problem(Subject::Pool(pool.name.clone())));
    let name = &pool.name;
    let (mut map, mut table) = (false, false);
    for rank in pool.policy.places() {
        match rank {
            Rank::Latency { .. } => table = true,
            _ => map = true,
        }
        if rank == Rank::Geo && pool.place.geo == Geo::default() {
            let what = format!("pool {name} ranks by geo, and says no preference");
            add(&|pool| error(pool, &*what, "give geo.prefer or geo.default, or take geo out of the policy"));
        }
    }
    if let Some(why) = missing(map, "map", &desired.maps, pool.place.map.as_ref(), MapName::as_str) {
        add(&|subject| error(subject, format!("pool {name}: {}", why.0), &*why.1));
    }
    let latencies = pool.place.latencies.as_ref();
    if let Some(why) = missing(table, "table of latencies", &desired.latencies, latencies, LatencyTableName::as_str) {
        add(&|subject| error(subject, format!("pool {name}: {}", why.0), &*why.1));
    }
    let clusters = || pool.members.iter().filter_map(|member| desired.clusters.get(&member.cluster));
    if pool.policy.places().any(|rank| rank == Rank::Nearest) {
        for cluster in clusters().filter(|cluster| cluster.location.is_none()) {
            let what =
                format!("pool {name} ranks by nearest, and cluster {} has no location: it comes last", cluster.name);
            add(&|pool| warning(pool, &*what, "give the cluster a location"));
        }
    }
    let regions: BTreeSet<&str> = clusters().filter_map(|c| c.location.as_ref()?.region.as_deref()).collect();
    let geo = &pool.place.geo;
    let wanted: BTreeSet<&str> =
        geo.prefer.iter().flat_map(|p| &p.regions).chain(&geo.default).map(|region| &**region).collect();
    for region in wanted.difference(&regions) {
        let what = format!("pool {name} prefers region {region}, where none of its members is");
        let hint = nearest(region, regions.iter().copied());
        add(&|pool| warning(pool, &*what, &*hint));
    }
}

/// Why something that is named, or needed, cannot be found, and the way out.
fn missing<K: Ord + std::fmt::Display, V>(
    needed: bool,
    kind: &str,
    all: &BTreeMap<K, V>,
    named: Option<&K>,
    text: fn(&K) -> &str,
) -> Option<(String, String)> {
    match named {
        Some(name) if all.contains_key(name) => None,
        Some(name) => Some((format!("{kind} {name} is not declared"), nearest(text(name), all.keys().map(text)))),
        None if !needed || all.len() == 1 => None,
        None if all.is_empty() => {
            Some((format!("its policy needs a {kind}, and none is declared"), "declare one".to_owned()))
        }
        None => Some((format!("its policy needs a {kind}, and {} are declared", all.len()), "say which".to_owned())),
    }
}
