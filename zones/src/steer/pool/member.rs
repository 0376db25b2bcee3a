//! A member of a compiled pool, its addresses, and the targets they are probed as.

use std::sync::Arc;

use fairway_model::{Cluster, Monitor, MonitorName, Pool, ProbeAddress, mix};

use crate::{
    hash,
    shares::UNBALANCED,
    steer::{answer::Family, targets::TargetTable},
    target::TargetIndex,
};

/// A member as the deciding loop reads it: half a cache line.
#[derive(Clone, Debug)]
pub(in crate::steer) struct Member {
    /// Stable hash of the pool's and the cluster's name.
    pub(in crate::steer) key: u64,
    /// Its addresses of each family, IPv4 first.
    pub(in crate::steer) address_sets: [AddressSet; 2],
    /// Its share; 1 for standby members and where all weights are 0: they share equally.
    pub(in crate::steer) weight: u16,
    /// Its place in declared order.
    pub(in crate::steer) number: u8,
    /// Its tier as declared.
    pub(in crate::steer) tier: u8,
    /// Its cluster's number among those that are balanced.
    pub(in crate::steer) cluster: u16,
    /// Weight 0 while others have more.
    pub(in crate::steer) standby: bool,
}

/// The addresses of a member in one family.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::steer) struct AddressSet {
    /// The target, where one speaks for all addresses; else where their targets begin in [`SteerPool::targets`].
    pub(in crate::steer) at: u32,
    /// Number of the first answer with only some of the addresses.
    pub(in crate::steer) parts: u16,
    /// Its place in declared order among the members that have the family.
    pub(in crate::steer) rank: u8,
    /// How many addresses it has, 0 to 8, and [`AddressSet::ONE_TARGET`].
    count: u8,
}

impl AddressSet {
    /// Flag of a count: one target speaks for all addresses.
    const ONE_TARGET: u8 = 0x80;

    /// How many addresses the member has in this family.
    pub(in crate::steer) const fn addresses(&self) -> u32 {
        (self.count & !Self::ONE_TARGET) as u32
    }

    /// Whether [`AddressSet::at`] is the target itself.
    pub(in crate::steer) const fn has_one_target(&self) -> bool {
        self.count & Self::ONE_TARGET != 0
    }

    /// All addresses, as a mask.
    pub(in crate::steer) const fn all(&self) -> u32 {
        (1 << self.addresses()) - 1
    }
}

/// What the targets of a member come from.
pub(super) struct TargetSource<'a> {
    /// What is probed in place of its addresses.
    pub(super) probe: Option<&'a ProbeAddress>,
    pub(super) monitor: (&'a MonitorName, &'a Arc<Monitor>),
    pub(super) targets: &'a mut TargetTable,
}

impl Member {
    pub(super) fn new(pool: &Pool, pool_key: u64, place: usize, number: u8, cluster: &Cluster) -> Self {
        let declared = &pool.members[place];
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

    /// Gives each address its target: that of the member's own probe, else one an address.
    pub(super) fn set_targets(&mut self, source: TargetSource<'_>, cluster: &Cluster, spread: &mut Vec<TargetIndex>) {
        let TargetSource { probe, monitor: (label, monitor), targets } = source;
        let mut intern = |address| targets.intern(address, label, monitor);
        for (family, set) in Family::BOTH.into_iter().zip(&mut self.address_sets) {
            let mut addresses = cluster.addresses.iter().filter(|a| family.holds(a)).take(Cluster::ADDRESSES_MAX);
            match (set.addresses(), probe) {
                (0, _) => {}
                (_, Some(probe)) => set.at = intern(probe.clone()).0,
                (1, None) => set.at = addresses.next().map_or(0, |a| intern(ProbeAddress::Address(*a)).0),
                (_, None) => {
                    set.at = u32::try_from(spread.len()).expect("at most 255 members of 16 addresses");
                    spread.extend(addresses.map(|a| intern(ProbeAddress::Address(*a))));
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
