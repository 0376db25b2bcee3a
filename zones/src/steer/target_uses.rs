//! Use counts of targets, balanced clusters and their rankings.

use super::{
    pool::SteerPool,
    targets::{RankingUses, TargetTable},
};
use crate::target::TargetIndex;

/// Number of members with each target and in each balanced cluster. Unused targets are removed, since they would be
/// probed and be part of the runtime state's id.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetUses {
    targets: Vec<u32>,
    balanced: Vec<u32>,
    rankings: Vec<RankingUses>,
}

impl TargetUses {
    /// Adds the uses of a pool.
    pub(crate) fn add(&mut self, pool: &SteerPool, table: &TargetTable) {
        self.each(pool, |count| *count += 1);
        self.each_ranking(pool, table, |uses, blocks| {
            *uses = RankingUses { classes: uses.classes + 1, blocks: uses.blocks + blocks };
        });
    }

    /// Subtracts the uses of a pool.
    pub(crate) fn take(&mut self, pool: &SteerPool, table: &TargetTable) {
        self.each(pool, |count| *count -= 1);
        self.each_ranking(pool, table, |uses, blocks| {
            *uses = RankingUses { classes: uses.classes - 1, blocks: uses.blocks - blocks };
        });
    }

    /// Returns the uses of each ranking of balanced clusters, by its number.
    pub(crate) fn rankings(&self) -> &[RankingUses] {
        &self.rankings
    }

    /// True if a balanced cluster has no use.
    pub(crate) fn has_idle_cluster(&self) -> bool {
        self.balanced.contains(&0)
    }

    /// Returns the targets without a use, in order.
    pub(crate) fn idle_targets(&self) -> Vec<TargetIndex> {
        (0..).map(TargetIndex).zip(&self.targets).filter(|(_, count)| **count == 0).map(|(number, _)| number).collect()
    }

    /// Keeps the counts of the first targets only.
    pub(crate) fn truncate(&mut self, targets: usize) {
        self.targets.truncate(targets);
    }

    fn each(&mut self, pool: &SteerPool, change: impl Fn(&mut u32)) {
        for target in pool.all_targets() {
            change(slot(&mut self.targets, target.0 as usize));
        }
        for cluster in pool.balanced_numbers() {
            change(slot(&mut self.balanced, cluster.into()));
        }
    }

    fn each_ranking(&mut self, pool: &SteerPool, table: &TargetTable, change: impl Fn(&mut RankingUses, u64)) {
        if !pool.load {
            return;
        }
        let rankings = &table.class_rankings[pool.load_begin as usize..];
        for (ranking, blocks) in rankings.iter().zip(pool.blocks_by_class()) {
            change(slot(&mut self.rankings, *ranking as usize), blocks.into());
        }
    }
}

/// Returns the count of a number, and adds it if it is new.
fn slot<T: Clone + Default>(counts: &mut Vec<T>, at: usize) -> &mut T {
    if counts.len() <= at {
        counts.resize(at + 1, T::default());
    }
    &mut counts[at]
}
