//! Merges the contributions of several sources into one desired state.
//!
//! Each source owns its contribution: removing it removes nothing else. Members of a pool are merged. Anything that can have
//! only one value is decided by rank, and the losing source gets a conflict.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::{ClusterName, DesiredState, Name, Pool, PoolName, RecordSet, Rtype, SharedMap, SteeredName, Subject};

/// The kind of source of a contribution, by rank: the first wins a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// Configuration files.
    Config,
    /// The REST API.
    Api,
    /// ExternalDNS, through the webhook.
    Webhook,
    /// Kubernetes objects.
    Kubernetes,
}

/// The objects that one owner in one source declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The kind of source.
    pub source: SourceKind,
    /// The owner in that source: a file, a user, an ExternalDNS owner, a cluster.
    pub owner: String,
    /// The set identifier of ExternalDNS; empty without one.
    pub set: String,
    /// Time it was first seen, in seconds since 1970. Among sources of one kind the older contribution wins.
    pub created: u64,
    /// The declared objects.
    pub desired: DesiredState,
}

impl Contribution {
    /// Returns the contribution of a source with a single owner of this name, without a set identifier.
    pub fn of(source: SourceKind, owner: &str, desired: DesiredState) -> Self {
        Self { source, owner: owner.to_owned(), set: String::new(), created: 0, desired }
    }
}

/// Two contributions that declare an object differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The object.
    pub subject: Subject,
    /// Source and owner of the declaration in effect.
    pub winner: (SourceKind, String),
    /// Source and owner of the declaration that is not in effect.
    pub loser: (SourceKind, String),
}

/// The merged desired state, with conflicts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The merged state.
    pub desired: DesiredState,
    /// Objects that were declared differently.
    pub conflicts: Vec<Conflict>,
}

/// Merges contributions; the result does not depend on their order.
///
/// Precedence: config, API, webhook, Kubernetes; then the older contribution; then owner and set identifier in
/// alphabetical order. Pools of one name get the members of all, and the other fields of the first.
pub fn merge(contributions: impl IntoIterator<Item = Contribution>) -> Merged {
    let mut ranked: Vec<_> = contributions.into_iter().collect();
    ranked.sort_by(|a, b| rank(a).cmp(&rank(b)));
    let mut ranked = ranked.into_iter();
    // The first contribution conflicts with nothing and is mostly by far the largest, so it is not merged but moved.
    let Some(first) = ranked.next() else { return Merged::default() };
    let mut merger = Merger {
        desired: first.desired,
        first: (first.source, first.owner),
        owners: BTreeMap::new(),
        is_last: false,
        conflicts: Vec::new(),
    };
    while let Some(contribution) = ranked.next() {
        merger.is_last = ranked.len() == 0;
        merger.add(contribution);
    }
    Merged { desired: merger.desired, conflicts: merger.conflicts }
}

fn rank(c: &Contribution) -> (SourceKind, u64, &str, &str) {
    (c.source, c.created, &c.owner, &c.set)
}

struct Merger {
    desired: DesiredState,
    /// Source and owner of the first contribution.
    first: (SourceKind, String),
    /// Owners of objects that the first contribution does not declare.
    owners: BTreeMap<Subject, (SourceKind, String)>,
    /// True if no further contribution can lose against the present one, so that owners need not be recorded.
    is_last: bool,
    conflicts: Vec<Conflict>,
}

impl Merger {
    fn add(&mut self, from: Contribution) {
        let owner = (from.source, from.owner);
        let DesiredState {
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
        } = from.desired;
        self.add_few(|all| &mut all.zones, zones, Subject::Zone, &owner);
        self.add_few(|all| &mut all.clusters, clusters, Subject::Cluster, &owner);
        self.add_few(|all| &mut all.load_sources, load_sources, Subject::LoadSource, &owner);
        self.add_few(|all| &mut all.maps, maps, Subject::Map, &owner);
        self.add_few(|all| &mut all.latencies, latencies, Subject::Latencies, &owner);
        self.add_cluster_parts(|all| &mut all.cluster_load_sources, cluster_load_sources, &owner);
        self.add_cluster_parts(|all| &mut all.load_bounds, load_bounds, &owner);
        self.add_all(|all| &mut all.monitors, monitors, |first, second| first == second, Subject::Monitor, &owner);
        self.add_served(names, records, pools, &owner);
    }

    /// Adds names, records and pools, which are many.
    fn add_served(
        &mut self,
        names: SharedMap<Name, SteeredName>,
        records: SharedMap<(Name, Rtype), RecordSet>,
        pools: SharedMap<PoolName, Pool>,
        owner: &(SourceKind, String),
    ) {
        let records_of = |(name, rtype)| Subject::Records(name, rtype);
        self.add_all(|all| &mut all.names, names, |first, second| first == second, Subject::Name, owner);
        self.add_all(|all| &mut all.records, records, |first, second| first == second, records_of, owner);
        self.add_all(|all| &mut all.pools, pools, merge_pools, Subject::Pool, owner);
    }

    /// Adds all entries of a small map.
    fn add_few<K: Ord + Clone, V: PartialEq>(
        &mut self,
        map: impl Fn(&mut DesiredState) -> &mut BTreeMap<K, V>,
        entries: BTreeMap<K, V>,
        subject: impl Fn(K) -> Subject,
        owner: &(SourceKind, String),
    ) {
        for (key, value) in entries {
            let agreement = keep_first(map(&mut self.desired), &key, value);
            self.record(subject(key), owner, agreement);
        }
    }

