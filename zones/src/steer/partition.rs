//! Where clients are told apart by place: a fixed partition of the address space, each block of it in a row, and how the
//! pool's members stand in each row.
//!
//! Everything here follows from what is configured, never from health or load: so the ECS scopes that are given out never
//! overlap (RFC 7871 section 7.3.1). What a row means (a country, a map's answer, the distances from a point) is
//! the business of whoever makes it.

use std::{net::IpAddr, sync::Arc};

use fairway_model::{Network, Partition, PartitionMatch};

/// A fixed partition of the addresses of both families into blocks, each of one row and as large as it can be.
///
/// Copies share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPartition {
    /// To the numbers of rows.
    partition: Arc<Partition>,
    /// How many rows there are, one at least.
    classes: u16,
}

impl ClientPartition {
    /// Most rows: their numbers have 16 bits.
    pub const CLASSES_MAX: usize = u16::MAX as usize;

    /// Everybody in row 0: the whole address space is one block.
    pub fn everywhere() -> Self {
        Self { partition: Arc::new(Partition::uniform(0)), classes: 1 }
    }

    /// The partition into these rows; none if there are more than [`ClientPartition::CLASSES_MAX`].
    pub fn new(partition: Partition) -> Option<Self> {
        let last = partition.values().max().unwrap_or_default();
        let classes = u16::try_from(last).ok().and_then(|last| last.checked_add(1))?;
        Some(Self { partition: Arc::new(partition), classes })
    }

    /// The row of an address and the length of its block: how many of its leading bits tell the row.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> (u16, u8) {
        let PartitionMatch { value, length } = self.partition.find(address);
        // Its maker held the values to 16 bits.
        (value as u16, length)
    }

    /// How many rows it has: every lookup is under it.
    pub fn classes(&self) -> u16 {
        self.classes
    }

    /// Whether everybody is in one row, so that nothing has to be looked up.
    #[inline]
    pub fn is_everywhere(&self) -> bool {
        self.classes == 1
    }

    /// The numbers of rows.
    pub(super) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The blocks and the row of each.
    pub fn blocks(&self) -> impl Iterator<Item = (Network, u16)> {
        self.partition.blocks().map(|(network, value)| (network, value as u16))
    }
}

/// Where a client is, and what of its address told that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationClass {
    /// The block of the pool's territory that the client is in; none where everybody is in one row.
    pub block: Option<Network>,
    /// The row of that block.
    pub class: u16,
    /// How many rows there are.
    pub classes: u16,
    /// Bits of `clientPrefix`; 0 where the choice is none of the client's.
    pub prefix: u8,
}

/// How members stand in each row of a territory, by one ranking: the lower, the sooner; equal ranks are one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRanks {
    members: usize,
    ranks: Vec<u16>,
}

impl ClassRanks {
    /// Of a member of which the ranking knows nothing.
    pub const LAST: u16 = u16::MAX;
    /// Of a member that the clients of a row are never answered with: to them it is as if it were not in the pool.
    pub const NEVER: u16 = u16::MAX - 1;

    /// Without a row; each one will have a rank for each of the pool's members.
    pub fn new(members: usize) -> Self {
        Self { members, ranks: Vec::new() }
    }

    /// Adds the next row: a rank a member, in declared order. Missing ones are [`ClassRanks::LAST`].
    pub fn push(&mut self, ranks: &[u16]) {
        let given = ranks.iter().copied().chain(std::iter::repeat(Self::LAST));
        self.ranks.extend(given.take(self.members));
    }

    /// The rank of a member in a row.
    pub fn rank(&self, class: u16, member: usize) -> u16 {
        if member >= self.members {
            return Self::LAST;
        }
        self.ranks.get(usize::from(class) * self.members + member).copied().unwrap_or(Self::LAST)
    }
}

/// What places say of a pool: the territory its clients are told apart by, and for each ranking of its policy that goes by
/// place (`geo`, `nearest`, `latency`; in the order of the policy) how the members stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationRankings {
    /// Which row a client is in.
    pub partition: ClientPartition,
    /// One for each ranking by place, by the members as the pool declares them.
    pub rankings: Vec<ClassRanks>,
}

impl LocationRankings {
    /// No place: one row, and nothing to say of members.
    pub fn none() -> Self {
        Self { partition: ClientPartition::everywhere(), rankings: Vec::new() }
    }

    /// Whether clients of a row may be answered with a member, by its place among those that the pool declares.
    pub(super) fn admits(&self, class: u16, member: usize) -> bool {
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
    fn every_address_is_in_one_block_and_blocks_are_as_large_as_they_can_be() {
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
    fn rows_are_counted_in_16_bits() {
        assert_eq!(partition(&[("::/0", 65_534)]).map(|partition| partition.classes()), Some(65_535));
        assert_eq!(partition(&[("::/0", 65_535)]), None);
    }

    #[test]
    fn what_a_ranking_does_not_say_is_last() {
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
