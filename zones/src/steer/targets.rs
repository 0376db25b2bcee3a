//! Numbers of targets: equal address and equal monitor are one target for all pools.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use fairway_model::{Backend, Cluster, ClusterName, Monitor, MonitorName, ProbeAddress, Schedule, Target};
use indexmap::IndexSet;

use crate::{
    shares::{BackendNumbers, UNBALANCED},
    target::TargetIndex,
};

/// Ranking of balanced clusters, by their numbers: the cost of each in thousandths of a rank, and its part of their weights in thousandths.
pub(super) type Ranks = BTreeMap<u16, (u32, u16)>;

/// Uses of a ranking of balanced clusters, in all pools together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RankingUses {
    /// Location classes with it.
    pub(super) classes: u32,
    /// Blocks of client addresses in them.
    pub(super) blocks: u64,
}

/// Numbers of targets, balanced clusters and schedules.
///
/// A copy shares memory until a number is added, so that the next snapshot starts from it at no cost.
#[derive(Clone, Debug, Default)]
pub struct TargetTable {
    targets: Arc<Vec<Target>>,
    numbers: Arc<HashMap<Target, TargetIndex>>,
    /// Numbers by address and the address of the monitor in memory, since hashing a monitor is slow and most members
    /// share one. The monitor is kept, so that its address stays valid. Used during compilation only.
    placed: HashMap<(ProbeAddress, usize), (TargetIndex, Arc<Monitor>)>,
    /// Addresses of each cluster, shared by all pools.
    addresses: Arc<HashMap<ClusterName, Arc<[IpAddr]>>>,
    /// Numbers of the backends of pools that balance by load.
    pub(crate) balanced: Arc<BackendNumbers>,
    /// Words reserved for last-good members.
    pub(super) memory_words: u32,
    /// Different schedules, by number.
    pub(crate) schedules: Arc<IndexSet<Schedule>>,
    /// Words reserved for closed members.
    pub(super) closed_words: u32,
    /// Different rankings of balanced clusters, by number.
    pub(super) rankings: Arc<IndexSet<Ranks>>,
    /// For each location class of each pool that balances by load, the number of its ranking.
    pub(super) class_rankings: Arc<Vec<u32>>,
}

impl TargetTable {
    /// Returns the number of a target, and adds it if it is new.
    pub fn intern(&mut self, address: ProbeAddress, label: &MonitorName, monitor: &Arc<Monitor>) -> TargetIndex {
        let place = (address, Arc::as_ptr(monitor).addr());
        if let Some((number, _)) = self.placed.get(&place) {
            return *number;
        }
        let target = Target { address: place.0.clone(), monitor: Arc::clone(monitor), label: label.clone() };
        let next = TargetIndex(u32::try_from(self.targets.len()).expect("memory ends before 2^32 targets"));
        let known = self.numbers.get(&target).copied();
        let number = known.unwrap_or_else(|| {
            Arc::make_mut(&mut self.targets).push(target.clone());
            Arc::make_mut(&mut self.numbers).insert(target, next);
            next
        });
        self.placed.insert(place, (number, Arc::clone(monitor)));
        number
    }

    /// Removes unused targets, given in order. The last targets take their numbers.
    pub(crate) fn take_out(&mut self, gone: &[TargetIndex]) {
        let (targets, numbers) = (Arc::make_mut(&mut self.targets), Arc::make_mut(&mut self.numbers));
        for number in gone.iter().rev() {
            let at = number.0 as usize;
            numbers.remove(&targets.swap_remove(at));
            if let Some(moved) = targets.get(at) {
                numbers.insert(moved.clone(), *number);
            }
        }
        self.placed.clear();
    }

    /// Returns the addresses of a cluster, shared by all its pools.
    pub(super) fn addresses(&mut self, cluster: &Cluster) -> Arc<[IpAddr]> {
        if let Some(known) = self.addresses.get(&cluster.name)
            && **known == *cluster.addresses
        {
            return Arc::clone(known);
        }
        let addresses: Arc<[IpAddr]> = cluster.addresses.as_slice().into();
        Arc::make_mut(&mut self.addresses).insert(cluster.name.clone(), Arc::clone(&addresses));
        addresses
    }

    /// Returns the number of a balanced backend, and adds it if it is new. At most 65,535 get a number.
    pub(super) fn backend(&mut self, name: Backend) -> u16 {
        let next = u16::try_from(self.balanced.len()).unwrap_or(UNBALANCED);
        match self.balanced.get(&name) {
            Some(number) => *number,
            None if next == UNBALANCED => UNBALANCED,
            None => *Arc::make_mut(&mut self.balanced).entry(name).or_insert(next),
        }
    }

    /// Returns all targets, by number.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Returns the index of each target, which control shares.
    pub(crate) fn indexes(&self) -> &Arc<HashMap<Target, TargetIndex>> {
        &self.numbers
    }

    /// Returns the words reserved for last-good and for closed members.
    pub(crate) fn words(&self) -> [usize; 2] {
        [self.memory_words as usize, self.closed_words as usize]
    }

