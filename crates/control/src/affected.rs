//! The affected parts of the desired state: those that may differ from the last state.
//!
//! Only what is affected is merged, checked and compiled; the rest is taken from the last state. So the cost of a reload is
//! proportional to what changed, and a start is a reload that affects everything.

use std::{collections::BTreeSet, sync::Arc};

use fairway_contributions::Contributed;
use fairway_model::{
    Cluster, ClusterName, DesiredState, HostAddresses, MonitorName, Name, Override, Pool, PoolName, RecordSet,
    SharedMap, Subject,
};
use fairway_sources::{Found, changed_names};
use fairway_zones::ChangedItems;

use super::{
    configured::{Files, LookedUp, Previous},
    declared::{Declared, exposed, key_of, records_key},
};
use fairway_intents::object_name;
use fairway_store::objects::{Key, Kind};

/// The parts of the desired state that may differ from the last state.
#[derive(Clone)]
pub(crate) struct AffectedParts<'a> {
    /// The last state.
    pub(crate) previous: &'a Previous,
    /// Declared objects that changed, and those that the last state rejected: what changed may make them valid.
    keys: BTreeSet<Key>,
    /// Inbound and compound intents to evaluate again.
    pub(crate) intents: BTreeSet<Key>,
    /// Names, as text, whose webhook contributions are merged again.
    pub(crate) texts: BTreeSet<String>,
    /// Pools, names and records.
    pub(crate) touched: ChangedItems,
    clusters: BTreeSet<ClusterName>,
    pub(crate) monitors: BTreeSet<MonitorName>,
}

impl<'a> AffectedParts<'a> {
    /// Returns what the difference between the last state and these sources may affect.
    ///
    /// Returns `None` if everything may be affected: something changed that any object may refer to (a cluster other than in its services,
    /// a monitor, a zone, a map), or so much that merging everything costs less.
    pub(crate) fn between(
        previous: &'a Previous,
        files: &Files,
        objects: &Declared,
        (load_off, looked_up): (&[Override], &LookedUp),
    ) -> Option<Self> {
        let before = &*previous.configured;
        // With other text in a zone, any name may be hidden, or no longer hidden.
        let (is, was) = (&files.settings, &before.settings);
        if files.zones.is_some() || is.shared_names() != was.shared_names() || is.access.names != was.access.names {
            return None;
        }
        let mut part = Self {
            previous,
            keys: BTreeSet::new(),
            intents: BTreeSet::new(),
            texts: BTreeSet::new(),
            touched: changed_in_files(&before.files.desired, &files.desired)?,
            clusters: BTreeSet::new(),
            monitors: BTreeSet::new(),
        };
        part.touched.pools.extend(before.merged.desired.pools_pinned_by_one(&before.load_off, load_off).cloned());
        part.add_hosts(&looked_up.hosts);
        part.add_found(&looked_up.found).then_some(())?;
        for key in objects.changed_since(&before.objects)? {
            part.add(&key, files, objects).then_some(())?;
        }
        let mut rejected = before.rejected.objects.keys();
        rejected.all(|key| part.add_rejected(key, files, objects)).then_some(())?;
        part.add_rejected_names(before.rejected.names.keys().map(|(name, _)| name));
        // The wait may be over.
        part.add_rejected_names(before.merged.take_overs.keys());
        part.touched.names.extend(before.merged.take_overs.keys().cloned());
        let all =
            before.merged.desired.pools.len() + before.merged.desired.names.len() + before.merged.desired.records.len();
        (part.len() <= SEPARATE_MAX + all / 4).then_some(part)
    }

