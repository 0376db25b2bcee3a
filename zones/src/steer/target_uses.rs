//! Use counts of targets and balanced clusters.

use super::pool::SteerPool;
use crate::target::TargetIndex;

/// Number of members with each target and in each balanced cluster. Unused targets are removed, since they would be
/// probed and be part of the runtime state's id.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetUses {
    targets: Vec<u32>,
    balanced: Vec<u32>,
}

impl TargetUses {
    /// Adds the uses of a pool.
    pub(crate) fn add(&mut self, pool: &SteerPool) {
        self.each(pool, |count| *count += 1);
    }

    /// Subtracts the uses of a pool.
    pub(crate) fn take(&mut self, pool: &SteerPool) {
        self.each(pool, |count| *count -= 1);
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
}

/// Returns the count of a number, and adds it if it is new.
fn slot(counts: &mut Vec<u32>, at: usize) -> &mut u32 {
    if counts.len() <= at {
        counts.resize(at + 1, 0);
    }
    &mut counts[at]
}
