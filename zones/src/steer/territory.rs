//! Where clients are told apart by place: a fixed partition of the address space, each block of it in a row, and how the
//! pool's members stand in each row.
//!
//! Everything here follows from what is configured, never from health or load: so the ECS scopes that are given out never
//! overlap (RFC 7871 section 7.3.1). What a row means (a country, a map's answer, the distances from a point) is
//! the business of whoever makes it.

use std::net::IpAddr;

use fairway_model::Network;

/// A fixed partition of the addresses of both families into blocks, each of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Territory {
    v4: Box<[Block<u32>]>,
    v6: Box<[Block<u128>]>,
    rows: u16,
}

/// A block, known by its first address; it ends where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Block<A> {
    first: A,
    row: u16,
    length: u8,
}

impl Territory {
    /// Everybody in row 0: the whole address space is one block.
    pub fn everywhere() -> Self {
        Self { v4: Box::default(), v6: Box::default(), rows: 1 }
    }

    /// The partition into these blocks, with the row of each; none unless the blocks of a family fill its whole address
    /// space without overlap. A family without blocks is in row 0 as a whole.
    pub fn new(blocks: impl IntoIterator<Item = (Network, u16)>) -> Option<Self> {
        let (mut v4, mut v6, mut rows) = (Vec::new(), Vec::new(), 1);
        for (network, row) in blocks {
            rows = rows.max(row.checked_add(1)?);
            match network.address() {
                IpAddr::V4(first) => v4.push(Block { first: first.to_bits(), row, length: network.length() }),
                IpAddr::V6(first) => v6.push(Block { first: first.to_bits(), row, length: network.length() }),
            }
        }
        v4.sort_unstable();
        v6.sort_unstable();
        let wide: Vec<_> = v4.iter().map(|b| (u128::from(b.first) << 96, b.length)).collect();
        let all: Vec<_> = v6.iter().map(|b| (b.first, b.length)).collect();
        (fills(&wide) && fills(&all)).then(|| Self { v4: v4.into(), v6: v6.into(), rows })
    }

    /// The row of an address and the length of its block: how many of its leading bits tell the row.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> (u16, u8) {
        match address {
            IpAddr::V4(address) => find(&self.v4, address.to_bits()),
            IpAddr::V6(address) => find(&self.v6, address.to_bits()),
        }
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

    /// The blocks and the row of each.
    pub fn blocks(&self) -> impl Iterator<Item = (Network, u16)> {
        let v4 = self.v4.iter().map(|b| (Network::of(IpAddr::V4(b.first.into()), b.length), b.row));
        let v6 = self.v6.iter().map(|b| (Network::of(IpAddr::V6(b.first.into()), b.length), b.row));
        v4.chain(v6)
    }
}

#[inline]
fn find<A: Ord + Copy>(blocks: &[Block<A>], address: A) -> (u16, u8) {
    let after = blocks.partition_point(|block| block.first <= address);
    after.checked_sub(1).map_or((0, 0), |at| (blocks[at].row, blocks[at].length))
}

/// Whether sorted blocks, as the first address in 128 bits and the length, follow each other from end to end.
fn fills(blocks: &[(u128, u8)]) -> bool {
    let mut next = Some(0);
    for (first, length) in blocks {
        if next != Some(*first) {
            return false;
        }
        let size = 1u128.checked_shl(128 - u32::from(*length));
        next = size.and_then(|size| first.checked_add(size));
    }
    blocks.is_empty() || next.is_none()
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(blocks: &[(&str, u16)]) -> Option<Territory> {
        Territory::new(blocks.iter().map(|(network, row)| (network.parse().unwrap(), *row)))
    }

    #[test]
    fn every_address_is_in_one_block() {
        let territory = blocks(&[("0.0.0.0/1", 1), ("128.0.0.0/2", 0), ("192.0.0.0/2", 2), ("::/0", 3)]).unwrap();
        let lookup = |address: &str| territory.lookup(address.parse().unwrap());
        assert_eq!(lookup("127.255.255.255"), (1, 1));
        assert_eq!(lookup("128.0.0.0"), (0, 2));
        assert_eq!(lookup("255.255.255.255"), (2, 2));
        assert_eq!(lookup("2001:db8::1"), (3, 0));
        assert_eq!(territory.rows(), 4);
        assert_eq!(Territory::everywhere().lookup("192.0.2.1".parse().unwrap()), (0, 0));
    }

    #[test]
    fn blocks_that_overlap_or_leave_a_gap_are_no_territory() {
        assert_eq!(blocks(&[("0.0.0.0/1", 0)]), None);
        assert_eq!(blocks(&[("0.0.0.0/0", 0), ("10.0.0.0/8", 1)]), None);
        assert_eq!(blocks(&[("0.0.0.0/1", 0), ("128.0.0.0/2", 1)]), None);
        assert_eq!(blocks(&[("::/0", u16::MAX)]), None, "rows are counted in 16 bits");
        assert!(blocks(&[("255.255.255.255/32", 1)]).is_none());
        assert!(blocks(&[]).is_some_and(|none| none.is_everywhere()));
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