    /// Adds settings of clusters. Their owner is recorded with the cluster, so only conflicts are recorded here.
    fn add_cluster_parts<V: PartialEq>(
        &mut self,
        map: impl Fn(&mut DesiredState) -> &mut BTreeMap<ClusterName, V>,
        entries: BTreeMap<ClusterName, V>,
        owner: &(SourceKind, String),
    ) {
        for (key, value) in entries {
            let agreement = keep_first(map(&mut self.desired), &key, value);
            if matches!(agreement, Agreement::Different) {
                self.record(Subject::Cluster(key), owner, agreement);
            }
        }
    }

    /// Adds all entries of a large map.
    fn add_all<K: Ord + Clone, V: Clone>(
        &mut self,
        map: impl Fn(&mut DesiredState) -> &mut SharedMap<K, V>,
        entries: SharedMap<K, V>,
        merge: impl Fn(&mut V, &V) -> bool,
        subject: impl Fn(K) -> Subject,
        owner: &(SourceKind, String),
    ) {
        // A whole map is moved if there is nothing to merge with: mostly files declare a few objects and the API all others.
        if self.is_last && map(&mut self.desired).is_empty() {
            *map(&mut self.desired) = entries;
            return;
        }
        for (key, value) in entries {
            let agreement = add(map(&mut self.desired), &key, value, &merge);
            self.record(subject(key), owner, agreement);
        }
    }

    fn record(&mut self, subject: Subject, owner: &(SourceKind, String), agreement: Agreement) {
        match agreement {
            Agreement::First if self.is_last => {}
            Agreement::First => drop(self.owners.insert(subject, owner.clone())),
            Agreement::Same => {}
            Agreement::Different => {
                let winner = self.owners.get(&subject).unwrap_or(&self.first).clone();
                self.conflicts.push(Conflict { subject, winner, loser: owner.clone() });
            }
        }
    }
}

/// The relation of a declaration to the earlier one of the same object.
enum Agreement {
    First,
    Same,
    Different,
}

/// Adds a value if the key has none.
fn keep_first<K: Ord + Clone, V: PartialEq>(map: &mut BTreeMap<K, V>, key: &K, value: V) -> Agreement {
    match map.entry(key.clone()) {
        Entry::Vacant(entry) => {
            entry.insert(value);
            Agreement::First
        }
        Entry::Occupied(entry) if *entry.get() == value => Agreement::Same,
        Entry::Occupied(_) => Agreement::Different,
    }
}

/// Adds a value if the key has none, else merges it by `merge`, which returns true if both agree.
fn add<K: Ord + Clone, V: Clone>(
    map: &mut SharedMap<K, V>,
    key: &K,
    value: V,
    merge: impl FnOnce(&mut V, &V) -> bool,
) -> Agreement {
    match map.get_mut(key) {
        None => {
            map.insert(key.clone(), value);
            Agreement::First
        }
        Some(first) => {
            if merge(first, &value) {
                Agreement::Same
            } else {
                Agreement::Different
            }
        }
    }
}

/// Adds the members that `first` lacks; returns true if everything else agrees.
fn merge_pools(first: &mut Pool, second: &Pool) -> bool {
    let mut agrees = Pool { members: vec![], ..first.clone() } == Pool { members: vec![], ..second.clone() };
    for member in &second.members {
        match first.members.iter().find(|m| m.cluster == member.cluster) {
            None => first.members.push(member.clone()),
            Some(known) => agrees &= known == member,
        }
    }
    agrees
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Member, Policy, PoolName, Ttl};

    fn pool(members: &[&str], ttl: u32) -> DesiredState {
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        pool.ttl = Ttl::from_secs(ttl).unwrap();
        pool.members = members.iter().map(|m| Member::new(ClusterName::new(m).unwrap())).collect();
        DesiredState { pools: [(pool.name.clone(), pool)].into(), ..DesiredState::default() }
    }

    fn members(merged: &Merged) -> Vec<&str> {
        merged.desired.pools.values().flat_map(|p| &p.members).map(|m| m.cluster.as_str()).collect()
    }

    #[test]
    fn pool_members_of_two_owners_are_merged_and_removed_separately() {
        let a = Contribution::of(SourceKind::Webhook, "a", pool(&["c1"], 30));
        let b = Contribution::of(SourceKind::Webhook, "b", pool(&["c2"], 30));
        let both = merge([b.clone(), a]);
        assert_eq!((members(&both), both.conflicts.len()), (vec!["c1", "c2"], 0));
        assert_eq!(members(&merge([b])), ["c2"]);
    }

    #[test]
    fn config_wins_over_webhook_in_any_order() {
        let config = Contribution::of(SourceKind::Config, "f", pool(&["c1"], 60));
        let hook = Contribution::of(SourceKind::Webhook, "h", pool(&["c1"], 30));
        let merged = merge([hook.clone(), config.clone()]);
        assert_eq!(merged, merge([config, hook]));
        assert_eq!(merged.desired.pools.values().next().unwrap().ttl.secs(), 60);
        assert_eq!(merged.conflicts[0].loser, (SourceKind::Webhook, "h".to_owned()));
    }
}
