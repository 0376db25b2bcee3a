//! The client that a client subnet option names, and the ECS scope of its answer.
//!
//! A private address says nothing about where its client is. So unless the pool's configuration names its range, the
//! sender of the query is located instead, and the scope is the whole range (RFC 7871 section 10).

use std::net::IpAddr;

use fairway_model::{DesiredState, Network, Pool, Rank};

use super::{client_net::ClientNet, pool::SteerPool};

/// Private ranges that the configuration of a pool does not name, as first address and length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PrivateRanges {
    v4: Box<[(u32, u8)]>,
    v6: Box<[(u128, u8)]>,
}

impl PrivateRanges {
    /// Returns the ranges that no map, latency table or member's network of a pool has a part of.
    pub(super) fn unnamed_by(desired: &DesiredState, pool: &Pool) -> Self {
        let ranks = || pool.policy.location_rankings();
        let map = desired.map_of(pool).filter(|_| ranks().any(|rank| matches!(rank, Rank::Geo | Rank::Nearest)));
        let table = desired.latencies_of(pool).filter(|_| ranks().any(|rank| matches!(rank, Rank::Latency { .. })));
        // A range with one value throughout has a block that is at least as large.
        let is_in_map = |range: Network| {
            map.is_some_and(|map| {
                let entry = map.entry(range.address());
                entry.block.length() > range.length() || *entry.location != Default::default()
            })
        };
        let is_in_table = |range: Network| {
            table.is_some_and(|table| {
                let (block, row) = table.entry(range.address());
                block.length() > range.length() || row.iter().any(Option::is_some)
            })
        };
        let is_view = |range: Network| {
            let mut networks = pool.members.iter().flat_map(|member| &member.networks);
            networks.any(|network| network.contains(range.address()) || range.contains(network.address()))
        };
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for range in PRIVATE.map(|(first, length)| Network::of(first, length)) {
            match range.address() {
                _ if is_in_map(range) || is_in_table(range) || is_view(range) => {}
                IpAddr::V4(first) => v4.push((first.to_bits(), range.length())),
                IpAddr::V6(first) => v6.push((first.to_bits(), range.length())),
            }
        }
        Self { v4: v4.into(), v6: v6.into() }
    }

    /// Returns how an address lies to the ranges of its family.
    #[inline]
    fn locate(&self, address: IpAddr) -> Located {
        match address {
            IpAddr::V4(address) => {
                let common = |first: u32| (first ^ address.to_bits()).leading_zeros() as u8;
                Located::of(self.v4.iter().map(|(first, length)| (common(*first), *length)))
            }
            IpAddr::V6(address) => {
                let common = |first: u128| (first ^ address.to_bits()).leading_zeros() as u8;
                let located = Located::of(self.v6.iter().map(|(first, length)| (common(*first), *length)));
                // IPv4-mapped addresses have blocks of their own.
                match located {
                    Located::Outside(length) => Located::Outside(length.max((common(MAPPED_FIRST) + 1).min(MAPPED))),
                    inside => inside,
                }
            }
        }
    }
}

/// Position of an address in relation to ranges.
enum Located {
    /// It is in a range of this length.
    Inside(u8),
    /// It is in none. Its blocks of at least this length touch none.
    Outside(u8),
}

impl Located {
    /// Takes the number of leading bits that the address has in common with each range, and the length of the range.
    #[inline]
    fn of(ranges: impl Iterator<Item = (u8, u8)>) -> Self {
        let mut apart = 0;
        for (common, length) in ranges {
            if common >= length {
                return Self::Inside(length);
            }
            apart = apart.max(common + 1);
        }
        Self::Outside(apart)
    }
}

impl SteerPool {
    /// Returns the client of a query with a client subnet, and the ECS scope of its answer. `sender` is the source of the query.
    #[inline]
    pub(crate) fn client_of_subnet(&self, subnet: IpAddr, sender: IpAddr) -> (ClientNet, u8) {
        let client = self.client_net(subnet);
        if !self.tells_clients_apart() {
            return (client, 0);
        }
        let address = subnet.to_canonical();
        // The scope of an IPv4-mapped address includes the bits before the IPv4 address.
        let before = if subnet.is_ipv6() && address.is_ipv4() { MAPPED } else { 0 };
        match self.private.locate(address) {
            Located::Inside(length) => (self.client_net(sender), before + length),
            // A block that contained a private range would have another answer for that range.
            Located::Outside(apart) => (client, before + client.scope().max(apart)),
        }
    }
}

/// Ranges whose addresses are no place in the Internet: RFC 1918, RFC 6598, loopback, link-local, RFC 4193.
const PRIVATE: [(IpAddr, u8); 9] = {
    use std::net::{Ipv4Addr, Ipv6Addr};
    const fn v4(a: u8, b: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(a, b, 0, 0))
    }
    const fn v6(first: u16) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0))
    }
    [
        (v4(10, 0), 8),
        (v4(100, 64), 10),
        (v4(127, 0), 8),
        (v4(169, 254), 16),
        (v4(172, 16), 12),
        (v4(192, 168), 16),
        (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
        (v6(0xfc00), 7),
        (v6(0xfe80), 10),
    ]
};
/// Bits before the IPv4 address in an IPv4-mapped one (RFC 4291 section 2.5.5.2).
const MAPPED: u8 = 96;
/// First IPv4-mapped address.
const MAPPED_FIRST: u128 = 0xffff << 32;
