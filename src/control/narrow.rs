//! The narrow way of a reading: where only some declared pools, names, records and intents changed, or services of clusters, what it costs
//! goes by those, and not by all.
//!
//! ```text
//! Declared before ──┐                          ┌── what intents of the same names come to ──┐
//!                   ├── which objects differ ──┴────────────────────────────────────────────┴── joined with the files ──┐
//! Declared now ─────┘                                as the wide way would give it ◄── revised ── checked ◄─────────────┘
//! ```
//! Whatever is unusual gives nothing, and is left to the wide way ([`super::configured`]), which tells what is wrong, leaves
//! objects out and sees to everything else: clusters that are new or stand elsewhere, monitors, objects that files overrule in part.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::{
    ClusterName, Contribution, Desired, Merged, Mode, MonitorName, Name, PoolName, RecordSet, Rtype, Severity,
    SharedSet, SourceKind, Subject, Timestamp, merge,
};
use fairway_providers::plain_name;
use fairway_zones::{Snapshot, Touched, recompile, revise};

use super::{
    configured::{Configured, Previous, check_overrides, options},
    contributed::{self, Beside, Contributed, LeftNames},
    declared::{Concerned, Declared, is_of_intents, key_of, overruled},
    uses::Uses,
};
use fairway_store::objects::{Key, Kind};

/// A configuration made of the one before, with what it changed.
#[derive(Debug)]
pub(super) struct Narrow {
    pub(super) configured: Configured,
    pub(super) snapshot: Snapshot,
    pub(super) touched: Touched,
    /// Whether only what is touched was compiled, too.
    pub(super) is_revised: bool,
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
    if let Some(Narrow { configured, snapshot, touched, is_revised }) =
        previous.tried.as_ref().and_then(|it| it.take(previous, objects))
    {
        let (objects, revision) = (Arc::clone(objects), objects.revision);
        let configured = Configured { objects, revision, overrides, warnings, ..configured };
        return Some(Narrow { configured, snapshot, touched, is_revised });
    }
    let mut touched = touched_by(&before.objects, objects, &keys);
    let concerned = concern(before, objects, &keys, &mut touched, most)?;
    let contributed = contribute(previous, objects, &concerned, &keys, &mut touched, most)?;
    let joined = join(before, objects, &concerned, &keys, &touched, &contributed, owner);
    let monitors: Vec<MonitorName> = concerned.monitors().collect();
    let names_of = |pool: &PoolName| names_of(&previous.snapshot, pool);
    let names: BTreeSet<&Name> = touched.names.iter().chain(touched.pools.iter().flat_map(names_of)).collect();
    let problems = joined.desired.problems_of(&monitors, &touched.pools, names, &touched.records);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return None;
    }
    let options = options(&before.settings);
    let revised = revise(&before.desired, &joined.desired, &touched, &options, &previous.snapshot);
    let is_revised = revised.is_some();
    let (snapshot, uses) = match revised {
        Some(snapshot) => {
            let pools = pools_concerned(&before.desired, &joined.desired, &touched);
            let uses = before.uses.revised(&joined.desired, previous.snapshot.targets(), &snapshot, &pools);
            (snapshot, uses)
        }
        // What is wished for was joined anew in part, also where all of it has to be compiled.
        None => {
            let (snapshot, doubts) = recompile(&joined.desired, &options, &previous.snapshot).ok()?;
            let uses = Uses::new(&joined.desired, &snapshot);
            doubts.is_empty().then_some((snapshot, uses))?
        }
    };
    let configured = Configured {
        uses,
        desired: joined.desired,
        beside: joined.beside,
        conflicts: joined.conflicts,
        contributed,
        clusters: Arc::clone(&before.clusters),
        revision: objects.revision,
        objects: Arc::clone(objects),
        is_plain: true,
        left_out: concerned.left_out(&before.left_out),
        at_fault: concerned.others(&before.at_fault),
        overrides,
        warnings,
        specs,
        settings: before.settings.clone(),
        files: Arc::clone(&before.files),
        doubts: before.doubts.clone(),
        zones: before.zones.clone(),
        maps: before.maps.clone(),
    };
    Some(Narrow { configured, snapshot, touched, is_revised })
}

/// Changes that are worth the narrow way however little there is: with more than a quarter of all beside, the wide one costs less.
const CHANGES_SPARE: usize = 1_000;

/// What changed elements wish for, before and now.
fn touched_by(before: &Declared, objects: &Declared, keys: &[Key]) -> Touched {
    let mut touched = Touched::default();
    for wish in keys.iter().flat_map(|key| [before.element(key), objects.element(key)]).flatten() {
        touched.pools.extend(wish.pools.keys().cloned());
        touched.names.extend(wish.names.keys().cloned());
        touched.records.extend(wish.records.keys().map(|(name, _)| name.clone()));
    }
    touched
}