    /// Returns the number of location classes of pools that balance by load. There are at most as many rankings.
    pub(crate) fn load_classes(&self) -> usize {
        self.class_rankings.len()
    }

    /// Drops the parts that only the compilation needs.
    pub(crate) fn finish(self) -> Self {
        Self { placed: HashMap::default(), ..self }
    }

    /// Returns the number of a schedule, and adds it if it is new.
    pub(super) fn schedule(&mut self, schedule: &Schedule) -> u32 {
        let known = self.schedules.get_index_of(schedule);
        let number = known.unwrap_or_else(|| Arc::make_mut(&mut self.schedules).insert_full(schedule.clone()).0);
        u32::try_from(number).expect("memory ends before 2^32 schedules")
    }
}

/// Adds a count to a sum. Returns the sum before, which is the index of the first.
pub(super) fn reserve(reserved: &mut u32, count: usize) -> u32 {
    let begin = *reserved;
    *reserved += u32::try_from(count).expect("memory ends before 2^32 words");
    begin
}

#[cfg(test)]
mod tests {
    use std::{
        hash::{Hash, Hasher},
        net::Ipv6Addr,
        time::{Duration, Instant},
    };

    use fairway_model::{mix, stable_hash};

    use super::*;
    use crate::target::tests::target;

    #[test]
    fn equal_targets_share_number_for_any_monitor_name() {
        let mut table = TargetTable::default();
        let numbers =
            [("192.0.2.1", 443, "a"), ("192.0.2.1", 443, "b"), ("192.0.2.1", 80, "a"), ("192.0.2.2", 443, "a")]
                .map(|(address, port, label)| target(address, port, label))
                .map(|target| table.intern(target.address, &target.label, &target.monitor).0);
        assert_eq!(numbers, [0, 0, 1, 2]);
        assert_eq!(table.targets().len(), 3);
    }

    /// Hashes as [`fairway_model::StableHasher`] does, and keeps the words that it was given.
    struct Recorder(u64, Vec<u64>);

    impl Hasher for Recorder {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            let words =
                bytes.chunks(8).map(|word| word.iter().rev().fold(0, |all, octet| all << 8 | u64::from(*octet)));
            for word in words {
                self.0 = mix(self.0.rotate_left(23) ^ word);
                self.1.push(word);
            }
        }
    }

    /// Returns addresses that have one hash under the hash that is equal on every server, which is public: for each first
    /// half there is a second half that leads to the same state.
    fn colliding(count: u64) -> Vec<ProbeAddress> {
        let of = |first: u64, second: u64| {
            let bits = u128::from(first.swap_bytes()) << 64 | u128::from(second.swap_bytes());
            ProbeAddress::Address(Ipv6Addr::from_bits(bits).into())
        };
        let seed = 0x66_61_69_72_77_61_79_08;
        let state = |first| {
            let mut recorder = Recorder(mix(seed), Vec::new());
            of(first, 0).hash(&mut recorder);
            let [before @ .., _] = &recorder.1[..] else { unreachable!("an address has more words") };
            assert_eq!(before.last(), Some(&first), "the halves are the last two words");
            before.iter().fold(mix(seed), |state, word| mix(state.rotate_left(23) ^ word))
        };
        (0..count).map(|first| of(first, state(first).rotate_left(23) ^ 7)).collect()
    }

    #[test]
    fn addresses_built_to_share_a_public_hash_are_numbered_as_fast_as_others() {
        const COUNT: u64 = 8_000;
        let (label, monitor) = (MonitorName::new("m").unwrap(), target("192.0.2.1", 443, "m").monitor);
        let built = colliding(COUNT);
        assert_eq!(stable_hash(&built[0]), stable_hash(&built[COUNT as usize - 1]), "they do share it");
        let plain =
            (0..COUNT).map(|n| ProbeAddress::Address(Ipv6Addr::from_bits(u128::from(n) << 64).into())).collect();
        let [expected, took] = [plain, built].map(|addresses: Vec<_>| {
            let (mut table, begun) = (TargetTable::default(), Instant::now());
            addresses.into_iter().for_each(|address| _ = table.intern(address, &label, &monitor));
            assert_eq!(table.targets().len(), COUNT as usize);
            begun.elapsed()
        });
        println!("{COUNT} addresses that share a hash: {took:?}, others {expected:?}");
        assert!(took < expected * 4 + Duration::from_millis(200), "{took:?}, expected {expected:?}");
    }

    #[test]
    fn words_of_pools_do_not_overlap() {
        let mut table = TargetTable::default();
        assert_eq!([2, 1, 4].map(|words| reserve(&mut table.closed_words, words)), [0, 2, 3]);
    }

    #[test]
    fn balanced_clusters_get_numbers_up_to_maximum_and_keep_them() {
        let mut table = TargetTable::default();
        let mut number = |i: u32| table.backend(format!("c{i}").parse().unwrap());
        assert!((0..u32::from(UNBALANCED)).all(|i| u32::from(number(i)) == i));
        assert_eq!([65_535, 70_000].map(&mut number), [UNBALANCED; 2]);
        assert_eq!([0, 65_534].map(&mut number), [0, 65_534]);
    }
}
