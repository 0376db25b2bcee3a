//! What counts as one client: the block of addresses that always gets the same answer.

use std::{fmt, net::IpAddr};

use fairway_model::{Network, mix};

use crate::hash::seed;

/// The block of addresses a client is taken for: its network in the fixed partition that the pool's territory and its
/// `clientPrefix` make together, or everyone where the pool tells no clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNet {
    network: Network,
    class: u16,
}

impl ClientNet {
    /// The block of `length` leading bits around an address, in a row of the pool's territory.
    #[inline]
    pub(crate) fn new(address: IpAddr, length: u8, class: u16) -> Self {
        Self { network: Network::of(address, length), class }
    }

    /// The block itself.
    pub fn network(self) -> Network {
        self.network
    }

    /// How many leading bits of the client's address it is told by: the ECS scope.
    #[inline]
    pub fn scope(self) -> u8 {
        self.network.length()
    }

    /// The row of the pool's territory it is in: its place.
    #[inline]
    pub fn class(self) -> u16 {
        self.class
    }

    /// The part of the decision that depends on the client. The length is not in it: a finer partition leaves the
    /// first network of each old one where it was.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        match self.network.address() {
            IpAddr::V4(address) => mix(seed::CLIENT_V4 ^ u64::from(address.to_bits())),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                mix(mix(seed::CLIENT_V6 ^ (bits >> 64) as u64) ^ bits as u64)
            }
        }
    }
}

impl fmt::Display for ClientNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.network.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let net = |text: &str| ClientNet::new(text.parse().unwrap(), 24, 0);
        assert_eq!(net("198.51.100.1").hash(), net("198.51.100.200").hash());
        assert_ne!(net("198.51.100.1").hash(), net("198.51.101.1").hash());
        let host = |text: &str| ClientNet::new(text.parse().unwrap(), 128, 0).hash();
        assert_ne!(host("2001:db8::1"), host("2001:db8::2"), "the lower half counts too");
    }

    #[test]
    fn the_hash_of_a_client_is_what_it_always_was() {
        assert_eq!(ClientNet::new("198.51.100.0".parse().unwrap(), 24, 0).hash(), 0x096f_3fd7_d8f8_f66f);
        assert_eq!(ClientNet::new("2001:db8::".parse().unwrap(), 56, 0).hash(), 0xaff1_4142_5cb0_11b4);
    }
}