/// The intents that a change concerns, with what they come to now. None where that, or what they come to beside others, is hard to tell.
fn concern(
    before: &Configured,
    objects: &Declared,
    keys: &[Key],
    touched: &mut Touched,
    most: usize,
) -> Option<Concerned> {
    let texts = contributed::texts_touched(&before.objects, objects, keys)?;
    let of_clients: Vec<Name> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    let concerned = Concerned::of(before, objects, keys, touched.names.iter().chain(&of_clients), most)?;
    // What is wrong with an intent may be mended by what others declare, or by the names of clusters.
    let is_cname = |name: &PoolName| {
        let pools = [before.desired.pools.get(name), concerned.made.pools.get(name)];
        pools.into_iter().flatten().any(|pool| pool.mode == Mode::Cname)
    };
    let may_mend =
        || keys.iter().any(|key| !is_of_intents(key.kind())) || concerned.pools().any(|name| is_cname(&name));
    if !before.at_fault.is_empty() && may_mend() {
        return None;
    }
    touched.pools.extend(concerned.pools());
    touched.names.extend(concerned.names.iter().cloned());
    Some(concerned)
}

/// What files and objects wish for, with some of it joined anew.
struct Joined {
    desired: Arc<Desired>,
    beside: SharedSet<Name>,
    conflicts: BTreeMap<Key, String>,
}

/// What the clients of the webhook contribute now, with what changes because of it; none where that is much, or hard to tell.
fn contribute(
    previous: &Previous,
    objects: &Arc<Declared>,
    concerned: &Concerned,
    keys: &[Key],
    touched: &mut Touched,
    most: usize,
) -> Option<Arc<Contributed>> {
    let before = &*previous.configured;
    let mut texts = contributed::texts_touched(&before.objects, objects, keys)?;
    if texts.is_empty() && before.contributed.is_empty() {
        return Some(Arc::clone(&before.contributed));
    }
    let made = &concerned.made;
    let declared = |name: &Name| {
        let own = before.files.names.get(name).or_else(|| objects.name(name)).or_else(|| made.names.get(name))?;
        let pool = before.files.pools.get(&own.pool).or_else(|| objects.pool(&own.pool));
        Some((own, pool.or_else(|| made.pools.get(&own.pool))?))
    };
    // What is declared changes what is contributed to the same names, and to others that its pools answer.
    let versions = |name| [before.desired.names.get(name), objects.name(name), made.names.get(name)];
    let of_names = touched.names.iter().flat_map(versions).flatten();
    let pools: BTreeSet<&PoolName> = of_names.map(|steered| &steered.pool).chain(&touched.pools).collect();
    let answered = pools.iter().flat_map(|pool| names_of(&previous.snapshot, pool)).chain(&touched.names);
    let joining = answered.filter(|name| before.contributed.united().of_name(name).is_some());
    texts.extend(joining.map(|name| plain_name(&name.to_string())));
    let is_untold = |name: &Name| !concerned.names.contains(name) && objects.claimants(name).next().is_some();
    if texts.len() > most || texts.iter().filter_map(|text| text.parse().ok()).any(|name| is_untold(&name)) {
        return None;
    }
    let steered = |name: &Name| {
        let (own, pool) = declared(name)?;
        let mut others = names_of(&previous.snapshot, &own.pool).into_iter().chain(&touched.names);
        let is_shared = others.any(|other| other != name && declared(other).is_some_and(|(it, _)| it.pool == own.pool));
        Some((own, pool, is_shared))
    };
    let shared = before.settings.shared_names();
    let left = LeftNames::new();
    let beside = Beside { zones: &before.desired, clusters: &before.clusters, steered: &steered, shared, left: &left };
    let contributed = before.contributed.revised(&texts, objects, &beside)?;
    let (was, is) = (before.contributed.united().desired(), contributed.united().desired());
    // A cluster that stands elsewhere now concerns all who use it.
    if is.clusters.iter().any(|(name, cluster)| was.clusters.get(name).is_some_and(|before| before != cluster)) {
        return None;
    }
    for name in texts.iter().filter_map(|text| text.parse::<Name>().ok()) {
        let steered = [was.names.get(&name), is.names.get(&name)];
        touched.pools.extend(steered.iter().flatten().map(|steered| steered.pool.clone()));
        if before.contributed.has_records_at(&name) || contributed.has_records_at(&name) {
            touched.records.insert(name.clone());
        }
        if steered.iter().any(Option::is_some) {
            touched.names.insert(name);
        }
    }
    Some(Arc::new(contributed))
}

