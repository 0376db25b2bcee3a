//! The balanced clusters: their groups and availability.

use std::{collections::BTreeMap, time::Duration};

use fairway_model::{ClusterName, DesiredState};
use fairway_steering::balancer::{Declared, Group};
use fairway_zones::{BalancedPools, RuntimeState, Snapshot, steer::LoadGroup};

/// The balanced clusters.
#[derive(Debug)]
pub(super) struct Clusters {
    /// True if it is available.
    clusters: BTreeMap<ClusterName, bool>,
}

impl Clusters {
    /// Returns the clusters, all of them available until the first update.
    pub(super) fn new(groups: &[Group]) -> Self {
        let names = groups.iter().flat_map(|group| &group.clusters).map(|declared| declared.name.clone());
        Self { clusters: names.map(|name| (name, true)).collect() }
    }

    /// Updates the availability of all clusters. Returns those that changed.
    pub(super) fn update(&mut self, pools: &BalancedPools, runtime: &RuntimeState) -> Vec<(ClusterName, bool)> {
        let mut changed = Vec::new();
        for (name, was_available) in &mut self.clusters {
            let is_available = pools.is_up(name, runtime).unwrap_or(*was_available);
            if std::mem::replace(was_available, is_available) != is_available {
                changed.push((name.clone(), is_available));
            }
        }
        changed
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
/// Report period of clusters whose load is only pushed: the default period of load sources.
const PUSH_PERIOD: Duration = Duration::from_secs(10);
