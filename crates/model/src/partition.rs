//! A partition of the address space: every address has one value, in blocks as large as possible.
//!
//! It is stored as runs: neighbouring addresses with the same value are one run, whatever blocks declared them. The block of
//! an address is the largest aligned one around it within its run. So no two sibling blocks have the same value, and all
//! addresses of a block have one value, as ECS requires of scopes in responses (RFC 7871 section 7.2.1).

mod classes;
mod runs;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use self::classes::{ClassLatencies, ClassRanks, ClientPartition, LocationRankings};
use self::runs::{Runs, RunsBuilder};
use crate::Network;

/// A value for every address of both families.
///
/// A look-up uses an index of the leading bits and, if several runs share an index entry, a short binary search. It
/// allocates nothing and reads at most some thirty words, whatever the number of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    v4: Runs<u32>,
    v6: Runs<u128>,
}

/// The value of an address in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMatch {
    /// The value.
    pub value: u32,
    /// Prefix length of the largest block around the address that has this value: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub length: u8,
}

impl Partition {
    /// Returns the partition in which every address has this value.
    pub fn uniform(value: u32) -> Self {
        PartitionBuilder::new(value).finish()
    }

    /// Returns the partition in which an address has the value of the most specific network around it, else `elsewhere`. Of
    /// two values for one network the later one is used.
    pub fn of_networks(networks: impl IntoIterator<Item = (Network, u32)>, elsewhere: u32) -> Self {
        let mut networks: Vec<_> = networks.into_iter().collect();
        networks.sort_by_key(|(network, _)| *network);
        let mut builder = PartitionBuilder::new(elsewhere);
        networks.into_iter().for_each(|(network, value)| builder.add(network, value));
        builder.finish()
    }

    /// Returns the value of an address, with the length of its block. An IPv4-mapped address is an IPv6 address here.
    #[inline]
    pub fn find(&self, address: IpAddr) -> PartitionMatch {
        let (value, length) = match address {
            IpAddr::V4(address) => self.v4.find(address.to_bits()),
            IpAddr::V6(address) => self.find_v6(address.to_bits()),
        };
        PartitionMatch { value, length }
    }

    /// Looks up an IPv6 address. Not inlined, because its 128-bit arithmetic would take registers from the IPv4 path.
    #[inline(never)]
    fn find_v6(&self, address: u128) -> (u32, u8) {
        self.v6.find(address)
    }

    /// Returns its size in bytes.
    pub fn size_in_bytes(&self) -> usize {
        self.v4.size_in_bytes() + self.v6.size_in_bytes()
    }

    /// Returns first address (IPv4 as a number below 2^32) and value of each run, IPv4 first. Together with the number of
    /// IPv4 runs it identifies the partition.
    pub fn starts(&self) -> impl Iterator<Item = (u128, u32)> {
        let v4 = self.v4.starts.iter().map(|start| u128::from(*start)).zip(&self.v4.values);
        let v6 = self.v6.starts.iter().copied().zip(&self.v6.values);
        v4.chain(v6).map(|(start, value)| (start, *value))
    }

    /// Returns every block with its value: the fewest aligned blocks there can be.
    pub fn blocks(&self) -> impl Iterator<Item = (Network, u32)> {
        let v4 = self.v4.blocks().map(|(first, length, value)| (Network::of(IpAddr::V4(first.into()), length), value));
        let v6 = self.v6.blocks().map(|(first, length, value)| (Network::of(IpAddr::V6(first.into()), length), value));
        v4.chain(v6)
    }

    /// Returns the partition with changed values; `change` is called once per run.
    pub fn map(&self, mut change: impl FnMut(u32) -> u32) -> Self {
        Self { v4: self.v4.map(&mut change), v6: self.v6.map(&mut change) }
    }

    /// Returns both partitions combined; `merge` is called for the value of each piece, once per run.
    pub fn overlay(&self, other: &Self, mut merge: impl FnMut(u32, u32) -> u32) -> Self {
        Self { v4: self.v4.overlay(&other.v4, &mut merge), v6: self.v6.overlay(&other.v6, &mut merge) }
    }
}

/// Builds a partition from networks in order: by address, and a wider network before those inside it.
#[derive(Debug)]
pub struct PartitionBuilder {
    v4: RunsBuilder<u32>,
    v6: RunsBuilder<u128>,
}

impl PartitionBuilder {
    /// Returns a builder in which every address has this value.
    pub fn new(elsewhere: u32) -> Self {
        Self { v4: RunsBuilder::new(elsewhere), v6: RunsBuilder::new(elsewhere) }
    }

    /// Gives a network a value. Networks of one family must be added in order; one out of order has no effect.
    pub fn add(&mut self, network: Network, value: u32) {
        match network.address() {
            IpAddr::V4(first) => self.v4.add(first.to_bits(), network.length(), value),
            IpAddr::V6(first) => self.v6.add(first.to_bits(), network.length(), value),
        }
    }

    /// Returns the partition.
    pub fn finish(self) -> Partition {
        Partition { v4: self.v4.finish(), v6: self.v6.finish() }
    }
}
