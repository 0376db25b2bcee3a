//! Splits RDATA in wire form into the fields of the table, and checks it.
//!
//! All rules about the data are here, so that they hold for every origin of the data: presentation form, the form of RFC 3597, or a source
//! of wire form.

use fairway_model::Rtype;

use super::{
    codec::Malformed,
    host_identity, location,
    name::name_length,
    ports, prefix, svcb,
    table::{Field, fields},
};

const ENDS_EARLY: Malformed = "the data ends inside a field";
const SURPLUS: Malformed = "unexpected octets after the last field";

/// Calls `visit` for each field of `rdata` with its offset; for lists, with each item. Does nothing for types that are not in the table.
pub(super) fn walk<'a>(
    rtype: Rtype,
    rdata: &'a [u8],
    mut visit: impl FnMut(Field, usize, &'a [u8]),
) -> Result<(), Malformed> {
    let Some(fields) = fields(rtype) else { return Ok(()) };
    let mut at = 0;
    let mut step = |field: Field, at: &mut usize| -> Result<(), Malformed> {
        let (before, rest) = rdata.split_at(*at);
        let field = field.resolved(before);
        let value = rest.get(..length(field, rest)?).ok_or(ENDS_EARLY)?;
        visit(field, *at, value);
        *at += value.len();
        Ok(())
    };
    for &field in fields {
        if !field.is_optional() || at < rdata.len() {
            step(field, &mut at)?;
        }
        while field.is_list() && at < rdata.len() {
            step(field, &mut at)?;
        }
    }
    if at == rdata.len() { Ok(()) } else { Err(SURPLUS) }
}

/// Checks that `rdata` is well-formed RDATA of its type: all fields exist and nothing follows the last. Accepts unknown types.
pub(crate) fn check(rtype: Rtype, rdata: &[u8]) -> Result<(), Malformed> {
    if rdata.len() > usize::from(u16::MAX) {
        return Err("the data is over 65535 octets");
    }
    let mut last: &[u8] = &[];
    walk(rtype, rdata, |_, _, value| last = value)?;
    check_digest(rtype, rdata)?;
    match rtype {
        Rtype::NSEC if last.is_empty() => Err("NSEC lists no type"),
        Rtype::KEY if rdata[0] & 0xc0 != 0xc0 && last.is_empty() => Err("the key is missing"),
        Rtype::IPSECKEY if (rdata[2] == 0) != last.is_empty() => {
            Err("a key must follow if the algorithm is not 0, and none if it is 0")
        }
        Rtype::X25 if last.len() < 5 || !last[1..].iter().all(u8::is_ascii_digit) => {
            Err("an X.25 address has at least 4 characters, all digits (RFC 1183 section 3.1)")
        }
        _ => Ok(()),
    }
}

/// Checks that a digest has the length of its type. `rdata` was walked, so its fixed fields exist.
fn check_digest(rtype: Rtype, rdata: &[u8]) -> Result<(), Malformed> {
    let (digest, expected) = match rtype {
        // Digest type 0 is a request to delete (RFC 8078 section 4).
        Rtype::DS | Rtype::CDS | Rtype::DLV | Rtype::TA => {
            (&rdata[4..], [(1, 20), (2, 32), (3, 32), (4, 48)].iter().find(|(kind, _)| *kind == rdata[3]))
        }
        Rtype::SSHFP => (&rdata[2..], [(1, 20), (2, 32)].iter().find(|(kind, _)| *kind == rdata[1])),
        // Only the scheme SIMPLE is defined (RFC 8976 section 2.2.2).
        Rtype::ZONEMD if rdata.len() < 6 + 12 => return Err("a ZONEMD digest has at least 12 octets"),
        Rtype::ZONEMD if rdata[4] == 1 => (&rdata[6..], [(1, 48), (2, 64)].iter().find(|(kind, _)| *kind == rdata[5])),
        _ => return Ok(()),
    };
    match expected {
        Some((_, length)) if digest.len() != *length => Err("the length of the digest does not match its type"),
        _ => Ok(()),
    }
}

/// Returns the length of `field` at the start of `rest`, and checks its content. The length may exceed `rest`.
fn length(field: Field, rest: &[u8]) -> Result<usize, Malformed> {
    let all = rest.len();
    Ok(match field {
        Field::Name | Field::Names => name_length(rest)?,
        Field::NoGateway => 0,
        Field::U8 | Field::Code8(_) | Field::RelayType => 1,
        Field::U16 | Field::Code16(_) | Field::Type => 2,
        Field::U32 | Field::Seconds | Field::Time | Field::Ipv4 => 4,
        Field::Eui48 => 6,
        Field::U64 | Field::Eui64 | Field::Locator64 => 8,
        Field::Ipv6 => 16,
        Field::String | Field::OptionalString | Field::Strings | Field::Salt => {
            1 + usize::from(*rest.first().ok_or(ENDS_EARLY)?)
        }
        Field::Tag => tag_length(rest)?,
        Field::Hash => match *rest.first().ok_or(ENDS_EARLY)? {
            0 => return Err("the hash is empty"),
            octets => 1 + usize::from(octets),
        },
        Field::Hex | Field::Base64 | Field::Nsap if rest.is_empty() => return Err(ENDS_EARLY),
        Field::Text | Field::OptionalBase64 | Field::Hex | Field::Base64 | Field::Nsap => all,
        Field::TypeBitmap => check_bitmap(rest).map(|()| all)?,
        Field::Location => location::check(rest)?,
        Field::Prefixes => prefix::length(rest)?,
        Field::Ports => ports::check(rest).map(|()| all)?,
        Field::HostIdentity => host_identity::length(rest)?,
        Field::Parameters => svcb::check(rest).map(|()| all)?,
        Field::Gateway(_) => return Err("unknown gateway type; expected 0 to 3"),
    })
}

fn tag_length(rest: &[u8]) -> Result<usize, Malformed> {
    let length = usize::from(*rest.first().ok_or(ENDS_EARLY)?);
    let tag = rest.get(1..=length).ok_or(ENDS_EARLY)?;
    if tag.is_empty() || !tag.iter().all(u8::is_ascii_alphanumeric) {
        return Err("a tag is letters and digits, at least one (RFC 8659 section 4.1)");
    }
    Ok(1 + length)
}

/// Checks that window blocks ascend, have 1 to 32 octets, and do not end in 0 (RFC 4034 section 4.1.2).
fn check_bitmap(mut rest: &[u8]) -> Result<(), Malformed> {
    let mut next = 0;
    while let [window, length, tail @ ..] = rest {
        let bits = tail.get(..usize::from(*length)).ok_or("the type bitmap is truncated")?;
        if u16::from(*window) < next || !(1..=32).contains(length) || bits.last() == Some(&0) {
            return Err("the type bitmap is not in the form of RFC 4034 section 4.1.2");
        }
        next = u16::from(*window) + 1;
        rest = &tail[bits.len()..];
    }
    if rest.is_empty() { Ok(()) } else { Err("the type bitmap is truncated") }
}
