//! EDNS: the OPT record of a query (RFC 6891) and the options that we support.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fairway_model::Network;

use super::{Opt, u16_at};
use crate::cookie::QueryCookie;

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
    /// Cookie (RFC 7873).
    pub(crate) cookie: Option<CookieRange>,
    /// An option is malformed: FORMERR, with OPT (RFC 6891 section 7: without, resolvers conclude that the server does
    /// not know EDNS).
    pub(crate) malformed: Option<Malformed>,
}

/// Option that makes a query malformed. A client subnet takes precedence over a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Malformed {
    /// The cookie, which is ignored if cookies are off.
    Cookie,
    /// The client subnet; it may also be repeated.
    Subnet,
}

/// The octets after the fixed part of an OPT record are no options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsound;

/// The octets of a cookie option in its packet. Few queries have one, and the others must not carry space for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CookieRange {
    start: u16,
    /// 8 to 40.
    length: u8,
}

impl CookieRange {
    /// Returns the range of the data of a cookie option, which begins at `start` in its packet. `None` if it is malformed.
    #[cold]
    fn read(data: &[u8], start: usize) -> Option<Self> {
        QueryCookie::read(data).map(|_| Self { start: start as u16, length: data.len() as u8 })
    }

    /// Returns the octets in the packet.
    pub(crate) fn of(self, packet: &[u8]) -> &[u8] {
        &packet[usize::from(self.start)..][..usize::from(self.length)]
    }
}

/// A client subnet option (RFC 7871 section 6), as it is echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ecs {
    /// IANA address family: 1, 2, or 0 in an option without an address.
    pub(crate) family: u8,
    /// Prefix length of the source.
    pub(crate) source: u8,
    /// Address, with the bits after the prefix zero.
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

    /// Returns the whole address; one of IPv4 is at the beginning.
    #[inline]
    pub(crate) fn address(&self) -> &[u8; 16] {
        &self.address
    }

    /// Returns the octets of the address that its prefix needs.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.address[..usize::from(self.source).div_ceil(8)]
    }
}

impl Edns {
    /// Parses the rest of a packet, which begins at `start` there, if it is exactly one OPT record, as in most queries. `None` if it
    /// is not; then nothing is written.
    #[inline(always)]
    pub(crate) fn alone(rest: &[u8], start: usize, edns: &mut Option<Self>) -> Option<Result<(), Unsound>> {
        let &[0, 0, 41, p0, p1, _, version, flags, _, l0, l1, ref options @ ..] = rest else { return None };
        if usize::from(u16::from_be_bytes([l0, l1])) != options.len() {
            return None;
        }
        let payload = u16::from_be_bytes([p0, p1]);
        let edns = edns.insert(Self { payload, version, dnssec_ok: flags & 0x80 != 0, ..Self::default() });
        // The usual OPT has no options.
        Some(if options.is_empty() { Ok(()) } else { edns.read_options(options, start + Opt::BARE) })
    }

    /// True if the client subnet is malformed or repeated.
    #[inline]
    pub(crate) fn has_malformed_subnet(&self) -> bool {
        self.malformed == Some(Malformed::Subnet)
    }

    /// True if the cookie is the only malformed option.
    #[inline]
    pub(crate) fn has_malformed_cookie(&self) -> bool {
        self.malformed == Some(Malformed::Cookie)
    }

