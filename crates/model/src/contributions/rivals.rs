//! Contributions that exclude each other: the oldest one is used, and both sides have a problem that names the other one.

use std::{collections::BTreeMap, sync::Arc};

use super::{Merging, NameContribution, SharedNamePolicy};

impl Merging<'_> {
    /// Returns the contributions to use. Of those without a set identifier only one owner's, unless they are merged; of those with the same
    /// one that were read in one Kubernetes cluster, only one namespace's.
    pub(super) fn kept<'o>(
        &mut self,
        contributions: &'o [NameContribution],
        shared: SharedNamePolicy,
    ) -> Vec<&'o NameContribution> {
        let mut first: BTreeMap<_, &NameContribution> = BTreeMap::new();
        let mut kept = Vec::with_capacity(contributions.len());
        for contribution in contributions {
            let NameContribution { set, read_in, .. } = contribution;
            let is_shared = read_in.is_none() && (shared == SharedNamePolicy::Merge || !set.is_empty());
            if is_shared || contribution.is_held {
                kept.push(contribution);
                continue;
            }
            let first = *first.entry((read_in, set)).or_insert(contribution);
            if first.owner == contribution.owner {
                kept.push(contribution);
                continue;
            }
            let hint = match read_in {
                None => "give each owner a set identifier, or set webhook.shared to merge",
                Some(_) => "remove one of them, or give them different set identifiers",
            };
            let owner = &first.owner;
            self.reject(contribution, format!("{owner} contributed {} first; {hint}", self.name));
            self.note_older((owner, &first.set), contribution);
        }
        kept
    }

    /// Notes that the contribution of an owner is used in place of a younger one.
    pub(super) fn note_older(&mut self, (owner, set): (&Arc<str>, &Arc<str>), younger: &NameContribution) {
        let older = self.older.entry((Arc::clone(owner), Arc::clone(set))).or_default();
        older.insert(Arc::clone(&younger.owner));
    }

    /// Reports to the owners of older contributions which younger ones are rejected.
    pub(super) fn report_older(&mut self, contributions: &[NameContribution]) {
        for ((owner, set), younger) in std::mem::take(&mut self.older) {
            let shown = younger.iter().take(OWNERS_SHOWN).map(|owner| &**owner).collect::<Vec<_>>().join(", ");
            let more = younger.len().saturating_sub(OWNERS_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let is_it = |of: &&NameContribution| of.owner == owner && of.set == set;
            if let Some(contribution) = contributions.iter().find(is_it) {
                let what = format!("younger contributions of {shown}{more} to {} are rejected", self.name);
                self.warn(contribution, what);
            }
        }
    }
}

/// Owners of younger contributions that are named to an older one.
const OWNERS_SHOWN: usize = 3;
