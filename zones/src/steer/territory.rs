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
pub struct Territory {
    /// To the numbers of rows.
    partition: Arc<Partition>,
    /// How many rows there are, one at least.
    rows: u16,
}

impl Territory {
    /// Most rows: their numbers have 16 bits.
    pub const ROWS_MAX: usize = u16::MAX as usize;

    /// Everybody in row 0: the whole address space is one block.
    pub fn everywhere() -> Self {
        Self { partition: Arc::new(Partition::uniform(0)), rows: 1 }
    }

    /// The partition into these rows; none if there are more than [`Territory::ROWS_MAX`].
    pub fn new(partition: Partition) -> Option<Self> {
        let last = partition.values().max().unwrap_or_default();
        let rows = u16::try_from(last).ok().and_then(|last| last.checked_add(1))?;
        Some(Self { partition: Arc::new(partition), rows })
    }

    /// The row of an address and the length of its block: how many of its leading bits tell the row.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> (u16, u8) {
        let PartitionMatch { value, length } = self.partition.find(address);
        // Its maker held the values to 16 bits.
        (value as u16, length)
    }

    /// How many rows it has: every lookup is under it.
    pub fn rows(&self) -> u16 {
        self.rows
    }

    /// Whether everybody is in one row, so that nothing has to be looked up.
    #[inline]
    pub fn is_everywhere(&self) -> bool {
        self.rows == 1
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

/// How members stand in each row of a territory, by one ranking: the lower, the sooner; equal ranks are one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    members: usize,
    ranks: Vec<u16>,
}

impl Rows {
    /// Of a member of which the ranking knows nothing.
    pub const LAST: u16 = u16::MAX;
    /// Of a member that the clients of a row are never answered with: to them it is as if it were not in the pool.
    pub const NEVER: u16 = u16::MAX - 1;

    /// Without a row; each one will have a rank for each of the pool's members.
    pub fn new(members: usize) -> Self {
        Self { members, ranks: Vec::new() }
    }

    /// Adds the next row: a rank a member, in declared order. Missing ones are [`Rows::LAST`].
    pub fn push(&mut self, ranks: &[u16]) {
        let given = ranks.iter().copied().chain(std::iter::repeat(Self::LAST));
        self.ranks.extend(given.take(self.members));
    }

    /// The rank of a member in a row.
    pub fn rank(&self, row: u16, member: usize) -> u16 {
        if member >= self.members {
            return Self::LAST;
        }
        self.ranks.get(usize::from(row) * self.members + member).copied().unwrap_or(Self::LAST)
    }
}

/// What places say of a pool: the territory its clients are told apart by, and for each ranking of its policy that goes by
/// place (`geo`, `nearest`, `latency`; in the order of the policy) how the members stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which row a client is in.
    pub territory: Territory,
    /// One for each ranking by place, by the members as the pool declares them.
    pub rankings: Vec<Rows>,
}

impl Placement {
    /// No place: one row, and nothing to say of members.
    pub fn none() -> Self {
        Self { territory: Territory::everywhere(), rankings: Vec::new() }
    }

    /// Whether clients of a row may be answered with a member, by its place among those that the pool declares.
    pub(super) fn admits(&self, row: u16, member: usize) -> bool {
        self.rankings.iter().all(|ranking| ranking.rank(row, member) != Rows::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn territory(blocks: &[(&str, u32)]) -> Option<Territory> {
        let networks = blocks.iter().map(|(network, row)| (network.parse().unwrap(), *row));
        Territory::new(Partition::of_networks(networks, 0))
    }

    #[test]
    fn every_address_is_in_one_block_and_blocks_are_as_large_as_they_can_be() {
        let territory = territory(&[("0.0.0.0/1", 1), ("192.0.0.0/3", 2), ("224.0.0.0/3", 2), ("::/0", 3)]).unwrap();
        let lookup = |address: &str| territory.lookup(address.parse().unwrap());
        assert_eq!(lookup("127.255.255.255"), (1, 1));
        assert_eq!(lookup("128.0.0.0"), (0, 2));
        assert_eq!(lookup("255.255.255.255"), (2, 2));
        assert_eq!(lookup("2001:db8::1"), (3, 0));
        assert_eq!((territory.rows(), territory.blocks().count()), (4, 4));
        assert_eq!(Territory::everywhere().lookup("192.0.2.1".parse().unwrap()), (0, 0));
        assert!(Territory::everywhere().is_everywhere() && !territory.is_everywhere());
    }

    #[test]
    fn rows_are_counted_in_16_bits() {
        assert_eq!(territory(&[("::/0", 65_534)]).map(|territory| territory.rows()), Some(65_535));
        assert_eq!(territory(&[("::/0", 65_535)]), None);
    }

    #[test]
    fn what_a_ranking_does_not_say_is_last() {
        let mut rows = Rows::new(3);
        rows.push(&[1, 0]);
        rows.push(&[2, 2, 2]);
        assert_eq!(
            [rows.rank(0, 0), rows.rank(0, 2), rows.rank(1, 2), rows.rank(2, 0)],
            [1, Rows::LAST, 2, Rows::LAST]
        );
        assert_eq!(rows.rank(0, 3), Rows::LAST, "not the first of the next row");
    }
}
