//! Client partition: the blocks of client addresses, the location class of each, and the ranks of members per class.
//!
//! It follows from the configuration alone, never from health or load. So ECS scopes in answers never overlap (RFC 7871
//! section 7.3.1). The meaning of a class (a country, an entry of a map, distances) is known only to its creator.

use std::{net::IpAddr, sync::Arc};

use super::{Partition, PartitionMatch};
use crate::{Latency, Network};

/// A partition of all IPv4 and IPv6 addresses into blocks as large as possible, each in one location class. Copies
/// share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPartition {
    /// Blocks with the numbers of their classes.
    partition: Arc<Partition>,
    /// Number of classes, at least 1.
    classes: u16,
}

impl ClientPartition {
    /// Maximum number of classes, whose numbers have 16 bits.
    pub const CLASSES_MAX: usize = u16::MAX as usize;

    /// Returns the partition with all addresses in class 0.
    pub fn everywhere() -> Self {
        Self { partition: Arc::new(Partition::uniform(0)), classes: 1 }
    }

    /// Returns the partition into these classes. `None` for more than [`ClientPartition::CLASSES_MAX`].
    pub fn new(partition: Partition) -> Option<Self> {
        let last = partition.starts().map(|(_, value)| value).max().unwrap_or_default();
        let classes = u16::try_from(last).ok().and_then(|last| last.checked_add(1))?;
        Some(Self { partition: Arc::new(partition), classes })
    }

    /// Returns the class of an address and the prefix length of its block.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> (u16, u8) {
        let PartitionMatch { value, length } = self.partition.find(address);
        // `new` has checked that values fit 16 bits.
        (value as u16, length)
    }

    /// Returns the number of classes. Every lookup is below it.
    pub fn classes(&self) -> u16 {
        self.classes
    }

    /// True if all addresses are in one class, so that no lookup is needed.
    #[inline]
    pub fn is_everywhere(&self) -> bool {
        self.classes == 1
    }

    /// Returns blocks and numbers.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns the blocks with their classes.
    pub fn blocks(&self) -> impl Iterator<Item = (Network, u16)> {
        self.partition.blocks().map(|(network, value)| (network, value as u16))
    }
}

/// Ranks of members in each class, by one ranking. The lowest comes first, and equal ranks are one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRanks {
    members: usize,
    ranks: Vec<u16>,
}

impl ClassRanks {
    /// Rank of a member that the ranking knows nothing about.
    pub const LAST: u16 = u16::MAX;
    /// Rank of a member that clients of the class never get, as if it were not in the pool.
    pub const NEVER: u16 = u16::MAX - 1;

    /// Returns ranks without a class. Each class will have one rank per member.
    pub fn new(members: usize) -> Self {
        Self { members, ranks: Vec::new() }
    }

    /// Adds the ranks of the next class, in declared order. Missing ranks are [`ClassRanks::LAST`].
    pub fn push(&mut self, ranks: &[u16]) {
        let given = ranks.iter().copied().chain(std::iter::repeat(Self::LAST));
        self.ranks.extend(given.take(self.members));
    }

    /// Returns the rank of a member in a class.
    pub fn rank(&self, class: u16, member: usize) -> u16 {
        if member >= self.members {
            return Self::LAST;
        }
        self.ranks.get(usize::from(class) * self.members + member).copied().unwrap_or(Self::LAST)
    }
}

/// The location part of a pool: its client partition, and the ranks by each ranking that uses the location (`geo`,
/// `nearest`, `latency`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationRankings {
    /// Location class of each client.
    pub partition: ClientPartition,
    /// Ranks by each ranking, in the order of the policy. Members are in declared order.
    pub rankings: Vec<ClassRanks>,
    /// Mean latencies of the members; none if load control does not compare them by these.
    pub latencies: ClassLatencies,
}

/// Mean latency of each member from the client networks of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassLatencies {
    members: usize,
    latencies: Vec<Option<Latency>>,
}

impl ClassLatencies {
    /// Returns the latencies of this many members, one class after the other.
    pub fn new(members: usize, latencies: Vec<Option<Latency>>) -> Self {
        Self { members, latencies }
    }

    /// Returns the mean latency of a member from the clients of a class; `None` if it is not known.
    pub fn get(&self, class: u16, member: usize) -> Option<Latency> {
        let own = self.latencies.get(usize::from(class) * self.members..)?;
        own.get(member).copied().flatten().filter(|_| member < self.members)
    }

    /// Returns the size in bytes.
    pub fn size_in_bytes(&self) -> usize {
        self.latencies.len() * size_of::<Option<Latency>>()
    }
}

impl LocationRankings {
    /// Returns the location part of a pool that does not rank by location.
    pub fn none() -> Self {
        Self { partition: ClientPartition::everywhere(), rankings: Vec::new(), latencies: ClassLatencies::default() }
    }

    /// True if clients of a class may get a member, by its index in the declared pool.
    pub fn admits(&self, class: u16, member: usize) -> bool {
        self.rankings.iter().all(|ranking| ranking.rank(class, member) != ClassRanks::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(blocks: &[(&str, u32)]) -> Option<ClientPartition> {
        let networks = blocks.iter().map(|(network, class)| (network.parse().unwrap(), *class));
        ClientPartition::new(Partition::of_networks(networks, 0))
    }

    #[test]
    fn every_address_is_in_one_block_of_maximal_size() {
        let partition = partition(&[("0.0.0.0/1", 1), ("192.0.0.0/3", 2), ("224.0.0.0/3", 2), ("::/0", 3)]).unwrap();
        let lookup = |address: &str| partition.lookup(address.parse().unwrap());
        assert_eq!(lookup("127.255.255.255"), (1, 1));
        assert_eq!(lookup("128.0.0.0"), (0, 2));
        assert_eq!(lookup("255.255.255.255"), (2, 2));
        assert_eq!(lookup("2001:db8::1"), (3, 0));
        assert_eq!((partition.classes(), partition.blocks().count()), (4, 4));
        assert_eq!(ClientPartition::everywhere().lookup("192.0.2.1".parse().unwrap()), (0, 0));
        assert!(ClientPartition::everywhere().is_everywhere() && !partition.is_everywhere());
    }

    #[test]
    fn more_classes_than_16_bits_are_rejected() {
        assert_eq!(partition(&[("::/0", 65_534)]).map(|partition| partition.classes()), Some(65_535));
        assert_eq!(partition(&[("::/0", 65_535)]), None);
    }

    #[test]
    fn missing_rank_is_last() {
        let mut classes = ClassRanks::new(3);
        classes.push(&[1, 0]);
        classes.push(&[2, 2, 2]);
        assert_eq!(
            [classes.rank(0, 0), classes.rank(0, 2), classes.rank(1, 2), classes.rank(2, 0)],
            [1, ClassRanks::LAST, 2, ClassRanks::LAST]
        );
        assert_eq!(classes.rank(0, 3), ClassRanks::LAST, "not the first of the next class");
    }
}
