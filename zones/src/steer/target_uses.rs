//! Uses of targets and balanced clusters by pools.

use super::pool::SteerPool;
use crate::target::TargetIndex;

/// How many members are judged by each target, and are balanced in each cluster. What nobody uses any more must go: it would be
/// probed, and be part of the id of runtime state.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetUses {
    targets: Vec<u32>,
    balanced: Vec<u32>,
}

impl TargetUses {
    /// Counts what a pool uses.
    pub(crate) fn add(&mut self, pool: &SteerPool) {
        self.each(pool, |count| *count += 1);
    }

    /// Takes back what a pool was counted with.
    pub(crate) fn take(&mut self, pool: &SteerPool) {
        self.each(pool, |count| *count -= 1);
    }

    /// Whether a balanced cluster that has a number has no use.
    pub(crate) fn has_idle_cluster(&self) -> bool {
        self.balanced.contains(&0)
    }

    /// The targets that have no use, in order.
    pub(crate) fn idle_targets(&self) -> Vec<TargetIndex> {
        (0..).map(TargetIndex).zip(&self.targets).filter(|(_, count)| **count == 0).map(|(number, _)| number).collect()
    }

    /// Counts for fewer targets from now on; those from there on have no use.
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
}

/// The count of a number, which may be the first of its kind.
fn slot(counts: &mut Vec<u32>, at: usize) -> &mut u32 {
    if counts.len() <= at {
        counts.resize(at + 1, 0);
    }
    &mut counts[at]
}