    /// Adds the clusters with a host name whose addresses changed, and their pools.
    fn add_hosts(&mut self, hosts: &HostAddresses) {
        let before = &*self.previous.configured;
        let changed = hosts.differences(&before.looked_up.hosts, PartialEq::eq).into_iter();
        let changed: BTreeSet<&Name> = changed.map(|(host, ..)| host).collect();
        if changed.is_empty() {
            return;
        }
        let desired = &before.merged.desired;
        let has_changed = |cluster: &&Cluster| cluster.hosts.iter().any(|host| changed.contains(&host.name));
        self.clusters.extend(desired.clusters.values().filter(has_changed).map(|cluster| cluster.name.clone()));
        let is_of = |pool: &&Pool| pool.members.iter().any(|member| self.clusters.contains(&member.cluster));
        self.touched.pools.extend(desired.pools.values().filter(is_of).map(|pool| pool.name.clone()));
    }

    /// Adds the names of Kubernetes clusters that changed, and their pools. Returns false if clusters or their addresses did.
    fn add_found(&mut self, found: &Found) -> bool {
        let before = &*self.previous.configured;
        let Some(changed) = changed_names(found, &before.looked_up.found) else { return false };
        for text in changed {
            self.texts.insert(text.to_string());
            // Other texts are no names, and have no pool.
            let Ok(name) = text.parse::<Name>() else { continue };
            self.touched.pools.extend(before.merged.desired.names.get(&name).map(|steered| steered.pool.clone()));
            self.touched.names.insert(name);
        }
        true
    }

    /// Adds the pools that affected names had, and those that they have in these states: the endpoints of a pool are those of its names.
    pub(crate) fn add_pools_of_names(&mut self, states: [&DesiredState; 2]) {
        let all = std::iter::once(&*self.previous.configured.merged.desired).chain(states);
        let pools = all.flat_map(|state| self.touched.names.iter().filter_map(|name| state.names.get(name)));
        let pools: Vec<PoolName> = pools.map(|steered| steered.pool.clone()).collect();
        self.touched.pools.extend(pools);
    }

    /// Returns the affected clusters.
    pub(crate) const fn clusters(&self) -> &BTreeSet<ClusterName> {
        &self.clusters
    }

    /// Adds what depends on an object. Returns false if that is not known, so that everything is affected.
    fn add(&mut self, key: &Key, files: &Files, objects: &Declared) -> bool {
        let before = &*self.previous.configured;
        if key.kind() == Kind::Cluster {
            let Some((was, is)) = objects.other_services(&before.objects, key) else { return false };
            // If the files declare the cluster too, their services are used.
            if !files.desired.clusters.contains_key(&was.name) {
                self.intents.extend(objects.moved_intents(was, is));
            }
            self.clusters.insert(was.name.clone());
        } else if !before.objects.is_local_at(key) || !objects.is_local_at(key) {
            return false;
        }
        for element in [before.objects.element(key), objects.element(key)].into_iter().flatten() {
            self.touched.pools.extend(element.pools.keys().cloned());
            self.touched.names.extend(element.names.keys().cloned());
            self.touched.records.extend(element.records.keys().map(|(name, _)| name.clone()));
        }
        self.intents.extend(exposed(key));
        self.keys.insert(key.clone());
        key.kind() != Kind::Contribution || objects.add_changed_texts(&before.objects, key, &mut self.texts)
    }

    /// Adds what depends on an object that is or was rejected. Returns false as [`AffectedParts::add`] does.
    pub(crate) fn add_rejected(&mut self, key: &Key, files: &Files, objects: &Declared) -> bool {
        // Any object may refer to these.
        let is_referred_to = matches!(key.kind(), Kind::Cluster | Kind::Monitor);
        !is_referred_to && self.add(key, files, objects)
    }