/// Joins files, objects and what is contributed for what is touched alone; the rest is as it was.
fn join(
    before: &Configured,
    objects: &Declared,
    concerned: &Concerned,
    keys: &[Key],
    touched: &Touched,
    contributed: &Contributed,
    owner: &str,
) -> Joined {
    let (pools, names, records) = (touched.pools.iter(), touched.names.iter(), touched.records.iter());
    let mut declared = Desired {
        pools: pools.clone().filter_map(|name| Some((name.clone(), objects.pool(name)?.clone()))).collect(),
        names: names.clone().filter_map(|name| Some((name.clone(), objects.name(name)?.clone()))).collect(),
        records: records.clone().flat_map(|name| objects.records_at(name)).map(keyed).collect(),
        monitors: concerned.made.monitors.clone(),
        ..Desired::default()
    };
    declared.pools.extend(concerned.made.pools.clone());
    declared.names.extend(concerned.made.names.clone());
    let mut files = Desired {
        pools: pools.filter_map(|name| Some((name.clone(), before.files.pools.get(name)?.clone()))).collect(),
        names: names.filter_map(|name| Some((name.clone(), before.files.names.get(name)?.clone()))).collect(),
        records: records.flat_map(|name| before.files.records_at(name)).map(keyed).collect(),
        ..Desired::default()
    };
    for own in keys.iter().filter(|key| key.kind() == Kind::Cluster).filter_map(|key| objects.element(key)) {
        add_cluster(&mut declared, own, own);
        add_cluster(&mut files, &before.files, own);
    }
    let of_clients = contributed.part(touched);
    let mut beside = before.beside.clone();
    for name in touched.names.iter().filter(|name| !files.names.contains_key(*name)) {
        match declared.names.contains_key(name) || of_clients.names.contains_key(name) {
            true => beside.insert(name.clone(), ()),
            false => beside.remove(name),
        };
    }
    let of = Contribution::of;
    let declared = merge([of(SourceKind::Config, owner, files), of(SourceKind::Api, "api", declared)]);
    let Merged { desired: declared, conflicts } = declared;
    let clusters = declared.clusters.clone();
    let of_clients = of(SourceKind::Webhook, "webhook", of_clients);
    let merged = merge([of(SourceKind::Config, owner, declared), of_clients]).desired;
    let mut desired = Desired::clone(&before.desired);
    touched.pools.iter().for_each(|name| _ = desired.pools.remove(name));
    touched.names.iter().for_each(|name| _ = desired.names.remove(name));
    let gone: Vec<_> = touched.records.iter().flat_map(|name| desired.records_at(name)).map(RecordSet::key).collect();
    gone.iter().for_each(|key| _ = desired.records.remove(key));
    concerned.monitors().for_each(|name| _ = desired.monitors.remove(&name));
    take_shared(&mut desired, before, objects, contributed);
    desired.clusters.extend(clusters);
    desired.monitors.extend(merged.monitors);
    desired.records.extend(merged.records);
    desired.pools.extend(merged.pools);
    desired.names.extend(merged.names);
    let mut all_conflicts = before.conflicts.clone();
    keys.iter().for_each(|key| _ = all_conflicts.remove(key));
    let of_intents = concerned.pools().map(Subject::Pool).chain(concerned.names.iter().cloned().map(Subject::Name));
    of_intents.filter_map(|subject| key_of(&subject)).for_each(|key| _ = all_conflicts.remove(&key));
    all_conflicts.extend(overruled(&conflicts, owner));
    Joined { desired: Arc::new(desired), beside, conflicts: all_conflicts }
}

/// Adds what is said in `from` of the clusters of another wish.
fn add_cluster(to: &mut Desired, from: &Desired, of: &Desired) {
    for name in of.clusters.keys() {
        to.clusters.extend(from.clusters.get(name).map(|cluster| (name.clone(), cluster.clone())));
        to.load_feeds.extend(from.load_feeds.get(name).map(|feed| (name.clone(), feed.clone())));
        to.load_aims.extend(from.load_aims.get(name).map(|aim| (name.clone(), *aim)));
    }
}

/// Takes the clusters and monitors of what is contributed, as far as nobody declares them.
fn take_shared(desired: &mut Desired, before: &Configured, objects: &Declared, contributed: &Contributed) {
    let (was, is) = (before.contributed.united().desired(), contributed.united().desired());
    let is_declared = |name: &ClusterName| before.clusters.contains(name);
    for name in was.clusters.keys().filter(|name| !is.clusters.contains_key(*name) && !is_declared(name)) {
        desired.clusters.remove(name);
    }
    for (name, cluster) in is.clusters.iter().filter(|(name, _)| !was.clusters.contains_key(*name)) {
        desired.clusters.entry(name.clone()).or_insert_with(|| cluster.clone());
    }
    let is_declared = |name: &MonitorName| {
        before.files.monitors.contains_key(name) || objects.declares(&Subject::Monitor(name.clone()))
    };
    for name in was.monitors.keys().filter(|name| !is.monitors.contains_key(*name) && !is_declared(name)) {
        desired.monitors.remove(name);
    }
    for (name, monitor) in is.monitors.iter().filter(|(name, _)| !was.monitors.contains_key(*name)) {
        if !desired.monitors.contains_key(name) {
            desired.monitors.insert(name.clone(), Arc::clone(monitor));
        }
    }
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
