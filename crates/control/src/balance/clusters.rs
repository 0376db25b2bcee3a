//! The balanced clusters: their groups and availability.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use fairway_health::load::LoadUpdate;
use fairway_model::{ClusterName, DesiredState};
use fairway_steering::balancer::{Declared, Group};
use fairway_zones::{BalancedPools, RuntimeState, Snapshot, steer::LoadGroup};

/// The balanced clusters.
#[derive(Debug)]
pub(super) struct Clusters {
    /// True if it is available.
    clusters: BTreeMap<ClusterName, bool>,
    /// Clusters whose gateways drain or are overloaded, and when that report expires.
    exhausted: HashMap<ClusterName, Instant>,
}

impl Clusters {
    /// Returns the clusters, all of them available until the first update.
    pub(super) fn new(groups: &[Group]) -> Self {
        let names = groups.iter().flat_map(|group| &group.clusters).map(|declared| declared.name.clone());
        Self { clusters: names.map(|name| (name, true)).collect(), exhausted: HashMap::new() }
    }

    /// Records whether gateways of a cluster drain or are overloaded. The record expires if no later report repeats it.
    pub(super) fn add_report(&mut self, update: &LoadUpdate, now: Instant) {
        let cluster = &update.report.cluster;
        if update.is_exhausted && self.clusters.contains_key(cluster) {
            self.exhausted.insert(cluster.clone(), now + update.period * EXHAUSTED_PERIODS);
        } else {
            self.exhausted.remove(cluster);
        }
    }

    /// Updates the availability of all clusters. Returns those that changed.
    pub(super) fn update(
        &mut self,
        pools: &BalancedPools,
        runtime: &RuntimeState,
        now: Instant,
    ) -> Vec<(ClusterName, bool)> {
        self.exhausted.retain(|_, end| *end > now);
        let mut changed = Vec::new();
        for (name, was_available) in &mut self.clusters {
            let is_up = pools.is_up(name, runtime).unwrap_or(*was_available);
            let is_available = is_up && !self.exhausted.contains_key(name);
            if std::mem::replace(was_available, is_available) != is_available {
                changed.push((name.clone(), is_available));
            }
        }
        changed
    }

    /// Returns the clusters whose gateways drain or are overloaded.
    pub(super) fn exhausted(&self) -> impl Iterator<Item = &ClusterName> {
        self.exhausted.keys()
    }
}

/// Returns the groups of clusters whose load is controlled together. Clusters without a capacity cannot be compared, so they are in none.
pub(super) fn groups(desired: &DesiredState, snapshot: &Snapshot, pools: &BalancedPools) -> Vec<Group> {
    snapshot.load_classes().groups().iter().map(|group| declared(group, desired, pools)).collect()
}

fn declared(group: &LoadGroup, desired: &DesiredState, pools: &BalancedPools) -> Group {
    let declared = |name: &ClusterName| {
        let bounds = desired.load_bounds.get(name).copied().unwrap_or_default();
        Declared {
            name: name.clone(),
            capacity: desired.clusters.get(name).and_then(|cluster| cluster.capacity).unwrap_or(1),
            target: bounds.target(),
            limit: bounds.limit(),
        }
    };
    let sources = group.clusters.iter().filter_map(|name| desired.cluster_load_sources.get(name));
    let periods = sources.filter_map(|of| desired.load_sources.get(&of.source)).map(|source| source.period);
    Group {
        clusters: group.clusters.iter().map(declared).collect(),
        costs: group.costs.clone(),
        period: periods.max().unwrap_or(PUSH_PERIOD),
        ttl: group.clusters.iter().filter_map(|name| pools.ttl(name)).max().unwrap_or_default().max(TTL_MIN),
    }
}

/// Least TTL that load control reckons with: answers of TTL 0 are kept for a while, too.
const TTL_MIN: Duration = Duration::from_secs(1);
/// Report periods after which a report of exhaustion expires.
const EXHAUSTED_PERIODS: u32 = 3;
/// Report period of clusters whose load is only pushed: the default period of load sources.
const PUSH_PERIOD: Duration = Duration::from_secs(10);
