//! Address blocks, and the prefix lengths of client networks.

use serde::{Deserialize, Serialize};

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// The prefix lengths of the client networks of a pool.
///
/// Default /24 and /56 (RFC 7871 section 11.1 names the same lengths). They depend on configuration only, never on
/// health, so that the ECS scopes of responses never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientPrefix {
    /// Prefix length of IPv4, 0 to 32; default 24.
    pub v4: u8,
    /// Prefix length of IPv6, 0 to 128; default 56.
    pub v6: u8,
}

impl Default for ClientPrefix {
    fn default() -> Self {
        Self { v4: 24, v6: 56 }
    }
}

/// An address block in canonical form: every bit past the length is zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

impl Network {
    /// Returns the block with this prefix length that contains `address`; a length over the family's width is cut to it.
    #[inline]
    pub fn of(address: IpAddr, length: u8) -> Self {
        match address {
            IpAddr::V4(a) => {
                let length = length.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Self { address: Ipv4Addr::from_bits(a.to_bits() & mask).into(), length }
            }
            IpAddr::V6(a) => {
                let length = length.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Self { address: Ipv6Addr::from_bits(a.to_bits() & mask).into(), length }
            }
        }
    }

    /// Returns the first address of the block.
    #[inline]
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the prefix length.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns true if the address is in the block.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Self::of(address, self.length) == self
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error of parsing an address block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Not of the form ADDRESS/LENGTH or ADDRESS.
    #[error("{0:?} is not an address block; write it like 10.0.0.0/8 or 2001:db8::/32")]
    Form(String),
    /// Bits past the length are set: the author may mean another block.
    #[error("{given} has bits set past its length; the block is {block}")]
    StrayBits {
        /// The text.
        given: String,
        /// The block that contains the address.
        block: Network,
    },
}

impl FromStr for Network {
    type Err = NetworkError;

    /// Parses `10.0.0.0/8`; a bare address is a block of one.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let form = || NetworkError::Form(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((a, l)) => (a, Some(l.parse::<u8>().map_err(|_| form())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(width);
        if length > width {
            return Err(form());
        }
        let block = Self::of(address, length);
        if block.address == address {
            Ok(block)
        } else {
            Err(NetworkError::StrayBits { given: text.to_owned(), block })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_past_the_length_are_cleared() {
        let block = Network::of("198.51.100.77".parse().unwrap(), 24);
        assert_eq!(block.to_string(), "198.51.100.0/24");
        assert!(block.contains("198.51.100.1".parse().unwrap()));
        assert!(!block.contains("198.51.101.1".parse().unwrap()));
    }

    #[test]
    fn length_zero_contains_the_whole_family() {
        assert!(Network::of("10.0.0.1".parse().unwrap(), 0).contains("203.0.113.1".parse().unwrap()));
        assert!(!Network::of("10.0.0.1".parse().unwrap(), 0).contains("::1".parse().unwrap()));
    }

    #[test]
    fn stray_bits_are_rejected_with_the_block_as_hint() {
        let error = "10.1.2.3/8".parse::<Network>().unwrap_err();
        assert_eq!(error.to_string(), "10.1.2.3/8 has bits set past its length; the block is 10.0.0.0/8");
    }
}
