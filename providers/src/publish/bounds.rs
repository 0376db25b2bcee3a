//! How much one sync may delete: an accident upstream must not empty a zone.

use std::collections::HashSet;

use fairway_model::{Changes, ProviderRecordSet};

/// The most that one sync deletes. Over it, it deletes nothing: what is deleted bit by bit is deleted all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most sets; default 100.
    pub deletions_max: usize,
    /// Most of what we own, in percent; default 30. One set may always go.
    pub deletions_percent: u8,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { deletions_max: 100, deletions_percent: 30 }
    }
}

/// Deletions that were not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} of {owned} record sets would be deleted, and {allowed} is the most at once; nothing is deleted. If it is meant: \
     fairway publish apply PROVIDER --deletions {wanted}"
)]
pub struct RefusedDeletions {
    /// How many there would have been.
    pub wanted: usize,
    /// How many may be.
    pub allowed: usize,
    /// How many sets we own there.
    pub owned: usize,
}

impl Bounds {
    /// Takes all deletions out of `changes` where they are too many of the `owned` sets, unless an operator `granted` as many.
    ///
    /// A set whose name gets another set in the same step (an address that becomes an alias) is replaced, not deleted.
    pub fn hold(self, changes: &mut Changes, owned: usize, granted: usize) -> Option<RefusedDeletions> {
        let names: HashSet<_> = changes.create.iter().map(|new| new.set.name.clone()).collect();
        let is_replaced = |set: &ProviderRecordSet| names.contains(&set.set.name);
        let wanted = changes.delete.iter().filter(|set| !is_replaced(set)).count();
        let percent = (owned * usize::from(self.deletions_percent)).div_ceil(100);
        let allowed = self.deletions_max.min(percent).max(1);
        if wanted <= allowed.max(granted) {
            return None;
        }
        changes.delete.retain(is_replaced);
        Some(RefusedDeletions { wanted, allowed, owned })
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{RecordSet, Rtype, Ttl};

    use super::*;

    fn set(name: &str, rtype: Rtype) -> ProviderRecordSet {
        let rdata: Box<[u8]> = [192, 0, 2, 1].into();
        ProviderRecordSet::plain(RecordSet::new(name.parse().unwrap(), rtype, Ttl::from_secs(30).unwrap(), [rdata]))
    }

    fn deletions(count: usize) -> Changes {
        Changes { delete: (0..count).map(|i| set(&format!("n{i}.x."), Rtype::A)).collect(), ..Changes::default() }
    }

    #[test]
    fn the_last_allowed_deletion_passes_and_one_more_refuses_them_all() {
        let bounds = Bounds { deletions_max: 10, deletions_percent: 30 };
        for (owned, most) in [(1, 1), (3, 1), (4, 2), (20, 6), (1000, 10)] {
            let mut changes = deletions(most);
            assert_eq!(bounds.hold(&mut changes, owned, 0), None, "{owned}");
            assert_eq!(changes.delete.len(), most);
            let mut changes = deletions(most + 1);
            let refused = RefusedDeletions { wanted: most + 1, allowed: most, owned };
            assert_eq!(bounds.hold(&mut changes, owned, 0), Some(refused));
            assert!(changes.is_empty());
        }
    }

    #[test]
    fn an_operator_can_grant_more_for_once() {
        let mut changes = deletions(50);
        assert_eq!(Bounds::default().hold(&mut changes, 50, 50), None);
        assert_eq!(changes.delete.len(), 50);
        assert!(Bounds::default().hold(&mut changes, 50, 49).is_some());
    }

    #[test]
    fn what_is_replaced_at_its_name_is_not_deleted() {
        let mut changes = deletions(3);
        changes.create = (0..3).map(|i| set(&format!("n{i}.x."), Rtype::CNAME)).collect();
        assert_eq!(Bounds { deletions_max: 0, deletions_percent: 0 }.hold(&mut changes, 3, 0), None);
        assert_eq!(changes.delete.len(), 3);
    }
}