    /// Adds contributed names that are or were rejected.
    pub(crate) fn add_rejected_names<'n>(&mut self, names: impl Iterator<Item = &'n Name>) {
        self.texts.extend(names.map(|name| name.to_plain()));
    }

    /// Adds everything that depends on affected parts.
    pub(crate) fn add_dependents(&mut self, files: &Files, objects: &Declared) {
        let before = &*self.previous.configured;
        let versions = [&*before.objects, objects];
        loop {
            let size = self.len();
            // Finding the intent of a truncated pool name takes a search through all intents.
            let known: BTreeSet<String> = self.intents.iter().map(object_name).collect();
            for pool in self.touched.pools.iter().filter(|pool| !known.contains(pool.as_str())) {
                self.intents.extend(versions.into_iter().filter_map(|of| of.intent_called(pool.as_str())));
            }
            // Of several intents with the same name one is served, with the members of all.
            let of_texts: Vec<Name> = self.texts.iter().filter_map(|text| text.parse().ok()).collect();
            for name in self.touched.names.iter().chain(&of_texts) {
                self.intents.extend(versions.iter().flat_map(|of| of.claimants(name)).cloned());
            }
            for key in &self.intents {
                self.touched.names.extend(versions.iter().filter_map(|of| of.claimed_by(key)));
                self.touched.pools.extend(PoolName::new(&object_name(key)).ok());
                self.monitors.extend(MonitorName::new(&object_name(key)).ok());
            }
            if !before.merged.contributed.is_empty() {
                self.add_contributed_names(files, objects);
            }
            if self.len() == size {
                return;
            }
        }
    }

    /// Adds the contributions to affected names and to the other names of their pools. A contribution is merged into a declared pool
    /// depending on the names that the pool answers.
    fn add_contributed_names(&mut self, files: &Files, objects: &Declared) {
        let before = &*self.previous.configured;
        let of_name = |name| [before.merged.desired.names.get(name), files.desired.names.get(name), objects.name(name)];
        let of_names = self.touched.names.iter().flat_map(of_name).flatten().map(|steered| &steered.pool);
        let pools: BTreeSet<&PoolName> = of_names.chain(&self.touched.pools).collect();
        let answered = pools.into_iter().flat_map(|pool| self.names_of(pool)).chain(&self.touched.names);
        let contributed = answered.filter(|name| before.merged.contributed.merged_names.of_name(name).is_some());
        let texts: Vec<String> = contributed.map(|name| name.to_plain()).collect();
        self.texts.extend(texts);
    }

    /// Adds what changed in the merged contributions. Returns false if a contributed cluster or monitor changed, which affects all its
    /// users.
    pub(crate) fn add_contributed(&mut self, is: &Contributed) -> bool {
        let was = &*self.previous.configured.merged.contributed;
        for name in self.texts.iter().filter_map(|text| text.parse::<Name>().ok()) {
            let steered = [was, is].map(|of| of.merged_names.desired().names.get(&name));
            self.touched.pools.extend(steered.iter().flatten().map(|steered| steered.pool.clone()));
            if was.has_records_at(&name) || is.has_records_at(&name) {
                self.touched.records.insert(name.clone());
            }
            if steered.iter().any(Option::is_some) {
                self.touched.names.insert(name);
            }
        }
        let (was, is) = (was.merged_names.desired(), is.merged_names.desired());
        if is.clusters.iter().any(|(name, cluster)| was.clusters.get(name).is_some_and(|before| before != cluster)) {
            return false;
        }
        let added = is.clusters.keys().filter(|name| !was.clusters.contains_key(*name));
        let removed = was.clusters.keys().filter(|name| !is.clusters.contains_key(*name));
        self.clusters.extend(added.chain(removed).cloned());
        let mut monitors = is.monitors.differences(&was.monitors, PartialEq::eq).into_iter();
        monitors.all(|(name, now, then)| {
            self.monitors.insert(name.clone());
            now.is_none() || then.is_none()
        })
    }

    /// Returns the keys of the declared objects whose elements are affected.
    pub(crate) fn object_keys(&self) -> BTreeSet<Key> {
        let ChangedItems { pools, names, records } = &self.touched;
        let pools = pools.iter().cloned().map(Subject::Pool);
        let names = names.iter().cloned().map(Subject::Name);
        let clusters = self.clusters.iter().cloned().map(Subject::Cluster);
        let monitors = self.monitors.iter().cloned().map(Subject::Monitor);
        let subjects = pools.chain(names).chain(clusters).chain(monitors);
        let keys = subjects.filter_map(|subject| key_of(&subject)).chain(records.iter().filter_map(records_key));
        keys.chain(self.keys.iter().cloned()).collect()
    }

    /// Returns the names that a pool answers in the last state.
    pub(crate) fn names_of(&self, pool: &PoolName) -> Vec<&'a Name> {
        let snapshot = &self.previous.snapshot;
        snapshot.indices_of(pool).flat_map(|place| &snapshot.pool_infos()[place].names).collect()
    }

    /// Returns these parts of a desired state.
    pub(crate) fn of(&self, desired: &DesiredState) -> DesiredState {
        DesiredState {
            pools: desired.pools.selected(&self.touched.pools),
            names: desired.names.selected(&self.touched.names),
            records: desired.records.selected(&self.records_of(desired).map(RecordSet::key).collect::<Vec<_>>()),
            monitors: desired.monitors.selected(&self.monitors),
            clusters: desired.clusters.selected(&self.clusters),
            cluster_load_sources: selected(&self.clusters, |name| desired.cluster_load_sources.get(name)),
            load_bounds: selected(&self.clusters, |name| desired.load_bounds.get(name)),
            ..DesiredState::default()
        }
    }

    fn records_of<'d>(&self, desired: &'d DesiredState) -> impl Iterator<Item = &'d RecordSet> {
        self.touched.records.iter().flat_map(|name| desired.records_at(name))
    }

    /// Returns a desired state with these parts replaced.
    pub(crate) fn replaced(&self, before: &DesiredState, with: DesiredState) -> DesiredState {
        let mut desired = before.clone();
        for name in &self.touched.pools {
            desired.pools.remove(name);
        }
        for name in &self.touched.names {
            desired.names.remove(name);
        }
        for set in self.records_of(before) {
            desired.records.remove(&set.key());
        }
        for name in &self.monitors {
            desired.monitors.remove(name);
        }
        for cluster in &self.clusters {
            desired.clusters.remove(cluster);
            desired.cluster_load_sources.remove(cluster);
            desired.load_bounds.remove(cluster);
        }
        desired.extend_served(with);
        desired
    }

    fn len(&self) -> usize {
        let ChangedItems { pools, names, records } = &self.touched;
        pools.len() + names.len() + records.len() + self.intents.len() + self.texts.len()
    }
}

