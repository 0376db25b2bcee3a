//! What moves between two configurations while all is up: client networks, places, names.

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
    ask::{cluster, first, samples_each},
    report_wire::{NameMoved, Share},
};
use fairway_control::Offline;
use fairway_control::samples::samples;

/// Adds to each pool what becomes of its clients. A pool is held against the one that answered the first of its names before.
pub(super) fn compare(before: &Offline, after: &Offline, pools: &mut BTreeMap<PoolName, PoolImpact>) {
    let each = samples_each(pools.len());
    let snapshot = &after.view.snapshot;
    let mut done = BTreeSet::new();
    for (pool, info) in snapshot.steer_pools().iter().zip(snapshot.pool_infos()) {
        let Some(found) = pools.get_mut(&info.name).filter(|_| done.insert(&info.name)) else { continue };
        let Some(old) = info.names.iter().find_map(|name| answering(before, name)) else { continue };
        let pair = Pair { before: (before, old), after: (after, pool) };
        pair.count(each, found);
    }
}

/// The compiled pool that answers a name.
fn answering<'a>(side: &'a Offline, name: &Name) -> Option<&'a SteerPool> {
    let of = &side.desired.names.get(name)?.pool;
    let snapshot = &side.view.snapshot;
    let mut compiled = snapshot.steer_pools().iter().zip(snapshot.pool_infos());
    compiled.find(|(_, info)| info.name == *of && info.names.contains(name)).map(|(pool, _)| pool)
}

/// The same pool in two configurations.
struct Pair<'a> {
    before: (&'a Offline, &'a SteerPool),
    after: (&'a Offline, &'a SteerPool),
}

impl Pair<'_> {
    fn count(&self, each: usize, found: &mut PoolImpact) {
        let mut shares = BTreeMap::<String, [u64; 2]>::new();
        let (mut moved, mut places) = (0u64, BTreeSet::new());
        for (address, draw) in samples(each) {
            let [old, new] = self.answers(address.into(), draw);
            if old != new {
                moved += 1;
                places.insert(self.row(address.into()));
            }
            shares.entry(old).or_default()[0] += 1;
            shares.entry(new).or_default()[1] += 1;
        }
        // Places that are too small for a sample to be in: where one begins, before or now.
        let begin = [self.before, self.after].into_iter().flat_map(|(_, pool)| pool.places());
        let begin = begin.map(|(client, _)| client.network().address());
        places.extend(begin.filter(|begin| differ(&self.answers(*begin, Draw(0)))).map(|begin| self.row(begin)));
        let percent = |part: u64| (1000.0 * part as f64 / each as f64).round() / 10.0;
        let share = |(cluster, [before, after]): (String, [u64; 2])| Share {
            cluster,
            before: percent(before),
            after: percent(after),
        };
        found.moved_percent = Some(percent(moved));
        found.places_moved = Some(places.len());
        found.shares = shares.into_iter().map(share).collect();
    }

    /// What an address is answered with, before and after.
    fn answers(&self, address: IpAddr, draw: Draw) -> [String; 2] {
        [self.before, self.after].map(|(side, pool)| given(side, pool, pool.client_net(address), draw))
    }

    /// The place of an address in the configuration that is to come.
    fn row(&self, address: IpAddr) -> u16 {
        self.after.1.client_net(address).class()
    }
}

fn differ([old, new]: &[String; 2]) -> bool {
    old != new
}

/// The first cluster of an answer, or what stands for none.
fn given(side: &Offline, pool: &SteerPool, client: ClientNet, draw: Draw) -> String {
    let number = first(pool, &side.view.runtime, client, draw);
    number.and_then(|number| cluster(pool, number)).map_or_else(|| Share::NO_CLUSTER.to_owned(), ToString::to_string)
}

/// Names that are steered on one side only, or by another pool.
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
