//! DNS messages in wire form: parses queries and writes responses.

use fairway_model::Rtype;

mod edns;
mod name;
mod name_key;
mod query;
mod writer;

pub(crate) use edns::{CookieRange, Ecs, Edns};
pub(crate) use name::{ancestors, name_end, same_name};
pub(crate) use name_key::NameKey;
pub(crate) use query::{Query, Record, Refusal};
pub(crate) use writer::{Full, Opt, Section, Writer};

/// Octets of a message header (RFC 1035 section 4.1.1).
pub(crate) const HEADER: usize = 12;

/// Response codes (IANA "DNS RCODEs").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rcode(pub(crate) u16);

impl Rcode {
    pub(crate) const NOERROR: Self = Self(0);
    pub(crate) const FORMERR: Self = Self(1);
    pub(crate) const SERVFAIL: Self = Self(2);
    pub(crate) const NXDOMAIN: Self = Self(3);
    pub(crate) const NOTIMP: Self = Self(4);
    pub(crate) const REFUSED: Self = Self(5);
    pub(crate) const YXDOMAIN: Self = Self(6);
    pub(crate) const NOTAUTH: Self = Self(9);
    /// Extended code: its upper bits are in the OPT record (RFC 6891 section 6.1.3).
    pub(crate) const BADVERS: Self = Self(16);
    /// Extended code: the server's part of a cookie is not valid (RFC 7873 section 8).
    pub(crate) const BADCOOKIE: Self = Self(23);
}

/// Returns the octets before the first name and the number of names, for types whose RDATA may be compressed (RFC 3597
/// section 4: those of RFC 1035 only).
pub(crate) const fn compressible(rtype: Rtype) -> (usize, usize) {
    match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::MB | Rtype::MD | Rtype::MF | Rtype::MG | Rtype::MR => (0, 1),
        Rtype::MX => (2, 1),
        Rtype::SOA | Rtype::MINFO => (0, 2),
        _ => (0, 0),
    }
}

/// Returns the big-endian number at `at`. `None` past the end.
pub(crate) fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}
