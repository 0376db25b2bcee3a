//! What counts as one client: the block of addresses that always gets the same answer.

use std::{fmt, net::IpAddr};

use fairway_model::Network;

use super::hash::{mix, seed};

/// The block of addresses a client is taken for: its network in the fixed partition of the pool's `clientPrefix`, or
/// everyone where the pool tells no clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNet(Network);

impl ClientNet {
    /// The block of `length` leading bits around an address.
    #[inline]
    pub(crate) fn new(address: IpAddr, length: u8) -> Self {
        Self(Network::of(address, length))
    }

    /// The block itself.
    pub fn network(self) -> Network {
        self.0
    }

    /// The part of the decision that depends on the client. The length is not in it: a finer partition leaves the
    /// first network of each old one where it was.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        match self.0.address() {
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
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let net = |text: &str| ClientNet::new(text.parse().unwrap(), 24);
        assert_eq!(net("198.51.100.1").hash(), net("198.51.100.200").hash());
        assert_ne!(net("198.51.100.1").hash(), net("198.51.101.1").hash());
    }

    #[test]
    fn the_hash_of_a_client_is_what_it_always_was() {
        assert_eq!(ClientNet::new("198.51.100.0".parse().unwrap(), 24).hash(), 0x096f_3fd7_d8f8_f66f);
        assert_eq!(ClientNet::new("2001:db8::".parse().unwrap(), 56).hash(), 0xaff1_4142_5cb0_11b4);
    }
}
