//! Policies: filters of a plan.

use fairway_model::Changes;

/// Allowed kinds of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// All changes, including deletions.
    #[default]
    Sync,
    /// No deletions.
    UpsertOnly,
    /// No deletions and no updates.
    CreateOnly,
}

impl Policy {
    /// Removes changes that the policy forbids.
    pub fn filter(self, changes: &mut Changes) {
        if self != Self::Sync {
            changes.delete.clear();
        }
        if self == Self::CreateOnly {
            changes.update.clear();
        }
    }
}
