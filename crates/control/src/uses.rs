//! Clusters, addresses and pools of each target, and targets of each address. Leads from a health transition to the pools that use it, and
//! from a cluster to its health.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{ClusterName, DesiredState, PoolName, SharedMap, SharedSet, Target};
use fairway_zones::{Snapshot, TargetIndex};

/// One address of one cluster, as an override scope names it.
pub type ClusterAddress = (ClusterName, IpAddr);

/// The targets of the addresses of a pool's members.
type PoolTargets = Arc<[(ClusterAddress, TargetIndex)]>;

/// Clusters, addresses and pools of each target of one snapshot. What a reload does not change is shared with the previous value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetUses {
    /// Index of each target.
    numbers: Arc<HashMap<Target, TargetIndex>>,
    /// By target: its addresses in order, mostly one, each with the number of its pools.
    addresses: Vec<Arc<Vec<(ClusterAddress, u32)>>>,
    /// By target: its pools, in order.
    pools: Vec<SharedSet<PoolName>>,
    /// By pool: the targets of its members' addresses. An address has one target, or one per zone if zones have their own monitors.
    members: SharedMap<PoolName, PoolTargets>,
}

impl TargetUses {
    /// Joins a desired state with its snapshot.
    pub fn new(desired: &DesiredState, snapshot: &Snapshot) -> Self {
        let mut uses = Self::default();
        uses.renumber(snapshot);
        // Pools come in order, so their sets are built at once, without a search for each.
        let (mut pools, mut members) = (vec![Vec::new(); uses.len()], Vec::new());
        for pool in desired.pools.keys() {
            let Some(pool_targets) = uses.pool_targets(snapshot, pool) else { continue };
            for (_, number) in &*pool_targets {
                let of_target: &mut Vec<(PoolName, ())> = &mut pools[number.0 as usize];
                if of_target.last().is_none_or(|(last, ())| last != pool) {
                    of_target.push((pool.clone(), ()));
                }
            }
            members.push((pool.clone(), pool_targets));
        }
        uses.pools = pools.into_iter().map(SharedSet::from_iter).collect();
        uses.members = members.into_iter().collect();
        uses
    }

    /// Returns the uses of a snapshot that was revised. `before` has the targets of the previous snapshot, `changed` all pools that changed or
    /// answer other names now.
    pub fn revised<'a>(
        &self,
        before: &[Target],
        snapshot: &Snapshot,
        changed: impl IntoIterator<Item = &'a PoolName>,
    ) -> Self {
        let now = snapshot.targets();
        let moved: Vec<usize> = (0..before.len()).filter(|at| now.get(*at) != before.get(*at)).collect();
        let mut pools: BTreeSet<&PoolName> = moved.iter().flat_map(|at| self.pools[*at].keys()).collect();
        for name in changed {
            pools.insert(name);
        }
        let mut uses = self.clone();
        pools.iter().for_each(|pool| uses.take_out(pool));
        uses.renumber(snapshot);
        pools.into_iter().for_each(|pool| uses.add(snapshot, pool));
        uses
    }

    /// Takes over the indexes of a snapshot's targets. Targets whose index changed must have no uses left.
    fn renumber(&mut self, snapshot: &Snapshot) {
        self.numbers = Arc::clone(snapshot.target_indexes());
        self.addresses.resize_with(self.numbers.len(), Arc::default);
        self.pools.resize_with(self.numbers.len(), SharedSet::new);
    }

    /// Adds a pool, if any name uses it.
    fn add(&mut self, snapshot: &Snapshot, pool: &PoolName) {
        let Some(pool_targets) = self.pool_targets(snapshot, pool) else { return };
        for (_, number) in &*pool_targets {
            self.pools[number.0 as usize].insert(pool.clone(), ());
        }
        self.members.insert(pool.clone(), pool_targets);
    }

    /// Returns the targets of a pool's addresses and counts them, or `None` if no name uses the pool.
    fn pool_targets(&mut self, snapshot: &Snapshot, pool: &PoolName) -> Option<PoolTargets> {
        let mut places =
            snapshot.indices_of(pool).filter(|place| !snapshot.pool_infos()[*place].names.is_empty()).peekable();
        places.peek()?;
        let all = places.flat_map(|place| snapshot.steer_pools()[place].address_targets());
        let mut pool_targets: Vec<_> =
            all.map(|(cluster, address, target)| ((cluster.clone(), address), target)).collect();
        pool_targets.sort();
        pool_targets.dedup();
        for (address, number) in &pool_targets {
            let addresses = Arc::make_mut(&mut self.addresses[number.0 as usize]);
            match addresses.binary_search_by(|(known, _)| known.cmp(address)) {
                Ok(at) => addresses[at].1 += 1,
                Err(at) => {
                    addresses.reserve_exact(1);
                    addresses.insert(at, (address.clone(), 1));
                }
            }
        }
        Some(pool_targets.into())
    }

    /// Removes a pool.
    fn take_out(&mut self, pool: &PoolName) {
        let Some(pool_targets) = self.members.remove(pool) else { return };
        for (address, number) in &*pool_targets {
            let addresses = Arc::make_mut(&mut self.addresses[number.0 as usize]);
            if let Ok(at) = addresses.binary_search_by(|(known, _)| known.cmp(address)) {
                addresses[at].1 -= 1;
                if addresses[at].1 == 0 {
                    addresses.remove(at);
                }
            }
            self.pools[number.0 as usize].remove(pool);
        }
    }

    /// Returns the number of targets.
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns all targets, in order.
    pub fn targets_all(&self) -> impl Iterator<Item = TargetIndex> + use<> {
        let count = u32::try_from(self.len()).expect("the compiler counts targets in 32 bits");
        (0..count).map(TargetIndex)
    }

    /// Returns the index of this target.
    pub fn number_of(&self, target: &Target) -> Option<TargetIndex> {
        self.numbers.get(target).copied()
    }

    /// Returns the addresses that the target stands for, in order.
    pub fn addresses(&self, target: TargetIndex) -> impl Iterator<Item = &ClusterAddress> {
        self.addresses[target.0 as usize].iter().map(|(address, _)| address)
    }

    /// Returns the clusters that the target stands for, each once.
    pub fn clusters(&self, target: TargetIndex) -> Vec<ClusterName> {
        let mut clusters: Vec<_> = self.addresses(target).map(|(cluster, _)| cluster.clone()).collect();
        clusters.dedup();
        clusters
    }

    /// Returns the pools that use the target, in order.
    pub fn pools(&self, target: TargetIndex) -> &SharedSet<PoolName> {
        &self.pools[target.0 as usize]
    }

    /// Returns the targets of a pool's members; none if no name uses the pool.
    pub(crate) fn targets_of(&self, pool: &PoolName) -> impl Iterator<Item = TargetIndex> {
        self.members.get(pool).into_iter().flat_map(|pool_targets| pool_targets.iter()).map(|(_, number)| *number)
    }

    /// Returns the targets of one address of a cluster in a pool; none if no name uses the pool.
    pub fn targets(&self, pool: &PoolName, address: &ClusterAddress) -> impl Iterator<Item = TargetIndex> {
        let members = self.members.get(pool).map_or(&[][..], |pool_targets| pool_targets);
        members.iter().filter(move |(of, _)| of == address).map(|(_, number)| *number)
    }
}
