//! The unit that counts as one client: a block of addresses that always gets the same answer.

use std::{fmt, net::IpAddr};

use fairway_model::{Network, mix};

use crate::hash::seed;

/// A block of client addresses, from the pool's client partition and its `clientPrefix`. All addresses if the pool does
/// not distinguish clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNet {
    network: Network,
    class: u16,
}

/// Location class of a client, and the parts of the address that decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationClass {
    /// Block of the client in the pool's partition. `None` if there is one class.
    pub block: Option<Network>,
    /// Number of the class.
    pub class: u16,
    /// Number of classes of the pool.
    pub classes: u16,
    /// Bits of `clientPrefix`; 0 if the choice does not depend on the client.
    pub prefix: u8,
}

impl ClientNet {
    /// Returns the block of `length` leading bits around an address, in a location class.
    #[inline]
    pub(crate) fn new(address: IpAddr, length: u8, class: u16) -> Self {
        Self { network: Network::of(address, length), class }
    }

    /// Returns the block.
    pub fn network(self) -> Network {
        self.network
    }

    /// Returns the ECS scope: the length of the block.
    #[inline]
    pub fn scope(self) -> u8 {
        self.network.length()
    }

    /// Returns the location class of the block.
    #[inline]
    pub fn class(self) -> u16 {
        self.class
    }

    /// Returns the hash of the client. It omits the length, so that in a finer partition the first block keeps its
    /// hash.
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
    fn client_hash_is_pinned() {
        assert_eq!(ClientNet::new("198.51.100.0".parse().unwrap(), 24, 0).hash(), 0x096f_3fd7_d8f8_f66f);
        assert_eq!(ClientNet::new("2001:db8::".parse().unwrap(), 56, 0).hash(), 0xaff1_4142_5cb0_11b4);
    }
}
