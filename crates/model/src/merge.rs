//! Merges the declarations of two sources into one desired state.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::{DesiredState, Pool, SharedMap, Subject};

impl DesiredState {
    /// Adds the declarations of a source of lower precedence. Returns the objects that it declares differently.
    ///
    /// Of an object that both declare, the one of `self` is kept. Pools get the members of both, and keep their other fields.
    pub fn merge(&mut self, lower: Self) -> Vec<Subject> {
        let Self {
            zones,
            clusters,
            monitors,
            maps,
            latencies,
            pools,
            names,
            records,
            load_sources,
            cluster_load_sources,
            load_bounds,
        } = lower;
        let mut different: Vec<Subject> = Vec::new();
        different.extend(add_few(&mut self.zones, zones).into_iter().map(Subject::Zone));
        different.extend(add_few(&mut self.load_sources, load_sources).into_iter().map(Subject::LoadSource));
        different.extend(add_few(&mut self.maps, maps).into_iter().map(Subject::Map));
        different.extend(add_few(&mut self.latencies, latencies).into_iter().map(Subject::Latencies));
        let parts = [
            add_few(&mut self.cluster_load_sources, cluster_load_sources),
            add_few(&mut self.load_bounds, load_bounds),
        ];
        different.extend(parts.into_iter().flatten().map(Subject::Cluster));
        different.extend(add_many(&mut self.clusters, clusters, is_other).into_iter().map(Subject::Cluster));
        different.extend(add_many(&mut self.monitors, monitors, is_other).into_iter().map(Subject::Monitor));
        different.extend(add_many(&mut self.names, names, is_other).into_iter().map(Subject::Name));
        let records = add_many(&mut self.records, records, is_other);
        different.extend(records.into_iter().map(|(name, rtype)| Subject::Records(name, rtype)));
        different.extend(add_many(&mut self.pools, pools, merge_pools).into_iter().map(Subject::Pool));
        different
    }

    /// Returns the same without pools, names and records, which are many.
    pub fn without_names(&self) -> Self {
        Self { pools: SharedMap::new(), names: SharedMap::new(), records: SharedMap::new(), ..self.clone() }
    }

    /// Adds pools, names, records, monitors and clusters, in place of those with the same key.
    pub fn extend_served(&mut self, more: Self) {
        self.pools.append(more.pools);
        self.names.append(more.names);
        self.records.append(more.records);
        self.monitors.append(more.monitors);
        self.clusters.append(more.clusters);
        self.cluster_load_sources.extend(more.cluster_load_sources);
        self.load_bounds.extend(more.load_bounds);
    }
}

/// Adds the entries of a small map that are absent. Returns the keys of those that differ.
fn add_few<K: Ord + Clone, V: PartialEq>(ours: &mut BTreeMap<K, V>, theirs: BTreeMap<K, V>) -> Vec<K> {
    let mut different = Vec::new();
    for (key, value) in theirs {
        match ours.entry(key) {
            Entry::Vacant(entry) => _ = entry.insert(value),
            Entry::Occupied(entry) if *entry.get() == value => {}
            Entry::Occupied(entry) => different.push(entry.key().clone()),
        }
    }
    different
}

/// Adds the entries of a large map that are absent, and merges different values by `merge`, which returns true if both agree. Returns the keys
/// of those that do not.
fn add_many<K: Ord + Clone, V: Clone + PartialEq>(
    ours: &mut SharedMap<K, V>,
    theirs: SharedMap<K, V>,
    merge: impl Fn(&mut V, &V) -> bool,
) -> Vec<K> {
    let mut different = Vec::new();
    for (key, value) in ours.append_absent(&theirs) {
        let is_same = ours.get(key) == Some(value);
        if !is_same && !ours.get_mut(key).is_some_and(|known| merge(known, value)) {
            different.push(key.clone());
        }
    }
    different
}

/// Keeps our value.
fn is_other<V>(_: &mut V, _: &V) -> bool {
    false
}

/// Adds the members that `ours` lacks. Returns true if everything else agrees.
fn merge_pools(ours: &mut Pool, theirs: &Pool) -> bool {
    // `contributions` says what may be added to ours, so theirs has no meaning here.
    let fields = |pool: &Pool| Pool { members: vec![], contributions: None, ..pool.clone() };
    let mut agrees = fields(ours) == fields(theirs);
    for member in &theirs.members {
        match ours.members.iter().find(|known| known.cluster == member.cluster) {
            None => ours.members.push(member.clone()),
            Some(known) => agrees &= known == member,
        }
    }
    agrees
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterName, Member, Policy, PoolName, Ttl};

    fn pool(members: &[&str], ttl: u32) -> DesiredState {
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        pool.ttl = Ttl::from_secs(ttl).unwrap();
        pool.members = members.iter().map(|m| Member::new(ClusterName::new(m).unwrap())).collect();
        DesiredState { pools: [(pool.name.clone(), pool)].into(), ..DesiredState::default() }
    }

    #[test]
    fn pools_get_the_members_of_both_sources() {
        let mut merged = pool(&["c1"], 30);
        assert_eq!(merged.merge(pool(&["c2"], 30)), []);
        assert_eq!(merged, pool(&["c1", "c2"], 30));
    }

    #[test]
    fn higher_source_is_kept_and_the_difference_reported() {
        let mut merged = pool(&["c1"], 60);
        assert_eq!(merged.merge(pool(&["c1"], 30)), [Subject::Pool(PoolName::new("shop").unwrap())]);
        assert_eq!(merged, pool(&["c1"], 60));
    }
}
