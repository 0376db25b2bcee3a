//! A partition of the address space: every address has one value, and each value's blocks are as large as they can be.
//!
//! Kept as runs: neighbouring addresses of one value are one run, whatever blocks they were declared by. The block of an
//! address is then the largest aligned one around it that lies within its run, so that no two sibling blocks of one value
//! exist, and two addresses of one block always have one value: what ECS asks of the scopes that are given out
//! (RFC 7871 section 7.2.1).

mod runs;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use self::runs::{Nest, Runs};
use crate::Network;

/// A value for every address of both families.
///
/// A look-up is a step through an index of the leading bits and, where several runs share a step, a short binary search: nothing is
/// allocated, and no more than some thirty words are read, however many runs there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    v4: Runs<u32>,
    v6: Runs<u128>,
}

/// What a partition says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMatch {
    /// The value.
    pub value: u32,
    /// Length of the largest block around the address that has this value as a whole: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub length: u8,
}

impl Partition {
    /// One value for everybody.
    pub fn uniform(value: u32) -> Self {
        PartitionBuilder::new(value).finish()
    }

    /// The value of the most specific network around each address; `elsewhere` where there is none. Of two values for one
    /// network the later one counts.
    pub fn of_networks(networks: impl IntoIterator<Item = (Network, u32)>, elsewhere: u32) -> Self {
        let mut networks: Vec<_> = networks.into_iter().collect();
        networks.sort_by_key(|(network, _)| *network);
        let mut builder = PartitionBuilder::new(elsewhere);
        networks.into_iter().for_each(|(network, value)| builder.add(network, value));
        builder.finish()
    }

    /// The value of an address and how much of the address it depends on. IPv4-mapped addresses are IPv6 here.
    #[inline]
    pub fn find(&self, address: IpAddr) -> PartitionMatch {
        let (value, length) = match address {
            IpAddr::V4(address) => self.v4.find(address.to_bits()),
            IpAddr::V6(address) => self.find_v6(address.to_bits()),
        };
        PartitionMatch { value, length }
    }

    /// A call of its own: what it needs for 128 bits would cost IPv4 its registers.
    #[inline(never)]
    fn find_v6(&self, address: u128) -> (u32, u8) {
        self.v6.find(address)
    }

    /// Whether everybody has one value.
    #[inline]
    pub fn is_uniform(&self) -> bool {
        self.v4.len() + self.v6.len() == 2 && self.v4.values()[0] == self.v6.values()[0]
    }

    /// How many runs it has, of both families: at least 2.
    pub fn runs(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Octets that it takes.
    pub fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets()
    }

    /// The value of each run, in the order of the addresses, IPv4 first.
    pub fn values(&self) -> impl Iterator<Item = u32> {
        self.v4.values().iter().chain(self.v6.values()).copied()
    }

    /// Each run by its first address (IPv4 as a number below 2^32) and its value, IPv4 first: all that tells two partitions
    /// apart, with how many runs IPv4 has.
    pub fn starts(&self) -> impl Iterator<Item = (u128, u32)> {
        let v4 = self.v4.starts().iter().map(|start| u128::from(*start)).zip(self.v4.values().iter().copied());
        v4.chain(self.v6.starts().iter().copied().zip(self.v6.values().iter().copied()))
    }

    /// Every block with its value: the fewest aligned blocks there can be.
    pub fn blocks(&self) -> impl Iterator<Item = (Network, u32)> {
        let v4 = self.v4.blocks().map(|(first, length, value)| (Network::of(IpAddr::V4(first.into()), length), value));
        let v6 = self.v6.blocks().map(|(first, length, value)| (Network::of(IpAddr::V6(first.into()), length), value));
        v4.chain(v6)
    }

    /// The same with other values. `change` is asked once a run.
    pub fn map(&self, mut change: impl FnMut(u32) -> u32) -> Self {
        Self { v4: self.v4.map(&mut change), v6: self.v6.map(&mut change) }
    }

    /// Two partitions as one: `join` is asked for the value of each piece, once a run.
    pub fn overlay(&self, other: &Self, mut join: impl FnMut(u32, u32) -> u32) -> Self {
        Self { v4: self.v4.overlay(&other.v4, &mut join), v6: self.v6.overlay(&other.v6, &mut join) }
    }
}

/// A partition from networks that come in order: by address, a wider one before those inside it.
#[derive(Debug)]
pub struct PartitionBuilder {
    v4: Nest<u32>,
    v6: Nest<u128>,
}

impl PartitionBuilder {
    /// One in which everybody has this value so far.
    pub fn new(elsewhere: u32) -> Self {
        Self { v4: Nest::new(elsewhere), v6: Nest::new(elsewhere) }
    }

    /// Gives a network a value. Networks of one family come in order; one that comes too late has no effect.
    pub fn add(&mut self, network: Network, value: u32) {
        match network.address() {
            IpAddr::V4(first) => self.v4.add(first.to_bits(), network.length(), value),
            IpAddr::V6(first) => self.v6.add(first.to_bits(), network.length(), value),
        }
    }

    /// The partition.
    pub fn finish(self) -> Partition {
        Partition { v4: self.v4.finish(), v6: self.v6.finish() }
    }
}