    /// True if its response has no option but the client subnet.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        !self.nsid && !self.keepalive && self.cookie.is_none()
    }

    /// Returns the octets of a response OPT with no option but the client subnet.
    #[inline]
    pub(crate) fn usual_length(&self) -> usize {
        Opt::BARE + self.ecs.as_ref().map_or(0, |ecs| 8 + ecs.octets().len())
    }

    /// Parses the fixed part (the class and TTL fields) and the options, which begin at `start` in their packet. `None` if the octets
    /// are no options.
    pub(crate) fn read(payload: u16, version: u8, flags: u8, options: &[u8], start: usize) -> Option<Self> {
        let mut edns = Self { payload, version, dnssec_ok: flags & 0x80 != 0, ..Self::default() };
        edns.read_options(options, start).ok().map(|()| edns)
    }

    /// Parses the options, which begin at `start` in their packet. Skips unknown ones. In place, since copies cost more than the options.
    #[inline]
    fn read_options(&mut self, options: &[u8], start: usize) -> Result<(), Unsound> {
        if self.version != 0 {
            return Ok(()); // BADVERS: options of later versions are unknown.
        }
        let mut rest = options;
        while !rest.is_empty() {
            let (code, length) = (u16_at(rest, 0).ok_or(Unsound)?, u16_at(rest, 2).ok_or(Unsound)?);
            let end = 4 + usize::from(length);
            let data = rest.get(4..end).ok_or(Unsound)?;
            rest = &rest[end..];
            match code {
                NSID => self.nsid = true,
                KEEPALIVE => self.keepalive = true,
                ECS if self.ecs.is_some() => self.malformed = Some(Malformed::Subnet),
                ECS => match read_ecs(data) {
                    None => self.malformed = Some(Malformed::Subnet),
                    ecs => self.ecs = ecs,
                },
                // Only the first one counts (RFC 7873 section 5.2).
                COOKIE if self.cookie.is_none() => {
                    self.cookie = CookieRange::read(data, start + options.len() - rest.len() - data.len());
                    if self.cookie.is_none() {
                        self.malformed = self.malformed.max(Some(Malformed::Cookie));
                    }
                }
                _ => {}
            }
        }
        if self.has_malformed_subnet() {
            self.ecs = None;
        }
        Ok(())
    }
}

/// Parses a client subnet. In a query the scope is 0, and the address has no octets or bits after the prefix (RFC 7871
/// section 6).
fn read_ecs(data: &[u8]) -> Option<Ecs> {
    let [f0, f1, source, scope, octets @ ..] = data else { return None };
    let (family, source) = (*f1, *source);
    let width = match (f0, f1) {
        (0, 0) => 0,
        (0, 1) => 32,
        (0, 2) => 128,
        _ => return None,
    };
    if *scope != 0 || source > width || octets.len() != usize::from(source).div_ceil(8) {
        return None;
    }
    if let (Some(last), used @ 1..) = (octets.last(), source % 8)
        && last << used != 0
    {
        return None;
    }
    // At most 16 octets. Shifted in, since a copy of so few by `memcpy` takes longer.
    let number = octets.iter().fold(0_u128, |number, octet| number << 8 | u128::from(*octet));
    let address = number.unbounded_shl(128 - 8 * octets.len() as u32).to_be_bytes();
    Some(Ecs { family, source, address })
}

/// Option codes (IANA "DNS EDNS0 Option Codes").
pub(super) const NSID: u16 = 3;
pub(super) const ECS: u16 = 8;
pub(super) const COOKIE: u16 = 10;
pub(super) const KEEPALIVE: u16 = 11;
pub(super) const EXTENDED_ERROR: u16 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn ecs(data: &[u8]) -> Option<Ecs> {
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
            assert_eq!(ecs(data), None, "{data:?}");
        }
    }

    #[test]
    fn option_past_end_is_rejected_and_unknown_option_skipped() {
        assert_eq!(Edns::read(1232, 0, 0, &[0, 3, 0, 4, 1], 0), None);
        assert_eq!(Edns::read(1232, 0, 0, &[0, 3, 0], 0), None);
        assert!(Edns::read(1232, 0, 0, &[0xff, 0, 0, 1, 9, 0, 3, 0, 0], 0).unwrap().nsid);
    }

    #[test]
    fn second_subnet_is_rejected_and_rest_of_record_kept() {
        let (one, nsid) = ([0, 8, 0, 4, 0, 1, 0, 0], [0, 3, 0, 0]);
        let kept =
            Edns { payload: 1232, dnssec_ok: true, nsid: true, malformed: Some(Malformed::Subnet), ..Edns::default() };
        assert_eq!(Edns::read(1232, 0, 0x80, &[&one[..], &one, &nsid].concat(), 0), Some(kept));
        assert_eq!(Edns::read(1232, 0, 0x80, &[&one[..], &one, &[0]].concat(), 0), None);
    }
}