/// Returns the pools, names and records that differ between two states of the files, or `None` if anything else differs.
fn changed_in_files(before: &Arc<DesiredState>, after: &Arc<DesiredState>) -> Option<ChangedItems> {
    let mut touched = ChangedItems::default();
    if Arc::ptr_eq(before, after) {
        return Some(touched);
    }
    if before.without_names() != after.without_names() {
        return None;
    }
    touched.pools.extend(changed(&after.pools, &before.pools).cloned());
    touched.names.extend(changed(&after.names, &before.names).cloned());
    touched.records.extend(changed(&after.records, &before.records).map(|(name, _)| name.clone()));
    Some(touched)
}

fn changed<'a, K: Ord, V: PartialEq>(
    now: &'a SharedMap<K, V>,
    then: &'a SharedMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    now.differences(then, V::eq).into_iter().map(|(key, ..)| key)
}

/// Returns the entries of a map at these keys.
fn selected<'d, K: Clone, V: Clone + 'd, M: FromIterator<(K, V)>>(
    keys: &BTreeSet<K>,
    get: impl Fn(&K) -> Option<&'d V>,
) -> M {
    keys.iter().filter_map(|key| Some((key.clone(), get(key)?.clone()))).collect()
}

/// Number of affected parts that are always merged separately. Above that, and above a quarter of everything that is served, merging
/// everything costs less than the search for each part.
const SEPARATE_MAX: usize = 1_000;
