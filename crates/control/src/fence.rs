//! Targets that this server may not connect to: those that the rules name, and those that a probe found so after resolution.
//!
//! They are never probed and never answered, whatever `down` of their pool says.

use std::collections::{BTreeMap, HashMap};

use fairway_health::FenceRules;
use fairway_model::{ClusterName, OverrideAction, PoolName, Target};
use fairway_zones::{Snapshot, TargetIndex};

use super::uses::TargetUses;

/// Targets that this server may not connect to, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeniedTargets {
    targets: HashMap<u32, String>,
    clusters: BTreeMap<ClusterName, String>,
    pools: BTreeMap<PoolName, String>,
}

impl DeniedTargets {
    /// Returns those of a snapshot. `found` are targets that a probe found to be denied.
    pub(crate) fn new(
        rules: &FenceRules,
        snapshot: &Snapshot,
        uses: &TargetUses,
        found: &HashMap<Target, String>,
    ) -> Self {
        let mut denied = Self::default();
        for (target, index) in snapshot.targets().iter().zip(0..) {
            let reason = match rules.check_target(target) {
                Err(reason) => reason.to_string(),
                Ok(()) => match found.get(target) {
                    Some(reason) => reason.clone(),
                    None => continue,
                },
            };
            let text = format!("{}: {reason}", target.address);
            for cluster in uses.clusters(TargetIndex(index)) {
                denied.clusters.entry(cluster).or_insert_with(|| text.clone());
            }
            for pool in uses.pools(TargetIndex(index)).keys() {
                denied.pools.entry(pool.clone()).or_insert_with(|| text.clone());
            }
            denied.targets.insert(index, reason);
        }
        denied
    }

    /// Returns the reason why a target is denied; `None` if it is allowed.
    pub fn reason(&self, target: TargetIndex) -> Option<&str> {
        self.targets.get(&target.0).map(String::as_str)
    }

    /// Returns the first denied address of a cluster with the reason; `None` if it has none.
    pub fn of_cluster(&self, cluster: &ClusterName) -> Option<&str> {
        self.clusters.get(cluster).map(String::as_str)
    }

    /// Returns the first denied address of a pool with the reason; `None` if it has none.
    pub fn of_pool(&self, pool: &PoolName) -> Option<&str> {
        self.pools.get(pool).map(String::as_str)
    }

    /// Returns the number of denied targets.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns true if no target is denied.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Takes denied targets out of the answers. An override to `up` does not bring them back.
    pub(crate) fn restrict(&self, mut actions: Vec<Option<OverrideAction>>) -> Vec<Option<OverrideAction>> {
        for target in self.targets.keys() {
            actions[*target as usize] = Some(OverrideAction::Down);
        }
        actions
    }
}
