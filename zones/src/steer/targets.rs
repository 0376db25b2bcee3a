//! Gives each target a number: equal address and equal monitor are one target, whoever uses it.

use std::{
    hash::{Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{Cluster, ClusterName, Monitor, MonitorName, ProbeAddress, Schedule, Target};

use super::hash::{StableHasher, StableMap};
use crate::{
    TargetIndex,
    balanced::{BalancedClusters, UNBALANCED},
};

/// Numbers what pools are judged by while they are compiled.
#[derive(Debug, Default)]
pub struct TargetTable {
    targets: Vec<Target>,
    numbers: StableMap<Target, TargetIndex>,
    /// The same by address and by the monitor's place in memory: most members share their monitor, which takes long to
    /// hash. The monitor is kept, so that the place stays its own.
    placed: StableMap<(ProbeAddress, *const Monitor), (TargetIndex, Arc<Monitor>)>,
    /// The addresses of each cluster, which all pools share.
    addresses: StableMap<ClusterName, Arc<[IpAddr]>>,
    /// Clusters in pools that heed load.
    balanced: BalancedClusters,
    /// Words of memory handed out to pools that remember who was the last to be up.
    memory_words: u32,
    /// Schedules of members, each once.
    schedules: Vec<Schedule>,
    schedule_numbers: StableMap<Schedule, u32>,
    /// Words handed out to pools that have members with a schedule.
    closed_words: u32,
}

impl TargetTable {
    /// A table without targets.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of this target, given now if it is new.
    pub fn intern(&mut self, address: ProbeAddress, label: &MonitorName, monitor: &Arc<Monitor>) -> TargetIndex {
        let place = (address, Arc::as_ptr(monitor));
        if let Some((number, _)) = self.placed.get(&place) {
            return *number;
        }
        let target = Target { address: place.0.clone(), monitor: Arc::clone(monitor), label: label.clone() };
        let next = TargetIndex(u32::try_from(self.targets.len()).expect("memory ends before 2^32 targets"));
        let number = *self.numbers.entry(target).or_insert_with_key(|target| {
            self.targets.push(target.clone());
            next
        });
        self.placed.insert(place, (number, Arc::clone(monitor)));
        number
    }

    /// The addresses of a cluster, once for all pools it is in. Clusters of one name are one cluster.
    pub(super) fn addresses(&mut self, cluster: &Cluster) -> Arc<[IpAddr]> {
        if let Some(known) = self.addresses.get(&cluster.name) {
            return Arc::clone(known);
        }
        let addresses: Arc<[IpAddr]> = cluster.addresses.as_slice().into();
        self.addresses.insert(cluster.name.clone(), Arc::clone(&addresses));
        addresses
    }

    /// The number of a cluster among those that are balanced, given now if it is new. The 65,535 first ones have one.
    pub(super) fn balanced_cluster(&mut self, name: &ClusterName) -> u16 {
        let next = u16::try_from(self.balanced.len()).unwrap_or(UNBALANCED);
        if next == UNBALANCED {
            return self.balanced.get(name).copied().unwrap_or(UNBALANCED);
        }
        *self.balanced.entry(name.clone()).or_insert(next)
    }

    /// Every target, in the order of its number.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The targets without the table, the numbers of clusters that are balanced, and schedules by their number.
    pub(crate) fn into_parts(self) -> (Vec<Target>, BalancedClusters, Vec<Schedule>) {
        (self.targets, self.balanced, self.schedules)
    }

    /// The number of a schedule, given now if it is new. Equal schedules are one.
    pub(super) fn schedule(&mut self, schedule: &Schedule) -> u32 {
        if let Some(number) = self.schedule_numbers.get(schedule) {
            return *number;
        }
        let number = u32::try_from(self.schedules.len()).expect("memory ends before 2^32 schedules");
        self.schedules.push(schedule.clone());
        self.schedule_numbers.insert(schedule.clone(), number);
        number
    }

    /// Reserves words for closed members in [`crate::Conditions`]; returns where they begin.
    pub(super) fn reserve_closed(&mut self, words: usize) -> u32 {
        let begin = self.closed_words;
        self.closed_words += u32::try_from(words).expect("a pool has at most 255 members, so 4 words");
        begin
    }

    /// Reserves words of memory in [`crate::Conditions`]; returns where they begin.
    pub(super) fn reserve_memory(&mut self, words: usize) -> u32 {
        let begin = self.memory_words;
        self.memory_words += u32::try_from(words).expect("a pool has at most 255 members, so 4 words");
        begin
    }
}

/// What identifies a target, as a number that is equal on every server.
pub(crate) fn target_hash(target: &Target) -> u64 {
    stable_hash(target)
}

/// A hash that is equal on every server.
pub(crate) fn stable_hash(value: &impl Hash) -> u64 {
    let mut hasher = StableHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{Check, Monitor, MonitorName, ProbeAddress};

    use super::*;

    fn target(address: &str, port: u16, label: &str) -> Target {
        Target {
            address: ProbeAddress::Address(address.parse().unwrap()),
            monitor: Arc::new(Monitor::new(Check::Tcp { port })),
            label: MonitorName::new(label).unwrap(),
        }
    }

    #[test]
    fn equal_targets_share_a_number_whatever_their_monitor_is_called() {
        let mut table = TargetTable::new();
        let numbers =
            [("192.0.2.1", 443, "a"), ("192.0.2.1", 443, "b"), ("192.0.2.1", 80, "a"), ("192.0.2.2", 443, "a")]
                .map(|(address, port, label)| target(address, port, label))
                .map(|target| table.intern(target.address, &target.label, &target.monitor).0);
        assert_eq!(numbers, [0, 0, 1, 2]);
        assert_eq!(table.targets().len(), 3);
    }

    #[test]
    fn words_of_pools_do_not_overlap() {
        let mut table = TargetTable::new();
        assert_eq!([2, 1, 4].map(|words| table.reserve_closed(words)), [0, 2, 3]);
        assert_eq!([1, 3, 2].map(|words| table.reserve_memory(words)), [0, 1, 4]);
    }

    #[test]
    fn as_many_clusters_are_balanced_as_have_a_number_and_these_keep_it() {
        let mut table = TargetTable::new();
        let mut number = |i: u32| table.balanced_cluster(&ClusterName::new(&format!("c{i}")).unwrap());
        assert!((0..u32::from(UNBALANCED)).all(|i| u32::from(number(i)) == i));
        assert_eq!([65_535, 70_000].map(&mut number), [UNBALANCED; 2]);
        assert_eq!([0, 65_534].map(&mut number), [0, 65_534]);
    }

    #[test]
    fn the_hash_of_a_target_is_what_it_always_was() {
        assert_eq!(target_hash(&target("192.0.2.1", 443, "a")), 0xb425_c73b_60ec_94e3);
        assert_eq!(target_hash(&target("2001:db8::1", 443, "a")), 0x85a7_726b_e95a_87c8);
    }
}
