//! Merges the contributions of several sources into one desired state.
//!
//! Each source owns its contribution: removing it removes nothing else. Members of a pool are merged. Anything that can have
//! only one value is decided by rank, and the losing source gets a conflict.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::{DesiredState, Name, Pool, PoolName, RecordSet, Rtype, SharedMap, SteeredName, Subject};

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

/// What one owner in one source declares.
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
        said_by: BTreeMap::new(),
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
    said_by: BTreeMap<Subject, (SourceKind, String)>,
    /// True if no further contribution can lose against the present one, so that owners need not be recorded.
    is_last: bool,
    conflicts: Vec<Conflict>,
}

impl Merger {
    fn add(&mut self, from: Contribution) {
        let who = (from.source, from.owner);
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
        for (key, zone) in zones {
            let said = keep_first(&mut self.desired.zones, &key, zone);
            self.record(Subject::Zone(key), &who, said);
        }
        for (key, cluster) in clusters {
            let said = keep_first(&mut self.desired.clusters, &key, cluster);
            self.record(Subject::Cluster(key), &who, said);
        }
        self.add_all(|all| &mut all.monitors, monitors, |first, second| first == second, Subject::Monitor, &who);
        for (key, source) in load_sources {
            let said = keep_first(&mut self.desired.load_sources, &key, source);
            self.record(Subject::LoadSource(key), &who, said);
        }
        for (key, feed) in cluster_load_sources {
            // The owner is recorded with the cluster, of which this is a part.
            let said = keep_first(&mut self.desired.cluster_load_sources, &key, feed);
            if matches!(said, Said::Otherwise) {
                self.record(Subject::Cluster(key), &who, said);
            }
        }
        for (key, aim) in load_bounds {
            let said = keep_first(&mut self.desired.load_bounds, &key, aim);
            if matches!(said, Said::Otherwise) {
                self.record(Subject::Cluster(key), &who, said);
            }
        }
        for (key, map) in maps {
            let said = keep_first(&mut self.desired.maps, &key, map);
            self.record(Subject::Map(key), &who, said);
        }
        for (key, table) in latencies {
            let said = keep_first(&mut self.desired.latencies, &key, table);
            self.record(Subject::Latencies(key), &who, said);
        }
        self.add_served(names, records, pools, &who);
    }

    /// Adds names, records and pools, which are many.
    fn add_served(
        &mut self,
        names: SharedMap<Name, SteeredName>,
        records: SharedMap<(Name, Rtype), RecordSet>,
        pools: SharedMap<PoolName, Pool>,
        who: &(SourceKind, String),
    ) {
        let records_of = |(name, rtype)| Subject::Records(name, rtype);
        self.add_all(|all| &mut all.names, names, |first, second| first == second, Subject::Name, who);
        self.add_all(|all| &mut all.records, records, |first, second| first == second, records_of, who);
        self.add_all(|all| &mut all.pools, pools, merge_pools, Subject::Pool, who);
    }

    /// Adds all entries of one map.
    fn add_all<K: Ord + Clone, V: Clone>(
        &mut self,
        map: impl Fn(&mut DesiredState) -> &mut SharedMap<K, V>,
        entries: SharedMap<K, V>,
        join: impl Fn(&mut V, &V) -> bool,
        subject: impl Fn(K) -> Subject,
        who: &(SourceKind, String),
    ) {
        // A whole map is moved if there is nothing to merge with: mostly files declare a few objects and the API all others.
        if self.is_last && map(&mut self.desired).is_empty() {
            *map(&mut self.desired) = entries;
            return;
        }
        for (key, value) in entries {
            let said = add(map(&mut self.desired), &key, value, &join);
            self.record(subject(key), who, said);
        }
    }

    fn record(&mut self, subject: Subject, who: &(SourceKind, String), said: Said) {
        match said {
            Said::First if self.is_last => {}
            Said::First => drop(self.said_by.insert(subject, who.clone())),
            Said::Same => {}
            Said::Otherwise => {
                let winner = self.said_by.get(&subject).unwrap_or(&self.first).clone();
                self.conflicts.push(Conflict { subject, winner, loser: who.clone() });
            }
        }
    }
}

/// How a declaration relates to earlier ones of the same object.
enum Said {
    First,
    Same,
    Otherwise,
}

/// Adds a value if the key has none.
fn keep_first<K: Ord + Clone, V: PartialEq>(map: &mut BTreeMap<K, V>, key: &K, value: V) -> Said {
    match map.entry(key.clone()) {
        Entry::Vacant(entry) => {
            entry.insert(value);
            Said::First
        }
        Entry::Occupied(entry) if *entry.get() == value => Said::Same,
        Entry::Occupied(_) => Said::Otherwise,
    }
}

/// Adds a value if the key has none, else merges it by `join`, which returns true if both agree.
fn add<K: Ord + Clone, V: Clone>(
    map: &mut SharedMap<K, V>,
    key: &K,
    value: V,
    join: impl FnOnce(&mut V, &V) -> bool,
) -> Said {
    match map.get_mut(key) {
        None => {
            map.insert(key.clone(), value);
            Said::First
        }
        Some(first) => match join(first, &value) {
            true => Said::Same,
            false => Said::Otherwise,
        },
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
    use crate::{ClusterName, Member, Policy, PoolName, Ttl};

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
