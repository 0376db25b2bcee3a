//! The effect of an override before it is in force: names without a healthy member, and broken rules.
//!
//! Pure: the state and the tables before and after are arguments. The code that answers queries decides with both tables, once for each
//! set of members that clients see.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{ClusterName, LISTED_MAX, Name, OverrideAction, OverrideRule, PoolName};
use fairway_zones::{
    Draw, RuntimeState, TargetIndex,
    steer::{Answer, Basis, SteerPool},
};

use super::{
    overrides::{BrokenRule, OverrideEffect, OverrideTable},
    served::CurrentState,
};

/// The action of each target with two override tables.
pub(crate) struct ActionChange<'a> {
    state: &'a CurrentState,
    before: Vec<Option<OverrideAction>>,
    after: Vec<Option<OverrideAction>>,
}

impl<'a> ActionChange<'a> {
    pub(crate) fn new(state: &'a CurrentState, before: &OverrideTable, after: &OverrideTable) -> Self {
        let published = &state.published;
        let actions = |table: &OverrideTable| published.denied.restrict(table.actions(&published.configured.uses));
        Self { state, before: actions(before), after: actions(after) }
    }

    /// Returns the names that the change leaves without a healthy member.
    pub(crate) fn effect(&self) -> OverrideEffect {
        // The state in force may have the override already, if the request is a repeated one.
        let states = [&self.before, &self.after].map(|actions| self.runtime_with(actions));
        let emptied: BTreeSet<&Name> =
            self.pools().filter(|(pool, _)| is_emptied(pool, &states)).flat_map(|(_, names)| names).collect();
        OverrideEffect { names: emptied.len(), first: emptied.into_iter().take(LISTED_MAX).cloned().collect() }
    }

    /// Returns the first rule that the change breaks.
    pub(crate) fn broken_rule(&self, rules: &[OverrideRule]) -> Option<BrokenRule> {
        self.pools().find_map(|(pool, _)| {
            let matching = rules.iter().filter(|rule| rule.pools.iter().any(|pattern| pattern.matches(pool.name())));
            let min_clusters = matching.map(|rule| rule.min_clusters).max()?;
            let (clusters, before) = clusters_left(pool, &self.before);
            let (_, left) = clusters_left(pool, &self.after);
            let is_broken = left < before && left < usize::from(min_clusters);
            is_broken.then(|| BrokenRule { pool: pool.name().clone(), left, clusters, min_clusters })
        })
    }

    /// Returns the pools with a target that is newly taken out, with their names. A pool may be compiled once per zone.
    fn pools(&self) -> impl Iterator<Item = (&'a SteerPool, &'a [Name])> + use<'a> {
        let (snapshot, uses) = (&self.state.snapshot, &self.state.published.configured.uses);
        let taken = uses.targets_all().filter(|target| self.is_taken(*target));
        let pools: BTreeSet<&PoolName> = taken.flat_map(|target| uses.pools(target).keys()).collect();
        let compiled = pools.into_iter().flat_map(|pool| snapshot.indices_of(pool));
        compiled.map(|at| (&snapshot.steer_pools()[at], &*snapshot.pool_infos()[at].names))
    }

    /// Returns the runtime state with these actions. Probes go on, so the health is the current one.
    fn runtime_with(&self, actions: &[Option<OverrideAction>]) -> RuntimeState {
        let (snapshot, runtime) = (&self.state.snapshot, &self.state.runtime);
        let targets = self.state.published.configured.uses.targets_all();
        let changed = targets.filter_map(|target| {
            let health = runtime.health(target).with_override(actions[target.0 as usize]);
            (health != runtime.health(target)).then_some((target, health))
        });
        runtime.with(snapshot, &changed.collect::<Vec<_>>())
    }

    fn is_taken(&self, target: TargetIndex) -> bool {
        let at = target.0 as usize;
        !is_out(self.before[at]) && is_out(self.after[at])
    }
}

/// Returns true if clients that see the same members lose the last one that is not known to be down, and none is healthy then. In an
/// outage the names that had none before would hide those that lose one now.
fn is_emptied(pool: &SteerPool, [before, after]: &[RuntimeState; 2]) -> bool {
    let mut clients = pool.sample_clients().flat_map(|client| pool.kinds().iter().map(move |kind| (client, *kind)));
    clients.any(|(client, kind)| {
        let basis = |runtime: &RuntimeState| {
            let choice = pool.choose(kind, runtime, client, Draw(0), &mut ());
            // If only members of the other family are healthy, the answer is empty.
            (choice.answer != Answer::Nothing).then_some(choice.basis)
        };
        let is_healthy = |basis| matches!(basis, Some(Basis::Live | Basis::Exhausted | Basis::Panic));
        let (before, after) = (basis(before), basis(after));
        (is_healthy(before) || before == Some(Basis::Pending)) && !is_healthy(after)
    })
}

/// Returns the number of a pool's clusters, and of those with an address that is not taken out.
fn clusters_left(pool: &SteerPool, actions: &[Option<OverrideAction>]) -> (usize, usize) {
    let mut clusters: BTreeMap<&ClusterName, bool> = BTreeMap::new();
    for (cluster, _, target) in pool.address_targets() {
        *clusters.entry(cluster).or_default() |= !is_out(actions[target.0 as usize]);
    }
    (clusters.len(), clusters.values().filter(|is_left| **is_left).count())
}

const fn is_out(action: Option<OverrideAction>) -> bool {
    matches!(action, Some(OverrideAction::Down | OverrideAction::Drain))
}
