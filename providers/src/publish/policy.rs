//! What a publisher may do: a filter over the plan, of which the plan knows nothing.

use fairway_model::Changes;

/// Which changes are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// All: what is wanted no more is deleted.
    #[default]
    Sync,
    /// Nothing is deleted.
    UpsertOnly,
    /// Nothing that is there is touched.
    CreateOnly,
}

impl Policy {
    /// Drops what the policy forbids.
    pub fn filter(self, changes: &mut Changes) {
        if self != Self::Sync {
            changes.delete.clear();
        }
        if self == Self::CreateOnly {
            changes.update.clear();
        }
    }
}
