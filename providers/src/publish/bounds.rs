//! Bounds on the deletions of one sync, so that an accident upstream cannot empty a zone.

use std::collections::HashSet;

use fairway_model::{Changes, ProviderRecordSet};

/// Maximum number of deletions of one sync. A sync that exceeds them deletes nothing: deleting in steps would empty the zone as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of deleted sets; default 100.
    pub deletions_max: usize,
    /// Maximum number of deleted sets in percent of the owned ones; default 30. One deletion is always allowed.
    pub deletions_percent: u8,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { deletions_max: 100, deletions_percent: 30 }
    }
}

/// Deletions that exceed the bounds and were not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} of {owned} record sets would be deleted, but at most {allowed} are allowed per sync; nothing was deleted. To delete \
     them, run fairway publish apply PROVIDER --deletions {wanted}"
)]
pub struct RefusedDeletions {
    /// Number of planned deletions.
    pub wanted: usize,
    /// Number of allowed deletions.
    pub allowed: usize,
    /// Number of owned sets.
    pub owned: usize,
}

impl Bounds {
    /// Removes all deletions from `changes` if they exceed the bounds and the number that an operator granted.
    ///
    /// A set whose name gets another set in the same step (an address that becomes an alias) is replaced, not deleted.
    pub fn limit_deletions(self, changes: &mut Changes, owned: usize, granted: usize) -> Option<RefusedDeletions> {
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
    fn one_deletion_over_the_bound_rejects_all() {
        let bounds = Bounds { deletions_max: 10, deletions_percent: 30 };
        for (owned, most) in [(1, 1), (3, 1), (4, 2), (20, 6), (1000, 10)] {
            let mut changes = deletions(most);
            assert_eq!(bounds.limit_deletions(&mut changes, owned, 0), None, "{owned}");
            assert_eq!(changes.delete.len(), most);
            let mut changes = deletions(most + 1);
            let refused = RefusedDeletions { wanted: most + 1, allowed: most, owned };
            assert_eq!(bounds.limit_deletions(&mut changes, owned, 0), Some(refused));
            assert!(changes.is_empty());
        }
    }

    #[test]
    fn operator_can_grant_more_deletions() {
        let mut changes = deletions(50);
        assert_eq!(Bounds::default().limit_deletions(&mut changes, 50, 50), None);
        assert_eq!(changes.delete.len(), 50);
        assert!(Bounds::default().limit_deletions(&mut changes, 50, 49).is_some());
    }

    #[test]
    fn replaced_set_does_not_count_as_deleted() {
        let mut changes = deletions(3);
        changes.create = (0..3).map(|i| set(&format!("n{i}.x."), Rtype::CNAME)).collect();
        assert_eq!(Bounds { deletions_max: 0, deletions_percent: 0 }.limit_deletions(&mut changes, 3, 0), None);
        assert_eq!(changes.delete.len(), 3);
    }
}
