//! Differences between two configurations while everything is up: client networks, location classes and names.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use fairway_model::{DesiredState, Name, PoolName};
use fairway_zones::{
    Draw,
    steer::{ClientNet, SteerPool},
};

use super::{
    NamesReport, PoolImpact,
    query::{cluster, first, samples_per_pool},
    report_wire::{NameMoved, Share},
};
use crate::Offline;
use fairway_control::samples::samples;

/// Adds to each pool how many of its clients move. A pool is compared with the one that answered the first of its names before.
pub(super) fn compare(before: &Offline, after: &Offline, pools: &mut BTreeMap<PoolName, PoolImpact>) {
    let samples = samples_per_pool(pools.len());
    let snapshot = &after.view.snapshot;
    let mut done = BTreeSet::new();
    for (pool, info) in snapshot.steer_pools().iter().zip(snapshot.pool_infos().iter()) {
        let Some(impact) = pools.get_mut(&info.name).filter(|_| done.insert(&info.name)) else { continue };
        let Some(old) = info.names.iter().find_map(|name| answering(before, name)) else { continue };
        count((before, old), (after, pool), samples, impact);
    }
}

/// Returns the compiled pool that answers a name.
fn answering<'a>(side: &'a Offline, name: &Name) -> Option<&'a SteerPool> {
    let of = &side.desired.names.get(name)?.pool;
    let snapshot = &side.view.snapshot;
    let mut compiled = snapshot.steer_pools().iter().zip(snapshot.pool_infos().iter());
    compiled.find(|(_, info)| info.name == *of && info.names.contains(name)).map(|(pool, _)| pool)
}

/// A compiled pool of a configuration.
type PoolOf<'a> = (&'a Offline, &'a SteerPool);

/// Counts the clients of a pool that move between two configurations, and its shares.
fn count(before: PoolOf<'_>, after: PoolOf<'_>, number: usize, impact: &mut PoolImpact) {
    let answers = |address: IpAddr, draw: Draw| {
        [before, after].map(|(side, pool)| answer(side, pool, pool.client_net(address), draw))
    };
    // The location class in the new configuration.
    let class = |address: IpAddr| after.1.client_net(address).class();
    let mut shares = BTreeMap::<String, [u64; 2]>::new();
    let mut moved = 0u64;
    let mut classes = BTreeSet::new();
    for (address, draw) in samples(number) {
        let [old, new] = answers(address.into(), draw);
        if old != new {
            moved += 1;
            classes.insert(class(address.into()));
        }
        shares.entry(old).or_default()[0] += 1;
        shares.entry(new).or_default()[1] += 1;
    }
    // A block may be too small to contain a sample. So the first address of each block, before or now, is checked as well.
    let blocks = [before, after].into_iter().flat_map(|(_, pool)| pool.location_classes());
    for address in blocks.map(|(client, _)| client.network().address()) {
        let [old, new] = answers(address, Draw(0));
        if old != new {
            classes.insert(class(address));
        }
    }
    let percent = |part: u64| (1000.0 * part as f64 / number as f64).round() / 10.0;
    let share = |(cluster, [before, after]): (String, [u64; 2])| Share {
        cluster,
        before: percent(before),
        after: percent(after),
    };
    impact.moved_percent = Some(percent(moved));
    impact.location_classes_moved = Some(classes.len());
    impact.shares = shares.into_iter().map(share).collect();
}

/// Returns the first cluster of an answer, or [`Share::NO_CLUSTER`].
fn answer(side: &Offline, pool: &SteerPool, client: ClientNet, draw: Draw) -> String {
    let number = first(pool, &side.view.runtime, client, draw);
    number.and_then(|number| cluster(pool, number)).map_or_else(|| Share::NO_CLUSTER.to_owned(), ToString::to_string)
}

/// Returns the names that only one configuration steers, and those that another pool answers.
pub(super) fn names(before: &DesiredState, after: &DesiredState) -> NamesReport {
    let missing = |from: &DesiredState, of: &DesiredState| -> Vec<String> {
        of.names.keys().filter(|name| !from.names.contains_key(*name)).map(ToString::to_string).collect()
    };
    let moved = after.names.values().filter_map(|name| {
        let old = before.names.get(&name.name).filter(|old| old.pool != name.pool)?;
        Some(NameMoved { name: name.name.to_string(), from: old.pool.to_string(), to: name.pool.to_string() })
    });
    NamesReport { added: missing(before, after), removed: missing(after, before), moved: moved.collect() }
}
