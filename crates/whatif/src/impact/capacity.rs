//! Which clusters carry the clients of a failed one: N-1 by declared capacities.
//!
//! The demand under a new configuration is unknown. The assumption is that every cluster in use has the same load while all are up, and
//! that all client networks of a cluster have the same demand. Where they go then follows from steering alone.

use std::collections::BTreeMap;

use fairway_model::ClusterName;
use fairway_zones::steer::{ClientNet, SteerPool};

use super::{
    CapacityReport, Finding, Rule, Severity,
    query::{cluster, first, reachable, samples_per_pool},
};
use crate::Offline;
use fairway_control::samples::samples;

/// Sum per cluster: of parts of samples, or of demand.
type Sums<'a> = BTreeMap<&'a ClusterName, f64>;

/// Assesses a configuration. `offered` is the load of each cluster in use, in percent of its capacity.
pub(super) fn assess(side: &Offline, offered: Option<f64>) -> (CapacityReport, Vec<Finding>) {
    let clients = Clients::new(side);
    let capacity = |name: &ClusterName| side.desired.clusters.get(name).and_then(|cluster| cluster.capacity);
    let unknown: Vec<_> = clients.clusters.iter().filter(|name| capacity(name).is_none_or(|c| c == 0)).collect();
    if !unknown.is_empty() || clients.clusters.is_empty() {
        let names: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        let finding = offered.filter(|_| !names.is_empty()).map(|_| undeclared(&names));
        return (CapacityReport { undeclared: names, ..CapacityReport::default() }, finding.into_iter().collect());
    }
    let capacities: Sums<'_> =
        clients.clusters.iter().map(|name| (*name, capacity(name).unwrap_or_default() as f64)).collect();
    let demand = clients.demand(&capacities);
    let mut report = CapacityReport::default();
    let mut findings = Vec::new();
    for down in &clients.clusters {
        for (name, carried) in clients.carried(down, &demand) {
            // Load relative to the offered load of each cluster.
            let load = carried / capacities[name];
            let most = (1000.0 / load + MOST_NOISE).floor() / 10.0;
            if load > 0.0 && report.holds_up_to.is_none_or(|known| most < known) {
                report.holds_up_to = Some(most);
                report.worst_down = Some(down.to_string());
                report.worst_full = Some(name.to_string());
            }
            findings.extend(offered.and_then(|offered| overloaded(down, name, offered * load)));
        }
    }
    (report, findings)
}

fn overloaded(down: &ClusterName, name: &ClusterName, load: f64) -> Option<Finding> {
    (load > 100.0 + LOAD_NOISE).then(|| Finding {
        rule: Rule::Capacity,
        severity: Severity::Error,
        since: None,
        pool: None,
        subject: format!("{down} down, {name}"),
        measure: load.round(),
        what: format!("with {down} down, {name} would carry {load:.0} % of its capacity"),
    })
}

fn undeclared(names: &[String]) -> Finding {
    Finding {
        rule: Rule::Capacity,
        severity: Severity::Warning,
        since: None,
        pool: None,
        subject: "undeclared".to_owned(),
        measure: names.len() as f64,
        what: format!("capacity is not declared for {}, so the effect of a failure is unknown", names.join(", ")),
    }
}

/// Sampled client networks at every pool.
struct Clients<'a> {
    side: &'a Offline,
    pools: Vec<&'a SteerPool>,
    /// Clusters of all pools.
    clusters: Vec<&'a ClusterName>,
    /// Samples per pool.
    samples: usize,
}

impl<'a> Clients<'a> {
    fn new(side: &'a Offline) -> Self {
        let snapshot = &side.view.snapshot;
        let used =
            snapshot.steer_pools().iter().zip(snapshot.pool_infos().iter()).filter(|(_, info)| !info.names.is_empty());
        let pools: Vec<_> = used.map(|(pool, _)| pool).collect();
        let mut clusters: Vec<_> = pools.iter().flat_map(|pool| pool.clusters()).collect();
        clusters.sort();
        clusters.dedup();
        Self { side, samples: samples_per_pool(pools.len()), pools, clusters }
    }

    /// Returns the demand of each sample at which every cluster in use is exactly full while all are up.
    fn demand(&self, capacities: &Sums<'_>) -> Vec<f64> {
        let mut used = Sums::new();
        let mut chosen = Vec::with_capacity(self.pools.len() * self.samples);
        self.for_each_sample(None, |parts| {
            for (name, part) in parts {
                *used.entry(*name).or_default() += part;
            }
            chosen.push(parts.to_vec());
        });
        let demand = |parts: &Vec<(&ClusterName, f64)>| {
            parts.iter().map(|(name, part)| part * capacities[*name] / used[*name]).sum()
        };
        chosen.iter().map(demand).collect()
    }

    /// Returns the demand of each cluster while one is down.
    fn carried(&self, down: &ClusterName, demand: &[f64]) -> Sums<'a> {
        let mut carried = Sums::new();
        let mut demand = demand.iter();
        self.for_each_sample(Some(down), |parts| {
            let demand = demand.next().copied().unwrap_or_default();
            for (name, part) in parts {
                *carried.entry(*name).or_default() += demand * part;
            }
        });
        carried
    }

    /// Calls `each` for every sample at every pool, with the clusters that it goes to and the part of each.
    fn for_each_sample(&self, down: Option<&ClusterName>, mut each: impl FnMut(&[(&'a ClusterName, f64)])) {
        let runtime = self.side.without(down);
        for pool in &self.pools {
            let mut spread = Spread { side: self.side, pool, down, known: BTreeMap::new() };
            for (address, draw) in samples(self.samples) {
                let client = pool.client_net(address.into());
                if pool.policy().load {
                    each(spread.over(client));
                } else {
                    let number = first(pool, &runtime, client, draw);
                    let chosen = number.and_then(|number| cluster(pool, number)).map(|name| (name, 1.0));
                    each(chosen.as_slice());
                }
            }
        }
    }
}

/// Distribution of clients in a pool that uses load. It may send any client to any of its live members, here by capacity.
struct Spread<'a, 'd> {
    side: &'a Offline,
    pool: &'a SteerPool,
    down: Option<&'d ClusterName>,
    /// By location class.
    known: BTreeMap<u16, Vec<(&'a ClusterName, f64)>>,
}

impl<'a> Spread<'a, '_> {
    fn over(&mut self, client: ClientNet) -> &[(&'a ClusterName, f64)] {
        let Self { side, pool, down, known } = self;
        known.entry(client.class()).or_insert_with(|| {
            let reachable = reachable(side, pool, client, *down);
            let all: Vec<_> = pool.clusters().filter(|name| reachable.contains(*name)).collect();
            let capacity = |name: &ClusterName| {
                side.desired.clusters.get(name).and_then(|cluster| cluster.capacity).unwrap_or_default() as f64
            };
            let sum: f64 = all.iter().map(|name| capacity(name)).sum();
            all.into_iter().map(|name| (name, capacity(name) / sum.max(1.0))).collect()
        })
    }
}

/// Rounding errors: a sum of fractions may be slightly below a round number.
const MOST_NOISE: f64 = 1e-6;
/// Sampling error in percent of load: one sample more or less is not an overload.
const LOAD_NOISE: f64 = 0.5;
