//! EDNS: the OPT record of a query (RFC 6891) and the options that we support.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fairway_model::Network;

use super::{Opt, u16_at};

/// Contents of a query's OPT record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edns {
    /// UDP payload that the client accepts, as written.
    pub(crate) payload: u16,
    /// EDNS version; only 0 exists.
    pub(crate) version: u8,
    /// DNSSEC OK, copied into the response (RFC 3225).
    pub(crate) dnssec_ok: bool,
    /// The client asks for the server's identifier (RFC 5001).
    pub(crate) nsid: bool,
    /// The client asks for the idle time limit (RFC 7828).
    pub(crate) keepalive: bool,
    /// Client subnet (RFC 7871).
    pub(crate) ecs: Option<Ecs>,
}

/// A client subnet option (RFC 7871 section 6), as it is echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ecs {
    /// IANA address family: 1, 2, or 0 in an option without an address.
    pub(crate) family: u8,
    /// Prefix length of the source.
    pub(crate) source: u8,
    /// Address, with the bits behind the prefix zero.
    address: [u8; 16],
}

impl Ecs {
    /// Returns the address to steer by. `None` if the client does not want to be identified (source length 0).
    pub(crate) fn client(&self) -> Option<IpAddr> {
        let [a, b, c, d, ..] = self.address;
        match (self.source, self.family) {
            (0, _) => None,
            (_, 2) => Some(Ipv6Addr::from(self.address).into()),
            _ => Some(Ipv4Addr::new(a, b, c, d).into()),
        }
    }

    /// Returns the client's network. `None` if the client does not want to be identified.
    pub(crate) fn network(&self) -> Option<Network> {
        self.client().map(|address| Network::of(address, self.source))
    }

    /// Returns the octets of the address that its prefix needs.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.address[..usize::from(self.source).div_ceil(8)]
    }
}

/// The OPT record or one of its options is malformed: FORMERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdnsFault;

impl Edns {
    /// Parses the rest of a packet that is exactly one OPT record, as in most queries.
    #[inline(always)]
    pub(crate) fn alone(rest: &[u8]) -> Option<Result<Self, EdnsFault>> {
        let &[0, 0, 41, p0, p1, _, version, flags, _, l0, l1, ref options @ ..] = rest else { return None };
        if let ([], 0, 0, 0) = (options, version, l0, l1) {
            // The usual OPT, without options.
            return Some(Ok(Self {
                payload: u16::from_be_bytes([p0, p1]),
                dnssec_ok: flags & 0x80 != 0,
                ..Self::default()
            }));
        }
        let whole = usize::from(u16::from_be_bytes([l0, l1])) == options.len();
        whole.then(|| Self::read(u16::from_be_bytes([p0, p1]), version, flags, options))
    }

    /// True if its response has no option but the client subnet.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        !self.nsid && !self.keepalive
    }

    /// Returns the octets of a response OPT with no option but the client subnet.
    #[inline]
    pub(crate) fn usual_length(&self) -> usize {
        Opt::BARE + self.ecs.as_ref().map_or(0, |ecs| 8 + ecs.octets().len())
    }

    /// Parses the fixed part (the class and TTL fields) and the options. Skips unknown options.
    #[inline]
    pub(crate) fn read(payload: u16, version: u8, flags: u8, rdata: &[u8]) -> Result<Self, EdnsFault> {
        let mut edns = Self { payload, version, dnssec_ok: flags & 0x80 != 0, ..Self::default() };
        if version != 0 {
            return Ok(edns); // BADVERS: options of later versions are unknown.
        }
        let mut rest = rdata;
        while !rest.is_empty() {
            let (code, length) = (u16_at(rest, 0).ok_or(EdnsFault)?, u16_at(rest, 2).ok_or(EdnsFault)?);
            let end = 4 + usize::from(length);
            let data = rest.get(4..end).ok_or(EdnsFault)?;
            rest = &rest[end..];
            match code {
                NSID => edns.nsid = true,
                KEEPALIVE => edns.keepalive = true,
                ECS if edns.ecs.is_some() => return Err(EdnsFault),
                ECS => edns.ecs = Some(read_ecs(data)?),
                _ => {}
            }
        }
        Ok(edns)
    }
}

/// Parses a client subnet. In a query the scope is 0, and the address has no octets or bits behind the prefix (RFC 7871
/// section 6).
fn read_ecs(data: &[u8]) -> Result<Ecs, EdnsFault> {
    let [f0, f1, source, scope, octets @ ..] = data else { return Err(EdnsFault) };
    let (family, source) = (*f1, *source);
    let width = match (f0, f1) {
        (0, 0) => 0,
        (0, 1) => 32,
        (0, 2) => 128,
        _ => return Err(EdnsFault),
    };
    if *scope != 0 || source > width || octets.len() != usize::from(source).div_ceil(8) {
        return Err(EdnsFault);
    }
    if let (Some(last), used @ 1..) = (octets.last(), source % 8)
        && last << used != 0
    {
        return Err(EdnsFault);
    }
    let mut full = [0; 16];
    full.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
    Ok(Ecs { family, source, address: full })
}

/// Option codes (IANA "DNS EDNS0 Option Codes").
pub(super) const NSID: u16 = 3;
pub(super) const ECS: u16 = 8;
pub(super) const KEEPALIVE: u16 = 11;
pub(super) const EXTENDED_ERROR: u16 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn ecs(data: &[u8]) -> Result<Ecs, EdnsFault> {
        read_ecs(data)
    }

    #[test]
    fn valid_subnet_is_parsed() {
        let read = ecs(&[0, 1, 24, 0, 192, 0, 2]).unwrap();
        assert_eq!((read.source, read.client()), (24, Some("192.0.2.0".parse().unwrap())));
        assert_eq!(ecs(&[0, 1, 0, 0]).unwrap().client(), None);
        assert_eq!(ecs(&[0, 0, 0, 0]).unwrap().client(), None);
    }

    #[test]
    fn malformed_subnet_is_rejected() {
        let broken: [&[u8]; 8] = [
            &[0, 1, 24],                     // cut off
            &[0, 1, 24, 24, 192, 0, 2],      // scope in a query
            &[0, 1, 24, 0, 192, 0, 2, 0],    // too many octets
            &[0, 1, 24, 0, 192, 0],          // too few
            &[0, 1, 20, 0, 192, 0, 0x2f],    // bits past the length
            &[0, 1, 33, 0, 192, 0, 2, 0, 0], // longer than the family
            &[0, 3, 8, 0, 1],                // unknown family
            &[0, 0, 8, 0, 1],                // family 0 with an address
        ];
        for data in broken {
            assert_eq!(ecs(data), Err(EdnsFault), "{data:?}");
        }
    }

    #[test]
    fn option_past_end_is_rejected_and_unknown_option_skipped() {
        assert_eq!(Edns::read(1232, 0, 0, &[0, 3, 0, 4, 1]), Err(EdnsFault));
        assert_eq!(Edns::read(1232, 0, 0, &[0, 3, 0]), Err(EdnsFault));
        assert!(Edns::read(1232, 0, 0, &[0xff, 0, 0, 1, 9, 0, 3, 0, 0]).unwrap().nsid);
    }

    #[test]
    fn second_subnet_is_rejected() {
        let one = [0, 8, 0, 4, 0, 1, 0, 0];
        assert_eq!(Edns::read(1232, 0, 0, &[one, one].concat()), Err(EdnsFault));
    }
}
