//! The narrow way of a reading: where only some declared pools, names and records changed, what it costs goes by those, and not by all.
//!
//! ```text
//! Declared before ──┐
//!                   ├── which objects differ ── joined with the files ── checked ── revised ──► as the wide way would give it
//! Declared now ─────┘
//! ```
//! Whatever is unusual gives nothing, and is left to the wide way ([`super::configured`]), which tells what is wrong, leaves
//! objects out and sees to everything else: intents, clusters, monitors, objects that files overrule in part.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::{
    Contribution, Desired, Merged, Name, PoolName, RecordSet, Rtype, Severity, SharedSet, SourceKind, Timestamp, merge,
};
use fairway_zones::{Snapshot, Touched, revise};

use super::{
    configured::{Configured, Previous, check_overrides, options},
    declared::{Declared, LeftOut, overruled},
};
use crate::store::objects::Key;

/// A configuration made of the one before, with what it changed.
#[derive(Debug)]
pub(super) struct Narrow {
    pub(super) configured: Configured,
    pub(super) snapshot: Snapshot,
    pub(super) touched: Touched,
}

/// Takes changed objects into a configuration whose files stay as they are; none where that is not all there is to it.
/// `owner` is what the files are called.
pub(super) fn read(previous: &Previous, objects: &Arc<Declared>, owner: &str, now: Timestamp) -> Option<Narrow> {
    let before = &*previous.configured;
    if !before.is_plain || objects.is_empty() {
        return None;
    }
    let most =
        CHANGES_SPARE + (before.desired.pools.len() + before.desired.names.len() + before.desired.records.len()) / 4;
    let keys = objects.changed_since(&before.objects, most)?;
    let (mut warnings, specs) = (before.doubts.clone(), before.specs.clone());
    let overrides = check_overrides(specs.clone(), now, &mut warnings).ok()?;
    if let Some(Narrow { configured, snapshot, touched }) =
        previous.tried.as_ref().and_then(|it| it.take(previous, objects))
    {
        let (objects, revision) = (Arc::clone(objects), objects.revision);
        let configured = Configured { objects, revision, overrides, warnings, ..configured };
        return Some(Narrow { configured, snapshot, touched });
    }
    let mut touched = Touched::default();
    for wish in keys.iter().flat_map(|key| [before.objects.element(key), objects.element(key)]).flatten() {
        touched.pools.extend(wish.pools.keys().cloned());
        touched.names.extend(wish.names.keys().cloned());
        touched.records.extend(wish.records.keys().map(|(name, _)| name.clone()));
    }
    let joined = join(before, objects, &keys, &touched, owner);
    let names_of = |pool: &PoolName| names_of(&previous.snapshot, pool);
    let names: BTreeSet<&Name> = touched.names.iter().chain(touched.pools.iter().flat_map(names_of)).collect();
    let problems = joined.desired.problems_of(&touched.pools, names, &touched.records);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return None;
    }
    let options = options(&before.settings);
    let snapshot = revise(&before.desired, &joined.desired, &touched, &options, &previous.snapshot)?;
    let pools = pools_concerned(&before.desired, &joined.desired, &touched);
    let configured = Configured {
        uses: before.uses.revised(&joined.desired, &snapshot, &pools),
        desired: joined.desired,
        beside: joined.beside,
        conflicts: joined.conflicts,
        contributed: Arc::clone(&before.contributed),
        revision: objects.revision,
        objects: Arc::clone(objects),
        is_plain: true,
        left_out: LeftOut::new(),
        overrides,
        warnings,
        specs,
        settings: before.settings.clone(),
        files: Arc::clone(&before.files),
        doubts: before.doubts.clone(),
        zones: before.zones.clone(),
        maps: before.maps.clone(),
    };
    Some(Narrow { configured, snapshot, touched })
}

/// Changes that are worth the narrow way however little there is: with more than a quarter of all beside, the wide one costs less.
const CHANGES_SPARE: usize = 1_000;

/// What files and objects wish for, with some of it joined anew.
struct Joined {
    desired: Arc<Desired>,
    beside: SharedSet<Name>,
    conflicts: BTreeMap<Key, String>,
}

/// Joins files and objects for what is touched alone; the rest is as it was.
fn join(before: &Configured, objects: &Declared, keys: &[Key], touched: &Touched, owner: &str) -> Joined {
    let mut declared = Desired::default();
    for wish in keys.iter().filter_map(|key| objects.element(key)) {
        declared.pools.extend(wish.pools.clone());
        declared.names.extend(wish.names.clone());
        declared.records.extend(wish.records.clone());
    }
    let (pools, names) = (touched.pools.iter(), touched.names.iter());
    let files = Desired {
        pools: pools.filter_map(|name| Some((name.clone(), before.files.pools.get(name)?.clone()))).collect(),
        names: names.filter_map(|name| Some((name.clone(), before.files.names.get(name)?.clone()))).collect(),
        records: touched.records.iter().flat_map(|name| before.files.records_at(name)).map(keyed).collect(),
        ..Desired::default()
    };
    let mut beside = before.beside.clone();
    for name in touched.names.iter().filter(|name| !files.names.contains_key(*name)) {
        match declared.names.contains_key(name) {
            true => beside.insert(name.clone(), ()),
            false => beside.remove(name),
        };
    }
    let Merged { desired: merged, conflicts } = merge([
        Contribution {
            source: SourceKind::Config,
            owner: owner.to_owned(),
            set: String::new(),
            created: 0,
            desired: files,
        },
        Contribution {
            source: SourceKind::Api,
            owner: "api".to_owned(),
            set: String::new(),
            created: 0,
            desired: declared,
        },
    ]);
    let mut desired = Desired::clone(&before.desired);
    touched.pools.iter().for_each(|name| _ = desired.pools.remove(name));
    touched.names.iter().for_each(|name| _ = desired.names.remove(name));
    let gone: Vec<_> = touched.records.iter().flat_map(|name| desired.records_at(name)).map(RecordSet::key).collect();
    gone.iter().for_each(|key| _ = desired.records.remove(key));
    desired.records.extend(merged.records);
    desired.pools.extend(merged.pools);
    desired.names.extend(merged.names);
    let mut all_conflicts = before.conflicts.clone();
    keys.iter().for_each(|key| _ = all_conflicts.remove(key));
    all_conflicts.extend(overruled(&conflicts, owner));
    Joined { desired: Arc::new(desired), beside, conflicts: all_conflicts }
}

fn keyed(set: &RecordSet) -> ((Name, Rtype), RecordSet) {
    (set.key(), set.clone())
}

/// The names that a pool answers in a snapshot.
fn names_of<'s>(snapshot: &'s Snapshot, pool: &PoolName) -> Vec<&'s Name> {
    snapshot.places_of(pool).flat_map(|place| &snapshot.pool_infos()[place].names).collect()
}

/// The pools that changed, or have other names than before.
fn pools_concerned(before: &Desired, after: &Desired, touched: &Touched) -> BTreeSet<PoolName> {
    let of_names = touched.names.iter().flat_map(|name| [before.names.get(name), after.names.get(name)]);
    of_names.flatten().map(|steered| steered.pool.clone()).chain(touched.pools.iter().cloned()).collect()
}
