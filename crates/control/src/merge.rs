//! Merges what files, declared objects and clients of the webhook contribute into one desired state.
//!
//! ```text
//! files ────────────┐
//! declared objects ─┴── declared ──┬───────────────────────┬── desired
//! rows of webhook and Kubernetes ──┴── contributed names ──┘
//! ```
//! Parts that are not affected ([`AffectedParts`]) are taken from the last state.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use fairway_access::Tenant;
use fairway_contributions::{Contributed, DeclaredName, MergeContext, RejectedNames};
use fairway_model::{
    Cluster, ClusterName, DeclaredClusters, DesiredState, Name, PinnedPools, PoolName, SharedSet, SteeredName,
};

use fairway_sources::{WeighedPools, Weighing, add_addresses, owned_rows, weigh_members};

use super::{
    affected::AffectedParts,
    compile::Job,
    configured::{MergedState, Rejected},
    declared::{ClaimRules, closed_pool, shadowed, waiting},
};

impl Job<'_> {
    /// Merges the sources without rejected objects and names: everything, or the affected parts. Adds to these parts what depends on them,
    /// and to the rejected objects those that cannot be parsed.
    ///
    /// Returns `None` if everything turns out to be affected.
    pub(crate) fn merge(
        &self,
        affected: &mut Option<AffectedParts<'_>>,
        rejected: &mut Rejected,
    ) -> Option<MergedState> {
        if let Some(part) = affected {
            part.add_dependents(self.files, self.objects);
        }
        let (files, part) = (&self.files.desired, affected.as_ref());
        let names = &self.files.settings.access.names;
        let released_by_files = self.objects.released_by_files(self.previous, self.files, self.now);
        let claims = ClaimRules { names, released_by_files: &released_by_files, now: self.now };
        let (mut of_objects, unserved) = self.objects.contribution(part, files, &claims, &mut rejected.objects);
        let mut declared = selected(part, files);
        add_addresses(&mut declared, &self.looked_up.found);
        let closed = close_pools(&declared, &mut of_objects, names.is_enforced);
        let conflicts = declared.merge(of_objects);
        let before = part.map(|part| &part.previous.configured.merged);
        let mut state = before.cloned().unwrap_or_default();
        if let Some(part) = part {
            for key in part.object_keys() {
                state.conflicts.remove(&key);
            }
            for key in &part.intents {
                state.unserved_intents.remove(key);
            }
        }
        state.conflicts.extend(shadowed(&conflicts, self.owner));
        state.conflicts.extend(closed.into_iter().filter_map(|pool| closed_pool(pool, self.owner)));
        state.unserved_intents.extend(unserved);
        state.declared = replaced(part, &state.declared, declared);
        if before.is_none() {
            // A cluster that is added, removed or moved affects everything.
            state.clusters = Arc::new(DeclaredClusters::new(state.declared.clusters.values()));
        }
        // Names that waited before are always among the affected parts.
        state.take_overs = self.objects.take_overs(&claims);
        state.contributed = self.contributed(affected, &state, &claims, &rejected.names)?;
        state.released_by_files = released_by_files;
        self.add_weighed_pools(affected, &state);
        let part = affected.as_ref();
        state.desired = if state.contributed.is_empty() {
            Arc::clone(&state.declared)
        } else {
            let mut desired = selected(part, &state.declared);
            // Declared fields are copied into contributed names beforehand, so that there is no difference to report.
            desired.merge(selected(part, &state.contributed.desired()));
            replaced(part, &state.desired, desired)
        };
        // Without contributions it was copied from the declared state, which has neither resolved addresses nor endpoints.
        let of_desired = part.filter(|_| !state.contributed.is_empty());
        self.resolve_hosts(of_desired, &mut state.desired);
        state.pinned.retain(|pool, _| part.is_some_and(|part| !part.touched.pools.contains(pool)));
        state.pinned.extend(self.pin_pools(&mut state.desired));
        self.weigh_members(of_desired, &mut state);
        state.not_in_files = self.names_not_in_files(part, state.not_in_files, &state.desired);
        Some(state)
    }

    /// Merges the contributions of webhook clients with what is declared. Adds to the affected parts what they change.
    fn contributed(
        &self,
        affected: &mut Option<AffectedParts<'_>>,
        state: &MergedState,
        claims: &ClaimRules<'_>,
        rejected: &RejectedNames,
    ) -> Option<Arc<Contributed>> {
        let declared = &*state.declared;
        let part = affected.as_ref();
        if part.is_some_and(|part| part.texts.is_empty()) {
            return Some(Arc::clone(&state.contributed));
        }
        let uses = if part.is_none() { uses_of_pools(declared) } else { HashMap::new() };
        let is_shared = |own: &SteeredName| match part {
            None => uses[&own.pool] > 1,
            Some(part) => {
                let names = part.names_of(&own.pool).into_iter().chain(&part.touched.names);
                let mut others = names.filter(|name| **name != own.name).filter_map(|name| declared.names.get(name));
                others.any(|other| other.pool == own.pool)
            }
        };
        let steered = |name: &Name| {
            let steered = declared.names.get(name)?;
            let pool = declared.pools.get(&steered.pool)?;
            let is_closed = pool.is_closed(self.files.settings.access.names.is_enforced);
            Some(DeclaredName { steered, pool, is_shared: is_shared(steered), is_closed })
        };
        let settings = &self.files.settings;
        let context = MergeContext {
            zones: declared,
            clusters: &state.clusters,
            steered: &steered,
            names: &settings.access.names,
            take_over: &|tenant, name, since| {
                let until = self.objects.take_over(claims, (tenant, name, since));
                until.map(|until| waiting(name, until))
            },
            shared: settings.shared_names(),
            rejected,
        };
        let texts = part.map(|part| &part.texts);
        let before = texts.map(|texts| (&*state.contributed, texts));
        let mut rows = self.objects.owned_rows(texts);
        rows.extend(owned_rows(&self.looked_up.found, texts));
        let contributed = Contributed::merged(before, rows, &context)?;
        if let Some(part) = affected {
            part.add_contributed(&contributed).then_some(())?;
        }
        Some(Arc::new(contributed))
    }

    /// Gives the affected clusters the addresses of their host names.
    fn resolve_hosts(&self, affected: Option<&AffectedParts<'_>>, desired: &mut Arc<DesiredState>) {
        let has_hosts = |cluster: &&Cluster| !cluster.hosts.is_empty();
        let of: Vec<ClusterName> = match affected {
            Some(part) => part.clusters().iter().cloned().collect(),
            None => desired.clusters.values().filter(has_hosts).map(|cluster| cluster.name.clone()).collect(),
        };
        if !of.is_empty() {
            Arc::make_mut(desired).resolve_hosts(of, &self.looked_up.hosts);
        }
    }

    /// Pins the pools that overrides pin. Returns them.
    fn pin_pools(&self, desired: &mut Arc<DesiredState>) -> PinnedPools {
        if self.load_off.is_empty() { PinnedPools::new() } else { Arc::make_mut(desired).pin_pools(self.load_off) }
    }

    /// Adds the pools of affected names to the affected parts: their members follow the endpoints of all their names.
    fn add_weighed_pools(&self, affected: &mut Option<AffectedParts<'_>>, state: &MergedState) {
        if let Some(part) = affected.as_mut().filter(|_| !self.looked_up.found.is_empty()) {
            part.add_pools_of_names([&state.declared, state.contributed.merged_names.desired()]);
        }
    }

    /// Weighs the members of the affected pools, and takes out those without ready endpoints.
    fn weigh_members(&self, affected: Option<&AffectedParts<'_>>, state: &mut MergedState) {
        let MergedState { desired, weighed, declared, contributed, clusters, .. } = state;
        match affected {
            None => *weighed = WeighedPools::new(),
            Some(part) => part.touched.pools.iter().for_each(|pool| _ = weighed.remove(pool)),
        }
        let found = &self.looked_up.found;
        if found.is_empty() {
            return;
        }
        let names = desired.names.clone();
        let mut by_pool: HashMap<&PoolName, BTreeSet<&Name>> = HashMap::new();
        let of_part = |part: &AffectedParts<'_>| -> Vec<Name> {
            let of_pools = part.touched.pools.iter().flat_map(|pool| part.names_of(pool)).cloned();
            of_pools.chain(part.touched.names.iter().cloned()).collect()
        };
        let wanted: Option<Vec<Name>> = affected.map(of_part);
        let steered: Vec<&SteeredName> = match &wanted {
            None => names.values().collect(),
            Some(wanted) => wanted.iter().filter_map(|name| names.get(name)).collect(),
        };
        for steered in steered {
            by_pool.entry(&steered.pool).or_default().insert(&steered.name);
        }
        let pools: Vec<PoolName> = match affected {
            None => desired.pools.keys().cloned().collect(),
            Some(part) => part.touched.pools.iter().cloned().collect(),
        };
        let of_pool = |pool: &PoolName| by_pool.get(pool).into_iter().flatten().copied().collect();
        let grants = &self.files.settings.access.names;
        let is_granted = |tenant: &Tenant, name: &Name, rtype| grants.check(tenant, name, rtype).is_ok();
        let is_unweighted = |pool: &PoolName, cluster: &ClusterName| {
            let mut names = by_pool.get(pool).into_iter().flatten();
            !declared.pools.contains_key(pool)
                && names.any(|name| contributed.merged_names.is_unweighted(name, cluster))
        };
        let by = Weighing { found, clusters, names: &of_pool, is_granted: &is_granted, is_unweighted: &is_unweighted };
        weighed.append(weigh_members(Arc::make_mut(desired), pools, &by));
    }

    fn names_not_in_files(
        &self,
        affected: Option<&AffectedParts<'_>>,
        before: SharedSet<Name>,
        desired: &DesiredState,
    ) -> SharedSet<Name> {
        let of_files = &self.files.desired.names;
        let Some(part) = affected else {
            let not_in_files = desired.names.keys().filter(|name| !of_files.contains_key(*name));
            return not_in_files.map(|name| (name.clone(), ())).collect();
        };
        let mut not_in_files = before;
        for name in &part.touched.names {
            if desired.names.contains_key(name) && !of_files.contains_key(name) {
                not_in_files.insert(name.clone(), ());
            } else {
                not_in_files.remove(name);
            }
        }
        not_in_files
    }
}

