//! Deletions by `fairway apply --prune` that look like a mistake, by the rules for withdrawals of webhook clients.
//!
//! They are not held but refused, and the whole request with them: objects refer to each other and are validated together, and the caller,
//! a person or a pipeline, waits for the result and can repeat the command with `--allow-removals`, which an ExternalDNS cannot. What a
//! caller pruned in the last ten minutes counts, so that many small prunes do not pass where a large one is refused. `fairway delete` is
//! never refused.

use std::{collections::BTreeSet, time::Duration};

use fairway_config::WithdrawalSettings;
use fairway_contributions::{WINDOW, are_many};
use fairway_model::{ClusterName, DesiredState, Eligibility, Name, PoolName, Timestamp};
use fairway_store::objects::{Change, Key};

use super::{
    Control,
    contributed::ServedHealth,
    declared::{
        Declared, removed,
        removed_wire::{RemovedName, Remover},
    },
};

/// Answers before a prune.
pub(crate) struct Answered<'a> {
    pub(crate) settings: WithdrawalSettings,
    pub(crate) desired: &'a DesiredState,
    /// Returns the best eligibility of the addresses of a member.
    pub(crate) health: &'a dyn Fn(&PoolName, &ClusterName) -> Option<Eligibility>,
}

/// A prune, and what it leaves.
pub struct Prune<'a> {
    /// Identity of the caller.
    pub by: &'a str,
    /// Time.
    pub at: Timestamp,
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
    /// Returns the changes to commit with a prune, so that the caller's next ones are weighed with it.
    ///
    /// # Errors
    /// Why the prune looks like a mistake.
    pub fn weigh_prune(&self, prune: &Prune<'_>) -> Result<Vec<Change>, String> {
        let state = self.shared.serving.load();
        let configured = &state.published.configured;
        prune.weigh(&Answered {
            settings: configured.settings.withdrawals,
            desired: &configured.merged.desired,
            health: &|pool, cluster| ServedHealth(&state).of_member(pool, cluster),
        })
    }
}

impl Prune<'_> {
    pub(crate) fn weigh(&self, answered: &Answered<'_>) -> Result<Vec<Change>, String> {
        let settings = answered.settings;
        let names: BTreeSet<Name> = self.deleted.iter().flat_map(|key| self.before.names_at(key)).collect();
        let (stays, gone): (Vec<&Name>, Vec<&Name>) = names.iter().partition(|name| is_declared(self.desired, name));
        let gone: Vec<&Name> = gone.into_iter().filter(|name| answered.is_alive(name)).collect();
        let kept: BTreeSet<Name> = self.kept.iter().flat_map(|key| self.after.names_at(key)).collect();
        let earlier = self.before.pruned_by(self.by, self.at);
        let earlier = earlier.iter().filter(|name| !names.contains(*name) && !is_declared(self.desired, name)).count();
        let is_weighed = settings.hold_for > Duration::ZERO && !gone.is_empty();
        if is_weighed && are_many(gone.len() + earlier, kept.len(), usize::MAX) {
            let (count, first, kept) = (gone.len(), gone[0], kept.len());
            let before = match earlier {
                0 => String::new(),
                _ => format!(" (after {earlier} by prunes of the last 10 minutes)"),
            };
            return Err(format!(
                "{count} names whose targets are not down would go{before}, among them {first}, and {kept} would stay"
            ));
        }
        // Objects without a name of their own may be members of one.
        let of_pools = self.names_of_deleted_pools(answered.desired);
        let mut shared = stays.into_iter().chain(&of_pools).filter(|name| is_declared(self.desired, name));
        let orphaned = shared.find(|name| {
            answered.has_healthy_member(answered.desired, name) && !answered.has_healthy_member(self.desired, name)
        });
        if let Some(orphaned) = orphaned.filter(|_| settings.hold_last_for > Duration::ZERO) {
            return Err(format!("{orphaned} would be left without a healthy member"));
        }
        let until = self.at.secs() + WINDOW.as_secs();
        let removed =
            |name: &Name| RemovedName { name: name.to_string(), by: Remover::Pruner(self.by.to_owned()), until };
        let gone: Vec<_> = gone.into_iter().filter(|_| is_weighed).map(removed).collect();
        Ok(removed::changes(self.at, &gone))
    }

    /// Returns the names that pools among the deleted objects answered.
    fn names_of_deleted_pools(&self, answered: &DesiredState) -> Vec<Name> {
        let elements = self.deleted.iter().filter_map(|key| self.before.element(key));
        let pools: BTreeSet<_> = elements.flat_map(|element| element.pools.keys()).collect();
        if pools.is_empty() {
            return vec![];
        }
        let steered = answered.names.values();
        steered.filter(|steered| pools.contains(&steered.pool)).map(|steered| steered.name.clone()).collect()
    }
}

fn is_declared(desired: &DesiredState, name: &Name) -> bool {
    desired.names.contains_key(name) || desired.records_at(name).next().is_some()
}

impl Answered<'_> {
    /// Returns true unless all targets of a name are down. Records without a target count as alive.
    fn is_alive(&self, name: &Name) -> bool {
        match self.desired.names.get(name) {
            Some(_) => self.best(self.desired, name).is_some_and(|best| best < Eligibility::Down),
            None => self.desired.records_at(name).next().is_some(),
        }
    }

    fn has_healthy_member(&self, desired: &DesiredState, name: &Name) -> bool {
        self.best(desired, name).is_some_and(|best| best < Eligibility::Pending)
    }

    /// Returns the best eligibility of the members that a name has in a desired state, by the health that is served.
    fn best(&self, desired: &DesiredState, name: &Name) -> Option<Eligibility> {
        let pool = desired.pools.get(&desired.names.get(name)?.pool)?;
        pool.members.iter().filter_map(|member| (self.health)(&pool.name, &member.cluster)).min()
    }
}
