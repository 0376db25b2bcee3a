//! A member of a compiled pool, with its addresses and their targets.

use std::sync::Arc;

use fairway_model::{Cluster, Monitor, MonitorName, Pool, ProbeAddress, mix};

use crate::{
    hash,
    shares::UNBALANCED,
    steer::{answer::Family, targets::TargetTable},
    target::TargetIndex,
};

/// A member as the answer path reads it: half a cache line.
#[derive(Clone, Debug)]
pub(in crate::steer) struct Member {
    /// Stable hash of the pool's and the cluster's name.
    pub(in crate::steer) key: u64,
    /// Addresses of each family, IPv4 first.
    pub(in crate::steer) address_sets: [AddressSet; 2],
    /// Effective weight: 1 for standby members, and for all members if all weights are 0.
    pub(in crate::steer) weight: u16,
    /// Index in declared order.
    pub(in crate::steer) number: u8,
    /// Declared tier.
    pub(in crate::steer) tier: u8,
    /// Number of its cluster among the balanced ones.
    pub(in crate::steer) cluster: u16,
    /// True if its weight is 0 and another member's is not.
    pub(in crate::steer) standby: bool,
}

/// Addresses of a member in one family.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::steer) struct AddressSet {
    /// The target of all addresses, or the index of the first target in
    /// [`SteerPool::targets`](super::SteerPool::targets).
    pub(in crate::steer) at: u32,
    /// Number of the first answer with some of the addresses.
    pub(in crate::steer) parts: u16,
    /// Index in declared order among the members that have the family.
    pub(in crate::steer) rank: u8,
    /// Number of addresses, 0 to 8, and [`AddressSet::ONE_TARGET`].
    count: u8,
}

impl AddressSet {
    /// Flag in the count: one target stands for all addresses.
    const ONE_TARGET: u8 = 0x80;

    /// Returns the number of addresses.
    pub(in crate::steer) const fn addresses(&self) -> u32 {
        (self.count & !Self::ONE_TARGET) as u32
    }

    /// True if [`AddressSet::at`] is the target.
    pub(in crate::steer) const fn has_one_target(&self) -> bool {
        self.count & Self::ONE_TARGET != 0
    }

    /// Returns the mask of all addresses.
    pub(in crate::steer) const fn all(&self) -> u32 {
        (1 << self.addresses()) - 1
    }
}

/// Inputs of a member's targets.
pub(super) struct TargetSource<'a> {
    /// Address that is probed in place of its own addresses.
    pub(super) probe: Option<&'a ProbeAddress>,
    pub(super) monitor: (&'a MonitorName, &'a Arc<Monitor>),
    pub(super) targets: &'a mut TargetTable,
}

impl Member {
    pub(super) fn new(pool: &Pool, pool_key: u64, index: usize, number: u8, cluster: &Cluster) -> Self {
        let declared = &pool.members[index];
        let all_standby = pool.members.iter().all(|m| m.weight.0 == 0);
        let cluster_key = hash::text(hash::seed::CLUSTER, cluster.name.as_str());
        Self {
            key: mix(pool_key ^ cluster_key),
            address_sets: Family::BOTH.map(|family| AddressSet::new(cluster, family)),
            weight: declared.weight.0.max(1),
            number,
            tier: declared.tier.number(),
            cluster: UNBALANCED,
            standby: declared.weight.0 == 0 && !all_standby,
        }
    }

    /// Sets the targets: the member's own probe address, else one target per address.
    pub(super) fn set_targets(&mut self, source: TargetSource<'_>, cluster: &Cluster, spread: &mut Vec<TargetIndex>) {
        let TargetSource { probe, monitor: (label, monitor), targets } = source;
        let mut intern = |address| targets.intern(address, label, monitor);
        for (family, set) in Family::BOTH.into_iter().zip(&mut self.address_sets) {
            let mut addresses = cluster.addresses.iter().filter(|a| family.holds(a)).take(Cluster::ADDRESSES_MAX);
            match (set.addresses(), probe) {
                (0, _) => {}
                (_, Some(probe)) => set.at = intern(probe.clone()).0,
                (1, None) => set.at = addresses.next().map_or(0, |a| intern(cluster.probe_address(*a)).0),
                (_, None) => {
                    set.at = u32::try_from(spread.len()).expect("at most 255 members of 16 addresses");
                    spread.extend(addresses.map(|a| intern(cluster.probe_address(*a))));
                    continue;
                }
            }
            if set.addresses() > 0 {
                set.count |= AddressSet::ONE_TARGET;
            }
        }
    }
}

impl AddressSet {
    fn new(cluster: &Cluster, family: Family) -> Self {
        let count = cluster.addresses.iter().filter(|a| family.holds(a)).take(Cluster::ADDRESSES_MAX).count();
        Self { count: u8::try_from(count).expect("at most 8 were taken"), ..Self::default() }
    }
}
