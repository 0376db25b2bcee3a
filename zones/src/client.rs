//! Who asks, over what, and the two things that come from outside a decision: the time and the draw.

use std::net::IpAddr;

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// One datagram each way; answers are bounded by EDNS and by 1232 octets.
    Udp,
    /// A stream; answers are bounded by 65535 octets.
    Tcp,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Source address; IPv4-mapped IPv6 addresses are given as IPv4.
    pub address: IpAddr,
    /// Source port; 0 is never answered.
    pub port: u16,
    /// How the query came.
    pub transport: Transport,
}

impl Client {
    /// A client at this address and port, an IPv4-mapped address taken as IPv4.
    #[inline]
    pub fn new(address: IpAddr, port: u16, transport: Transport) -> Self {
        Self { address: address.to_canonical(), port, transport }
    }
}

/// A message as a transport received it, and all else of the query that an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Sender of the message.
    pub client: &'a Client,
    /// The message as received, without TCP's length field.
    pub packet: &'a [u8],
    /// Time of the sample that query logs take; no answer depends on it.
    pub now: Now,
    /// The draw for pools with `spread: query`.
    pub draw: Draw,
}

/// Seconds since 1970, coarse: read once a batch, not once a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(pub u64);

/// A number for pools that draw per query (`spread: query`); nothing else reads it. It is mixed before it is used: that no two queries
/// have the same is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw(pub u64);
