//! Who carries whose clients when a cluster is lost: N-1 by declared capacities.
//!
//! Nobody knows the demand of a configuration that is to come. It is taken that every cluster in use carries the same part of
//! its capacity while all are up, and that its client networks are alike: then where they go follows from steering alone.

use std::collections::BTreeMap;

use fairway_model::ClusterName;
use fairway_zones::{
    Draw, RuntimeState,
    steer::{ClientNet, SteerPool},
};

use super::{
    Breach, CapacityReport, Rule, Severity,
    ask::{cluster, first, reach, samples_each},
};
use fairway_control::Offline;
use fairway_control::samples::samples;

/// By cluster: parts of samples, or of demand.
type Sums<'a> = BTreeMap<&'a ClusterName, f64>;

/// Judges a configuration; `offered` is in percent of what each cluster in use can carry.
pub(super) fn judge(side: &Offline, offered: Option<f64>) -> (CapacityReport, Vec<Breach>) {
    let crowd = Crowd::new(side);
    let capacity = |name: &ClusterName| side.desired.clusters.get(name).and_then(|cluster| cluster.capacity);
    let unknown: Vec<_> = crowd.clusters.iter().filter(|name| capacity(name).is_none_or(|c| c == 0)).collect();
    if !unknown.is_empty() || crowd.clusters.is_empty() {
        let names: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        let breach = offered.filter(|_| !names.is_empty()).map(|_| undeclared(&names));
        return (CapacityReport { undeclared: names, ..CapacityReport::default() }, breach.into_iter().collect());
    }
    let capacities: Sums<'_> =
        crowd.clusters.iter().map(|name| (*name, capacity(name).unwrap_or_default() as f64)).collect();
    let demand = crowd.demand(&capacities);
    let mut report = CapacityReport::default();
    let mut breaches = Vec::new();
    for down in &crowd.clusters {
        for (name, carried) in crowd.carried(down, &demand) {
            // What it carries of its capacity while each cluster is offered all of its own.
            let load = carried / capacities[name];
            let most = (1000.0 / load + MOST_NOISE).floor() / 10.0;
            if load > 0.0 && report.holds_up_to.is_none_or(|known| most < known) {
                report.holds_up_to = Some(most);
                report.worst_down = Some(down.to_string());
                report.worst_full = Some(name.to_string());
            }
            breaches.extend(offered.and_then(|offered| overloaded(down, name, offered * load)));
        }
    }
    (report, breaches)
}

fn overloaded(down: &ClusterName, name: &ClusterName, load: f64) -> Option<Breach> {
    (load > 100.0 + LOAD_NOISE).then(|| Breach {
        rule: Rule::Capacity,
        severity: Severity::Error,
        pool: None,
        subject: format!("{down} down, {name}"),
        measure: load.round(),
        what: format!("with {down} down {name} would have to carry {load:.0} % of its capacity"),
    })
}

fn undeclared(names: &[String]) -> Breach {
    Breach {
        rule: Rule::Capacity,
        severity: Severity::Warning,
        pool: None,
        subject: "undeclared".to_owned(),
        measure: names.len() as f64,
        what: format!("capacity is not declared for {}: what a failure leaves cannot be told", names.join(", ")),
    }
}

/// Client networks that stand for all, at every pool.
struct Crowd<'a> {
    side: &'a Offline,
    pools: Vec<&'a SteerPool>,
    /// Those of all pools.
    clusters: Vec<&'a ClusterName>,
    each: usize,
}

impl<'a> Crowd<'a> {
    fn new(side: &'a Offline) -> Self {
        let snapshot = &side.view.snapshot;
        let used = snapshot.steer_pools().iter().zip(snapshot.pool_infos()).filter(|(_, info)| !info.names.is_empty());
        let pools: Vec<_> = used.map(|(pool, _)| pool).collect();
        let mut clusters: Vec<_> = pools.iter().flat_map(|pool| pool.clusters()).collect();
        clusters.sort();
        clusters.dedup();
        Self { side, each: samples_each(pools.len()), pools, clusters }
    }

    /// What each sample asks for, so that each cluster that is used while all are up is asked for as much as it can carry.
    fn demand(&self, capacities: &Sums<'_>) -> Vec<f64> {
        let mut used = Sums::new();
        let mut given = Vec::with_capacity(self.pools.len() * self.each);
        self.play(None, |parts| {
            parts.iter().for_each(|(name, part)| *used.entry(*name).or_default() += part);
            given.push(parts.to_vec());
        });
        let weight = |parts: &Vec<(&ClusterName, f64)>| {
            parts.iter().map(|(name, part)| part * capacities[*name] / used[*name]).sum()
        };
        given.iter().map(weight).collect()
    }

    /// What each cluster carries while one is down.
    fn carried(&self, down: &ClusterName, demand: &[f64]) -> Sums<'a> {
        let mut carried = Sums::new();
        let mut demand = demand.iter();
        self.play(Some(down), |parts| {
            let demand = demand.next().copied().unwrap_or_default();
            parts.iter().for_each(|(name, part)| *carried.entry(*name).or_default() += demand * part);
        });
        carried
    }

    /// Asks every pool for every sample; `each` hears to which clusters it goes, and what part of it to each.
    fn play(&self, down: Option<&ClusterName>, mut each: impl FnMut(&[(&'a ClusterName, f64)])) {
        let runtime = self.side.without(down);
        for pool in &self.pools {
            let mut spread = Spread { side: self.side, pool, down, known: BTreeMap::new() };
            for (address, draw) in samples(self.each) {
                let client = pool.client_net(address.into());
                match pool.policy().load {
                    true => each(spread.over(client)),
                    false => each(&one(pool, &runtime, client, draw)),
                }
            }
        }
    }
}

fn one<'a>(pool: &'a SteerPool, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Vec<(&'a ClusterName, f64)> {
    let number = first(pool, runtime, client, draw);
    number.and_then(|number| cluster(pool, number)).map(|name| (name, 1.0)).into_iter().collect()
}

/// Pools that heed load may take any client to any of its live members: it is shared by their capacities.
struct Spread<'a, 'd> {
    side: &'a Offline,
    pool: &'a SteerPool,
    down: Option<&'d ClusterName>,
    /// By row.
    known: BTreeMap<u16, Vec<(&'a ClusterName, f64)>>,
}

impl<'a> Spread<'a, '_> {
    fn over(&mut self, client: ClientNet) -> &[(&'a ClusterName, f64)] {
        let Self { side, pool, down, known } = self;
        known.entry(client.class()).or_insert_with(|| {
            let reached = reach(side, pool, client, *down);
            let all: Vec<_> = pool.clusters().filter(|name| reached.contains(*name)).collect();
            let capacity = |name: &ClusterName| {
                side.desired.clusters.get(name).and_then(|cluster| cluster.capacity).unwrap_or_default() as f64
            };
            let sum: f64 = all.iter().map(|name| capacity(name)).sum();
            all.into_iter().map(|name| (name, capacity(name) / sum.max(1.0))).collect()
        })
    }
}

/// Sums of fractions may end a little under a round number.
const MOST_NOISE: f64 = 1e-6;
/// A sample more or less is no overload.
const LOAD_NOISE: f64 = 0.5;
