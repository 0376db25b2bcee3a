//! Merges what files, declared objects and clients of the webhook contribute into one desired state.
//!
//! ```text
//! files ────────────┐
//! declared objects ─┴── declared ──┬───────────────────────┬── desired
//! webhook rows ────────────────────┴── contributed names ──┘
//! ```
//! Parts that are not affected ([`Affected`]) are taken from the last state.

use std::{collections::HashMap, sync::Arc};

use fairway_model::{
    Contribution, DeclaredClusters, DesiredState, Merged, Name, PoolName, SharedSet, SourceKind, SteeredName, merge,
};

use super::{
    affected::{Affected, names_of},
    configured::{Files, MergedState, Previous, Rejected},
    contributed::{Contributed, DeclaredName, MergeContext, RejectedNames},
    declared::{Declared, ObjectSelection, shadowed},
};

/// Everything that contributes to the desired state.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// The last state with its snapshot; `None` at the start.
    pub(crate) previous: Option<&'a Previous>,
    pub(crate) files: &'a Files,
    pub(crate) objects: &'a Declared,
    /// The name of the configuration, for messages.
    pub(crate) owner: &'a str,
}

impl Sources<'_> {
    /// Merges the sources without rejected objects and names. Adds to the affected parts what depends on them, and to the rejected objects
    /// those that cannot be parsed.
    ///
    /// Returns `None` if everything turns out to be affected.
    pub(crate) fn merge(&self, affected: &mut Affected, rejected: &mut Rejected) -> Option<MergedState> {
        if let (Affected::Part(part), Some(previous)) = (&mut *affected, self.previous) {
            part.add_dependents(previous, self.files, self.objects);
        }
        let before = self.previous.filter(|_| affected.part().is_some()).map(|previous| &previous.configured.merged);
        let of = |source, desired| Contribution::of(source, self.owner, desired);
        let selection =
            affected.part().map(|part| ObjectSelection { elements: part.object_keys(), intents: &part.intents });
        let files = &self.files.desired;
        let (of_objects, unserved) = self.objects.contribution(selection.as_ref(), files, &mut rejected.objects);
        let of_files = of(SourceKind::Config, affected.of(&self.files.desired));
        let Merged { desired, conflicts } = merge([of_files, Contribution::of(SourceKind::Api, "api", of_objects)]);
        let mut state = before.cloned().unwrap_or_default();
        if let Some(part) = affected.part() {
            for key in part.object_keys() {
                state.conflicts.remove(&key);
            }
            for key in &part.intents {
                state.unserved_intents.remove(key);
            }
        }
        state.conflicts.extend(shadowed(&conflicts, self.owner));
        state.unserved_intents.extend(unserved);
        let declared = affected.replaced(before.map(|before| &before.declared), desired);
        let clusters = match before {
            // A cluster that is added, removed or moved affects everything.
            Some(before) => Arc::clone(&before.clusters),
            None => Arc::new(DeclaredClusters::new(declared.clusters.values())),
        };
        let contributed = self.contributed(affected, &declared, &clusters, &rejected.names)?;
        let desired = if contributed.is_empty() {
            Arc::clone(&declared)
        } else {
            // Declared fields are copied into contributed names beforehand, so that there is no conflict to report.
            let of_clients = Contribution::of(SourceKind::Webhook, "webhook", affected.of(&contributed.desired()));
            let merged = merge([of(SourceKind::Config, affected.of(&declared)), of_clients]).desired;
            affected.replaced(before.map(|before| &before.desired), merged)
        };
        state.not_in_files = self.names_not_in_files(affected, state.not_in_files, &desired);
        Some(MergedState { declared, desired, contributed, clusters, ..state })
    }

    fn contributed(
        &self,
        affected: &mut Affected,
        declared: &DesiredState,
        clusters: &DeclaredClusters,
        rejected: &RejectedNames,
    ) -> Option<Arc<Contributed>> {
        let part = affected.part().zip(self.previous);
        let before = part.map(|(part, previous)| (&previous.configured.merged.contributed, &part.texts));
        if let Some((before, texts)) = before
            && texts.is_empty()
        {
            return Some(Arc::clone(before));
        }
        let uses = if part.is_none() { uses_of_pools(declared) } else { HashMap::new() };
        let is_shared = |own: &SteeredName| match part {
            None => uses[&own.pool] > 1,
            Some((part, previous)) => {
                let names = names_of(&previous.snapshot, &own.pool).into_iter().chain(&part.touched.names);
                let mut others = names.filter(|name| **name != own.name).filter_map(|name| declared.names.get(name));
                others.any(|other| other.pool == own.pool)
            }
        };
        let steered = |name: &Name| {
            let steered = declared.names.get(name)?;
            let pool = declared.pools.get(&steered.pool)?;
            Some(DeclaredName { steered, pool, is_shared: is_shared(steered) })
        };
        let shared = self.files.settings.shared_names();
        let context = MergeContext { zones: declared, clusters, steered: &steered, shared, rejected };
        let rows = self.objects.owned_rows(before.map(|(_, texts)| texts));
        let contributed = Contributed::merged(before.map(|(before, texts)| (&**before, texts)), rows, &context)?;
        if let (Affected::Part(part), Some(previous)) = (&mut *affected, self.previous) {
            part.add_contributed(&previous.configured.merged.contributed, &contributed).then_some(())?;
        }
        Some(Arc::new(contributed))
    }

    fn names_not_in_files(
        &self,
        affected: &Affected,
        before: SharedSet<Name>,
        desired: &DesiredState,
    ) -> SharedSet<Name> {
        let of_files = &self.files.desired.names;
        let Some(part) = affected.part() else {
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

/// Returns the number of names of each pool.
fn uses_of_pools(desired: &DesiredState) -> HashMap<&PoolName, usize> {
    let mut uses = HashMap::new();
    desired.names.values().for_each(|steered| *uses.entry(&steered.pool).or_default() += 1);
    uses
}
