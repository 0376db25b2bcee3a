//! Converts RDATA from wire form to presentation form.

use std::{
    fmt::Display,
    net::{Ipv4Addr, Ipv6Addr},
};

use data_encoding::{BASE32HEX_NOPAD, BASE64, HEXLOWER, HEXUPPER};
use fairway_model::{Name, Rtype};

use super::{
    codec::write_octets,
    host_identity, location, ports, prefix, svcb,
    table::{Field, fields},
    time::write_time,
    wire,
};

/// Returns the presentation form of RDATA. Unknown types and malformed data are written in the form of RFC 3597, so that reading the text
/// always gives the same octets.
pub fn rdata_text(rtype: Rtype, rdata: &[u8]) -> String {
    known_text(rtype, rdata).unwrap_or_else(|| {
        let mut text = format!("\\# {}", rdata.len());
        if !rdata.is_empty() {
            text.push(' ');
            HEXUPPER.encode_append(rdata, &mut text);
        }
        text
    })
}

fn known_text(rtype: Rtype, rdata: &[u8]) -> Option<String> {
    fields(rtype)?;
    wire::check(rtype, rdata).ok()?;
    let mut text = String::new();
    let mut complete = true;
    wire::walk(rtype, rdata, |field, _, value| {
        let before = text.len();
        if before > 0 {
            text.push(' ');
        }
        let start = text.len();
        complete &= write(field, value, &mut text).is_some();
        if text.len() == start {
            text.truncate(before);
        }
    })
    .ok()?;
    complete.then_some(text)
}

fn write(field: Field, value: &[u8], out: &mut String) -> Option<()> {
    match field {
        Field::Name | Field::Names => out.push_str(&Name::from_wire(value).ok()?.to_string()),
        Field::U8 | Field::U16 | Field::U32 | Field::U64 | Field::Seconds | Field::Code8(_) | Field::Code16(_) => {
            let number = value.iter().fold(0u64, |sum, octet| sum << 8 | u64::from(*octet));
            out.push_str(&number.to_string());
        }
        Field::Time => out.push_str(&write_time(u32::from_be_bytes(value.try_into().ok()?))),
        Field::Type => out.push_str(&Rtype(u16::from_be_bytes(value.try_into().ok()?)).to_string()),
        Field::TypeBitmap => write_joined(types(value), " ", out),
        Field::Ipv4 => out.push_str(&Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).to_string()),
        Field::Ipv6 => out.push_str(&Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).to_string()),
        Field::String | Field::OptionalString | Field::Strings => write_octets(&value[1..], out),
        Field::Text => write_octets(value, out),
        Field::Tag => out.push_str(std::str::from_utf8(value.get(1..)?).ok()?),
        Field::Hex => HEXUPPER.encode_append(value, out),
        Field::Base64 | Field::OptionalBase64 => BASE64.encode_append(value, out),
        Field::Salt if value.len() == 1 => out.push('-'),
        Field::Salt => HEXUPPER.encode_append(&value[1..], out),
        Field::Hash => BASE32HEX_NOPAD.encode_append(&value[1..], out),
        Field::Eui48 | Field::Eui64 => write_joined(value.chunks(1).map(|group| HEXLOWER.encode(group)), "-", out),
        Field::Locator64 => write_joined(value.chunks(2).map(|group| HEXLOWER.encode(group)), ":", out),
        Field::Nsap => {
            out.push_str("0x");
            HEXUPPER.encode_append(value, out);
        }
        Field::Location => location::write(value, out)?,
        Field::Prefixes => prefix::write(value, out)?,
        Field::Ports => ports::write(value, out)?,
        Field::RelayType => out.push_str(&format!("{} {}", value[0] >> 7, value[0] & 0x7f)),
        Field::NoGateway => out.push('.'),
        Field::Gateway(_) => return None,
        Field::HostIdentity => host_identity::write(value, out)?,
        Field::Parameters => svcb::write(value, out)?,
    }
    Some(())
}

/// Writes items with a text between them.
pub(super) fn write_joined(items: impl Iterator<Item = impl Display>, between: &str, out: &mut String) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(between);
        }
        out.push_str(&item.to_string());
    }
}

/// Returns the types of a bitmap, which was checked.
fn types(value: &[u8]) -> impl Iterator<Item = Rtype> {
    let mut rest = value;
    let windows = std::iter::from_fn(move || {
        let (head, tail) = rest.split_at_checked(2)?;
        let (map, after) = tail.split_at_checked(usize::from(head[1]))?;
        rest = after;
        Some((u16::from(head[0]) << 8, map))
    });
    windows.flat_map(|(window, map)| bits(map).map(move |bit| Rtype(window | bit)))
}

/// Returns the numbers of the set bits of a map, from its most significant bit.
pub(super) fn bits(map: &[u8]) -> impl Iterator<Item = u16> {
    (0..=u16::MAX)
        .zip(map.iter().flat_map(|octet| (0..8).map(move |bit| octet & 0x80 >> bit != 0)))
        .filter_map(|(number, is_set)| is_set.then_some(number))
}
