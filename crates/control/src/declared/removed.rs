//! Names that were removed a short time ago.
//!
//! Two rules need them: a name that its holder gave up changes hands only after its TTL (`takeovers`), and the prunes of one caller within ten
//! minutes are weighed together (`pruned`). They are objects of the store, written in the batch that removes the names, so that a restart
//! loses none and all servers on the store have them. Batches with removed names delete the objects that no longer matter.

use std::collections::BTreeSet;

use fairway_model::{Name, Timestamp, fnv1a_32};
use fairway_store::objects::{BATCH_MAX, Batch, Change, Expect, Key, Kind};

use super::{
    Declared,
    object::{Content, DeclaredObject},
    removed_wire::{self, RemovedName, RemovedNames, Remover},
};
use crate::configured::MergedState;

impl Declared {
    /// Adds to a batch the objects with the names that it gives up, and deletions of expired objects. `served` is the state in force, if
    /// there are access rules; without them there is one tenant, and names do not change hands.
    pub(crate) fn with_removed_names(&self, mut batch: Batch, served: Option<&MergedState>) -> Batch {
        if let Some(served) = served {
            batch.changes.extend(changes(batch.at, &self.releases_in(&batch, served)));
        }
        if batch.changes.iter().any(|change| change.key.kind() == Kind::RemovedNames) {
            let free = BATCH_MAX.saturating_sub(batch.changes.len()).min(EXPIRED_MAX);
            let is_expired = |removed: &RemovedNames| removed.names.iter().all(|of| of.until <= batch.at.secs());
            let expired = self.removed_names().filter(|(_, removed)| is_expired(removed)).take(free);
            let deletion = |key: &Key| Change { key: key.clone(), expect: Expect::Anything, value: None };
            batch.changes.extend(expired.map(|(key, _)| deletion(key)));
        }
        batch
    }

    /// Returns the names that an identity has pruned in the last ten minutes.
    pub(crate) fn pruned_by(&self, identity: &str, now: Timestamp) -> BTreeSet<Name> {
        let is_own = |by: &Remover| matches!(by, Remover::Pruner(pruner) if pruner == identity);
        let names = self.removed_names().flat_map(|(_, removed)| &removed.names);
        names.filter(|of| of.until > now.secs() && is_own(&of.by)).filter_map(|of| of.name.parse().ok()).collect()
    }

    fn removed_names(&self) -> impl Iterator<Item = (&Key, &RemovedNames)> {
        self.under(Kind::RemovedNames, &[]).filter_map(|object| Some((&object.object.key, object.removed()?)))
    }
}

impl DeclaredObject {
    /// Returns the removed names that the object holds.
    pub(super) fn removed(&self) -> Option<&RemovedNames> {
        match &self.content {
            Ok(Content::Removed(removed)) => Some(removed),
            _ => None,
        }
    }
}

/// Returns the changes that store removed names.
pub(crate) fn changes(at: Timestamp, names: &[RemovedName]) -> Vec<Change> {
    let object = |names: &[RemovedName]| {
        let value = removed_wire::write(&RemovedNames { at: at.secs(), names: names.to_vec() });
        // Two servers may commit at the same time. Keys in the order of time make the last removal of a name win.
        let name = format!("{at:.9}+{:08x}", fnv1a_32(value.iter().copied()));
        let key = Key::new(Kind::RemovedNames, &[&name]).expect("times and digits are names");
        Change { key, expect: Expect::Anything, value: Some(value) }
    };
    names.chunks(NAMES_MAX).map(object).collect()
}

/// Maximum number of names of an object. A name takes up to 2 kB if all of its octets are escaped, and an object has at most 1 MiB.
const NAMES_MAX: usize = 500;
/// Maximum number of expired objects that a batch deletes.
const EXPIRED_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use fairway_store::objects::{AUTHOR_MAX, VALUE_MAX};

    use super::*;

    #[test]
    fn objects_with_the_longest_names_are_within_the_limit_of_the_store() {
        let (name, by) = ("\\001".repeat(255), Remover::Pruner("\"".repeat(AUTHOR_MAX)));
        let names = vec![RemovedName { name, by, until: u64::MAX }; NAMES_MAX + 1];
        let sizes: Vec<usize> = changes(Timestamp::MAX, &names).iter().flat_map(|of| &of.value).map(Vec::len).collect();
        assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= VALUE_MAX), "{sizes:?}");
    }
}
