//! The balanced pools, and what follows from them for each cluster, or service there. A new snapshot costs as much as changed in it, however many pools there
//! are: intents are balanced by default, so there may be 100,000.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    time::Duration,
};

use fairway_model::{Backend, Eligibility, Ttl};

use crate::{PoolInfo, RuntimeState, Snapshot, TargetIndex, chunks::Chunks, steer::SteerPool};

/// The balanced pools of a snapshot.
#[derive(Debug, Default)]
pub struct BalancedPools {
    pools: Chunks<SteerPool>,
    infos: Chunks<PoolInfo>,
    /// Numbers of the balanced pools in the snapshot, by their key.
    numbers: HashMap<u64, usize>,
    clusters: BTreeMap<Backend, ClusterUses>,
}

/// Targets and TTLs of a cluster in the balanced pools, with the number of their uses.
#[derive(Debug, Default, PartialEq, Eq)]
struct ClusterUses {
    targets: BTreeMap<ClusterTarget, u32>,
    /// The largest TTL of each pool.
    ttls: BTreeMap<Ttl, u32>,
}

/// A target that decides if a cluster is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClusterTarget {
    target: TargetIndex,
    /// Number of the pool and of the member whose schedule may close it.
    scheduled: Option<(usize, u8)>,
}

/// They are equal if they say the same of their snapshots.
impl PartialEq for BalancedPools {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers && self.clusters == other.clusters
    }
}

impl BalancedPools {
    /// Follows a new snapshot.
    pub fn follow(&mut self, snapshot: &Snapshot) {
        let before = std::mem::replace(&mut self.pools, snapshot.steer_pools().clone());
        let infos_before = std::mem::replace(&mut self.infos, snapshot.pool_infos().clone());
        let gone: BTreeSet<usize> = before.unshared(&self.pools).chain(infos_before.unshared(&self.infos)).collect();
        for number in gone {
            self.remove(number, &before[number], infos_before[number].ttl_max());
        }
        let (pools, infos) = (self.pools.clone(), self.infos.clone());
        let new: BTreeSet<usize> = pools.unshared(&before).chain(infos.unshared(&infos_before)).collect();
        for number in new {
            self.add(number, &pools[number], infos[number].ttl_max());
        }
    }

    /// Returns the number of a balanced pool in the snapshot, by its key.
    pub fn number(&self, key: u64) -> Option<usize> {
        self.numbers.get(&key).copied()
    }

    /// Returns the largest TTL of the pools that have a cluster.
    pub fn ttl(&self, cluster: &Backend) -> Option<Duration> {
        let (ttl, _) = self.clusters.get(cluster)?.ttls.last_key_value()?;
        Some(Duration::from_secs(ttl.secs().into()))
    }

    /// Returns true if a target is up or unknown, and its member open; `None` if no target is, and some were never evaluated.
    pub fn is_up(&self, cluster: &Backend, runtime: &RuntimeState) -> Option<bool> {
        let mut is_known = true;
        let is_closed = |(pool, member): (usize, u8)| self.pools[pool].is_closed(member, runtime);
        let targets = self.clusters.get(cluster).into_iter().flat_map(|uses| uses.targets.keys());
        for target in targets.filter(|target| !target.scheduled.is_some_and(is_closed)) {
            match runtime.health(target.target).eligibility() {
                Eligibility::Up | Eligibility::Unknown => return Some(true),
                Eligibility::Pending => is_known = false,
                Eligibility::Exhausted | Eligibility::Down | Eligibility::Out => {}
            }
        }
        is_known.then_some(false)
    }

    fn add(&mut self, number: usize, pool: &SteerPool, ttl: Ttl) {
        if !pool.is_balanced() {
            return;
        }
        self.numbers.insert(pool.key(), number);
        for cluster in pool.clusters().map(|cluster| pool.backend(cluster)) {
            *self.clusters.entry(cluster).or_default().ttls.entry(ttl).or_default() += 1;
        }
        for (cluster, target) in targets(number, pool) {
            *self.clusters.entry(cluster).or_default().targets.entry(target).or_default() += 1;
        }
    }

    fn remove(&mut self, number: usize, pool: &SteerPool, ttl: Ttl) {
        if !pool.is_balanced() {
            return;
        }
        self.numbers.remove(&pool.key());
        for (cluster, target) in targets(number, pool) {
            self.clusters.get_mut(&cluster).into_iter().for_each(|uses| remove_use(&mut uses.targets, target));
        }
        for cluster in pool.clusters().map(|cluster| pool.backend(cluster)) {
            let Entry::Occupied(mut uses) = self.clusters.entry(cluster) else { continue };
            remove_use(&mut uses.get_mut().ttls, ttl);
            if uses.get().ttls.is_empty() {
                uses.remove();
            }
        }
    }
}

fn targets(number: usize, pool: &SteerPool) -> impl Iterator<Item = (Backend, ClusterTarget)> {
    pool.member_targets().map(move |(member, cluster, target)| {
        let scheduled = pool.uses_schedules().then_some((number, member));
        (pool.backend(cluster), ClusterTarget { target, scheduled })
    })
}

fn remove_use<T: Ord>(uses: &mut BTreeMap<T, u32>, of: T) {
    if let Entry::Occupied(mut entry) = uses.entry(of) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}
