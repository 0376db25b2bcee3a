//! Clusters whose gateways drain or are overloaded. They leave every pool that has another member that is up, whatever its policy, and whether
//! load is balanced or not.

use std::{
    collections::{BTreeMap, HashSet},
    time::Instant,
};

use fairway_health::load::LoadUpdate;
use fairway_model::{ClusterName, LoadSource};
use fairway_zones::TargetIndex;

use super::uses::TargetUses;

/// Clusters whose gateways drain or are overloaded, and when that report expires.
#[derive(Debug, Default)]
pub(crate) struct ExhaustedClusters(BTreeMap<ClusterName, Instant>);

impl ExhaustedClusters {
    /// Notes what a reading of gateways found. Returns true if that changed the clusters.
    pub(crate) fn note(&mut self, update: &LoadUpdate, now: Instant) -> bool {
        match update.is_exhausted {
            None => false,
            Some(false) => self.0.remove(&update.cluster).is_some(),
            Some(true) => {
                let end = now + update.period * LoadSource::PERIODS_VALID;
                self.0.insert(update.cluster.clone(), end).is_none()
            }
        }
    }

    /// Drops the clusters whose report no later one repeated. Returns true if there are any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|_, end| *end > now);
        self.0.len() != before
    }

    /// Returns the clusters.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.0.keys()
    }

    /// Returns the targets of these clusters.
    pub(crate) fn targets(&self, uses: &TargetUses) -> HashSet<TargetIndex> {
        if self.0.is_empty() {
            return HashSet::new();
        }
        let is_exhausted =
            |target: &TargetIndex| uses.addresses(*target).any(|(cluster, _)| self.0.contains_key(cluster));
        uses.targets_all().filter(is_exhausted).collect()
    }
}