/// Removes the members that objects would add to pools of the files that take none. Returns these pools.
fn close_pools(files: &DesiredState, objects: &mut DesiredState, has_rules: bool) -> Vec<PoolName> {
    let mut closed = Vec::new();
    for pool in files.pools.values().filter(|pool| pool.is_closed(has_rules)) {
        let Some(theirs) = objects.pools.get_mut(&pool.name) else { continue };
        let count = theirs.members.len();
        theirs.members.retain(|member| pool.members.iter().any(|own| own.cluster == member.cluster));
        if theirs.members.len() < count {
            closed.push(pool.name.clone());
        }
    }
    closed
}

/// Returns the affected parts of a desired state.
fn selected(affected: Option<&AffectedParts<'_>>, desired: &DesiredState) -> DesiredState {
    affected.map_or_else(|| desired.clone(), |part| part.of(desired))
}

/// Returns the last state with the affected parts replaced.
fn replaced(affected: Option<&AffectedParts<'_>>, before: &DesiredState, with: DesiredState) -> Arc<DesiredState> {
    Arc::new(match affected {
        Some(part) => part.replaced(before, with),
        None => with,
    })
}

/// Returns the number of names of each pool.
fn uses_of_pools(desired: &DesiredState) -> HashMap<&PoolName, usize> {
    let mut uses = HashMap::new();
    desired.names.values().for_each(|steered| *uses.entry(&steered.pool).or_default() += 1);
    uses
}
