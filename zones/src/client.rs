//! The client of a query, and the inputs of a decision that come from outside: time and draw.

use std::net::IpAddr;

/// Transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// One datagram each way. Responses are bounded by EDNS and by 1,232 octets.
    Udp,
    /// A stream. Responses are bounded by 65,535 octets.
    Tcp,
}

/// Sender of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Source address. IPv4-mapped IPv6 addresses are stored as IPv4.
    pub address: IpAddr,
    /// Source port. Queries from port 0 are never answered.
    pub port: u16,
    /// Transport of the query.
    pub transport: Transport,
}

impl Client {
    /// Returns the client at this address and port. An IPv4-mapped address becomes IPv4.
    #[inline]
    pub fn new(address: IpAddr, port: u16, transport: Transport) -> Self {
        Self { address: address.to_canonical(), port, transport }
    }
}

/// A message as a transport received it, with everything else of the query that an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Sender of the message.
    pub client: &'a Client,
    /// The message as received, without TCP's length field.
    pub packet: &'a [u8],
    /// Time of cookies, limits, challenges and samples for the query log. What is chosen for a name does not depend on it.
    pub now: Now,
    /// Draw for `spread: query`, and for the choice of queries that get a truncated answer.
    pub draw: Draw,
}

/// Seconds since 1970, read once per batch of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(pub u64);

/// A number that pools with `spread: query`, challenges and limited responses read. It is mixed before use, so consecutive numbers are good
/// enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw(pub u64);
