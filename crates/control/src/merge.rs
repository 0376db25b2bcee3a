//! Merges what files, declared objects and clients of the webhook contribute into one desired state.
//!
//! ```text
//! files ────────────┐
//! declared objects ─┴── declared ──┬───────────────────────┬── desired
//! webhook rows ────────────────────┴── contributed names ──┘
//! ```
//! What is not affected ([`Affected`]) is taken from the last state.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use fairway_model::{
    Contribution, DeclaredClusters, DesiredState, Merged, Name, PoolName, SharedSet, SourceKind, SteeredName, merge,
};

use super::{
    affected::{Affected, names_of},
    configured::{Files, Previous},
    contributed::{Beside, Contributed, LeftNames, rows},
    declared::{Declared, LeftOut, overruled},
};
use fairway_store::objects::Key;

/// Everything that contributes to the desired state.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// The last state, and its snapshot; `None` at the start.
    pub previous: Option<&'a Previous>,
    pub files: &'a Files,
    pub objects: &'a Declared,
    /// The name of the configuration, for messages.
    pub owner: &'a str,
}

/// The merged state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedState {
    /// What files and objects declare.
    pub declared: Arc<DesiredState>,
    /// The same with what clients of the webhook contribute.
    pub desired: Arc<DesiredState>,
    /// Names in it that the files do not steer.
    pub beside: SharedSet<Name>,
    /// Objects that files declare otherwise, with what of them holds.
    pub conflicts: BTreeMap<Key, String>,
    pub contributed: Arc<Contributed>,
    /// The declared clusters.
    pub clusters: Arc<DeclaredClusters>,
    /// Valid intents that are not served, with the reason.
    pub unanswered: LeftOut,
}

impl Sources<'_> {
    /// Merges the sources without rejected objects and names. What depends on affected parts is added to them; objects that cannot be read
    /// are rejected here.
    ///
    /// Returns `None` if everything turns out to be affected.
    pub(crate) fn merge(
        &self,
        affected: &mut Affected,
        rejected: &mut LeftOut,
        left_names: &LeftNames,
    ) -> Option<MergedState> {
        if let (Affected::Part(part), Some(previous)) = (&mut *affected, self.previous) {
            part.close(previous, self.files, self.objects);
        }
        let before = self.previous.filter(|_| affected.part().is_some()).map(|previous| &previous.configured.merged);
        let of = |source, desired| Contribution::of(source, self.owner, desired);
        let (of_objects, unanswered) = self.objects.contribution(&*affected, &self.files.desired, rejected);
        let of_files = of(SourceKind::Config, affected.of(&self.files.desired));
        let Merged { desired, conflicts } = merge([of_files, Contribution::of(SourceKind::Api, "api", of_objects)]);
        let mut state = before.cloned().unwrap_or_default();
        if let Some(part) = affected.part() {
            part.object_keys().iter().for_each(|key| _ = state.conflicts.remove(key));
            part.intents.iter().for_each(|key| _ = state.unanswered.remove(key));
        }
        state.conflicts.extend(overruled(&conflicts, self.owner));
        state.unanswered.extend(unanswered);
        let declared = affected.replaced(before.map(|before| &before.declared), desired);
        let clusters = match before {
            // A cluster that is added, removed or moved affects everything.
            Some(before) => Arc::clone(&before.clusters),
            None => Arc::new(DeclaredClusters::new(declared.clusters.values())),
        };
        let contributed = self.contributed(affected, &declared, &clusters, left_names)?;
        let desired = if contributed.is_empty() {
            Arc::clone(&declared)
        } else {
            // Declared fields are copied into contributed names beforehand, so that there is no conflict to report.
            let of_clients = Contribution::of(SourceKind::Webhook, "webhook", affected.of(&contributed.desired()));
            let merged = merge([of(SourceKind::Config, affected.of(&declared)), of_clients]).desired;
            affected.replaced(before.map(|before| &before.desired), merged)
        };
        state.beside = self.names_beside(affected, state.beside, &desired);
        Some(MergedState { declared, desired, contributed, clusters, ..state })
    }

    fn contributed(
        &self,
        affected: &mut Affected,
        declared: &DesiredState,
        clusters: &DeclaredClusters,
        left: &LeftNames,
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
            let own = declared.names.get(name)?;
            Some((own, declared.pools.get(&own.pool)?, is_shared(own)))
        };
        let shared = self.files.settings.shared_names();
        let beside = Beside { zones: declared, clusters, steered: &steered, shared, left };
        let rows = rows(self.objects, before.map(|(_, texts)| texts));
        let contributed = Contributed::merged(before.map(|(before, texts)| (&**before, texts)), rows, &beside)?;
        if let (Affected::Part(part), Some(previous)) = (&mut *affected, self.previous) {
            part.add_contributed(&previous.configured.merged.contributed, &contributed).then_some(())?;
        }
        Some(Arc::new(contributed))
    }

    fn names_beside(&self, affected: &Affected, before: SharedSet<Name>, desired: &DesiredState) -> SharedSet<Name> {
        let of_files = &self.files.desired.names;
        let Some(part) = affected.part() else {
            let beside = desired.names.keys().filter(|name| !of_files.contains_key(*name));
            return beside.map(|name| (name.clone(), ())).collect();
        };
        let mut beside = before;
        for name in &part.touched.names {
            match desired.names.contains_key(name) && !of_files.contains_key(name) {
                true => beside.insert(name.clone(), ()),
                false => beside.remove(name),
            };
        }
        beside
    }
}

/// How many names each pool answers.
fn uses_of_pools(desired: &DesiredState) -> HashMap<&PoolName, usize> {
    let mut uses = HashMap::new();
    desired.names.values().for_each(|steered| *uses.entry(&steered.pool).or_default() += 1);
    uses
}
