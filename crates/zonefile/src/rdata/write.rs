//! Converts RDATA from wire form to presentation form.

use std::net::{Ipv4Addr, Ipv6Addr};

use fairway_model::{Name, Rtype};

use super::{
    codec::{self, write_octets},
    gateway, location, prefixes, services, svcb,
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
            codec::write_hex(rdata, &mut text);
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
        Field::CompressibleName | Field::Name => out.push_str(&Name::from_wire(value).ok()?.to_string()),
        Field::U8 | Field::U16 | Field::U32 | Field::U64 | Field::Seconds | Field::Code8(_) | Field::Code16(_) => {
            let number = value.iter().fold(0u64, |sum, octet| sum << 8 | u64::from(*octet));
            out.push_str(&number.to_string());
        }
        Field::Time => out.push_str(&write_time(u32::from_be_bytes(value.try_into().ok()?))),
        Field::Type => out.push_str(&Rtype(u16::from_be_bytes(value.try_into().ok()?)).to_string()),
        Field::TypeBitmap => write_bitmap(value, out),
        Field::Ipv4 => out.push_str(&Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).to_string()),
        Field::Ipv6 => out.push_str(&Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).to_string()),
        Field::String | Field::OptionalString | Field::Strings => write_strings(value, out)?,
        Field::Text => write_octets(value, out),
        Field::Tag => out.push_str(std::str::from_utf8(value.get(1..)?).ok()?),
        Field::Hex => codec::write_hex(value, out),
        Field::Base64 | Field::OptionalBase64 => codec::write_base64(value, out),
        Field::Salt if value.len() == 1 => out.push('-'),
        Field::Salt => codec::write_hex(&value[1..], out),
        Field::Hash => codec::write_base32hex(&value[1..], out),
        Field::Eui48 | Field::Eui64 => write_groups(value, 1, '-', out),
        Field::Locator64 => write_groups(value, 2, ':', out),
        Field::Nsap => {
            out.push_str("0x");
            codec::write_hex(value, out);
        }
        Field::Location => location::write(value, out)?,
        Field::Prefixes => prefixes::write(value, out)?,
        Field::Services => services::write(value, out)?,
        Field::Ipseckey => gateway::write_ipseckey(value, out)?,
        Field::Relay => gateway::write_relay(value, out)?,
        Field::Hip => gateway::write_hip(value, out)?,
        Field::Parameters => svcb::write(value, out)?,
    }
    Some(())
}

fn write_strings(mut value: &[u8], out: &mut String) -> Option<()> {
    let mut first = true;
    while let Some((length, tail)) = value.split_first() {
        let (string, rest) = tail.split_at_checked(usize::from(*length))?;
        if !first {
            out.push(' ');
        }
        first = false;
        write_octets(string, out);
        value = rest;
    }
    Some(())
}

fn write_bitmap(mut value: &[u8], out: &mut String) {
    let start = out.len();
    while let [window, length, tail @ ..] = value {
        let (bits, rest) = tail.split_at(tail.len().min(usize::from(*length)));
        for (index, octet) in bits.iter().enumerate() {
            for bit in (0..8u16).filter(|bit| octet & 0x80 >> bit != 0) {
                let low = u16::try_from(index * 8).map_or(0, |base| base + bit);
                if out.len() > start {
                    out.push(' ');
                }
                out.push_str(&Rtype(u16::from(*window) << 8 | low).to_string());
            }
        }
        value = rest;
    }
}

fn write_groups(value: &[u8], octets: usize, between: char, out: &mut String) {
    for (index, group) in value.chunks(octets).enumerate() {
        if index > 0 {
            out.push(between);
        }
        for octet in group {
            out.push_str(&format!("{octet:02x}"));
        }
    }
}
