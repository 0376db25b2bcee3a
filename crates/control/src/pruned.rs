//! Deletions by `fairway apply --prune` that look like a mistake, by the rules for withdrawals of webhook clients.
//!
//! They are not held but refused, and the whole request with them: objects refer to each other and are validated together, and the caller
//! waits for the result, which an ExternalDNS does not. `fairway delete` is never refused.

use std::{collections::BTreeSet, time::Duration};

use fairway_model::{DesiredState, Eligibility, Name};
use fairway_store::objects::Key;

use super::{
    Control,
    contributed::{ServedHealth, are_many},
    declared::Declared,
    served::CurrentState,
};

/// A prune, and what it leaves.
pub struct Prune<'a> {
    /// All objects before.
    pub before: &'a Declared,
    /// Keys of the deleted objects.
    pub deleted: Vec<&'a Key>,
    /// All objects afterwards.
    pub after: &'a Declared,
    /// Keys of the objects afterwards that the caller may prune.
    pub kept: Vec<&'a Key>,
    /// The desired state that would be served.
    pub desired: &'a DesiredState,
}

impl Control {
    /// Returns why a prune looks like a mistake; `None` if it does not.
    pub fn pruned_by_mistake(&self, prune: &Prune<'_>) -> Option<String> {
        prune.mistake(&self.shared.serving.load())
    }
}

impl Prune<'_> {
    fn mistake(&self, state: &CurrentState) -> Option<String> {
        let settings = state.published.configured.settings.withdrawals;
        let names: BTreeSet<Name> = self.deleted.iter().flat_map(|key| self.before.names_at(key)).collect();
        let (stays, gone): (Vec<&Name>, Vec<&Name>) = names.iter().partition(|name| is_declared(self.desired, name));
        let gone: Vec<&Name> = gone.into_iter().filter(|name| is_alive(state, name)).collect();
        let kept: BTreeSet<Name> = self.kept.iter().flat_map(|key| self.after.names_at(key)).collect();
        if settings.hold_for > Duration::ZERO && are_many(gone.len(), kept.len(), usize::MAX) {
            let (count, first, kept) = (gone.len(), gone[0], kept.len());
            return Some(format!(
                "{count} names whose targets are not down would go, among them {first}, and {kept} would stay"
            ));
        }
        // Objects without a name of their own may be members of one.
        let of_pools = self.names_of_deleted_pools(state);
        let mut shared = stays.into_iter().chain(&of_pools).filter(|name| is_declared(self.desired, name));
        let orphaned = shared.find(|name| {
            let desired = &state.published.configured.merged.desired;
            has_healthy_member(state, desired, name) && !has_healthy_member(state, self.desired, name)
        });
        let orphaned = orphaned.filter(|_| settings.hold_last_for > Duration::ZERO)?;
        Some(format!("{orphaned} would be left without a healthy member"))
    }

    /// Returns the names that pools among the deleted objects answer.
    fn names_of_deleted_pools(&self, state: &CurrentState) -> Vec<Name> {
        let elements = self.deleted.iter().filter_map(|key| self.before.element(key));
        let pools: BTreeSet<_> = elements.flat_map(|element| element.pools.keys()).collect();
        if pools.is_empty() {
            return vec![];
        }
        let steered = state.published.configured.merged.desired.names.values();
        steered.filter(|steered| pools.contains(&steered.pool)).map(|steered| steered.name.clone()).collect()
    }
}

fn is_declared(desired: &DesiredState, name: &Name) -> bool {
    desired.names.contains_key(name) || desired.records_at(name).next().is_some()
}

/// Returns true unless all targets of a name are down. Records without a target count as alive.
fn is_alive(state: &CurrentState, name: &Name) -> bool {
    let desired = &state.published.configured.merged.desired;
    match desired.names.get(name) {
        Some(_) => best(state, desired, name).is_some_and(|best| best < Eligibility::Down),
        None => desired.records_at(name).next().is_some(),
    }
}

fn has_healthy_member(state: &CurrentState, desired: &DesiredState, name: &Name) -> bool {
    best(state, desired, name).is_some_and(|best| best < Eligibility::Pending)
}

/// Returns the best eligibility of the members that a name has in a desired state, by the health that is served.
fn best(state: &CurrentState, desired: &DesiredState, name: &Name) -> Option<Eligibility> {
    let pool = desired.pools.get(&desired.names.get(name)?.pool)?;
    pool.members.iter().filter_map(|member| ServedHealth(state).of_member(&pool.name, &member.cluster)).min()
}
