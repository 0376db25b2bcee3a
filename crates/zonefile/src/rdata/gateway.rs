//! IPSECKEY (RFC 4025), AMTRELAY (RFC 8777) and HIP (RFC 8005): fields whose form depends on a field before.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
};

use fairway_model::Name;

use super::{
    codec,
    source::{Source, refuse, refuse_because},
    table::Field,
    wire::{Malformed, name_length},
};
use crate::faults::Wrong;

/// Kind of a gateway: none, IPv4 address, IPv6 address, name (RFC 4025 section 2.3, RFC 8777 section 4.2.3).
const KIND_NAME: u8 = 3;

/// How many octets a gateway of this kind takes at the start of `rest`.
fn gateway_length(kind: u8, rest: &[u8]) -> Result<usize, Malformed> {
    let length = match kind {
        0 => 0,
        1 => 4,
        2 => 16,
        KIND_NAME => name_length(rest)?,
        _ => return Err("unknown gateway type; expected 0 to 3"),
    };
    if length > rest.len() { Err("the data ends inside the gateway") } else { Ok(length) }
}

fn read_gateway(source: &mut Source<'_, '_>, kind: u8) -> Result<(), Wrong> {
    match kind {
        1 => source.ipv4(),
        2 => source.ipv6(),
        KIND_NAME => source.name(),
        _ => {
            let word = source.need("a gateway")?;
            if kind == 0 && word.text == b"." { Ok(()) } else { Err(refuse(word, "a dot after gateway type 0")) }
        }
    }
}

fn write_gateway(kind: u8, gateway: &[u8], out: &mut String) -> Option<()> {
    match kind {
        0 => out.push('.'),
        1 => out.push_str(&Ipv4Addr::from(<[u8; 4]>::try_from(gateway).ok()?).to_string()),
        2 => out.push_str(&Ipv6Addr::from(<[u8; 16]>::try_from(gateway).ok()?).to_string()),
        _ => out.push_str(&Name::from_wire(gateway).ok()?.to_string()),
    }
    Some(())
}

/// The part of IPSECKEY after its precedence: kind, algorithm, gateway, key.
pub(super) fn check_ipseckey(rest: &[u8]) -> Result<(), Malformed> {
    let [kind, algorithm, rest @ ..] = rest else { return Err("the data ends before the gateway") };
    let key = rest.len() - gateway_length(*kind, rest)?;
    if (*algorithm == 0) == (key == 0) {
        Ok(())
    } else {
        Err("a key must follow if the algorithm is not 0, and none if it is 0")
    }
}

pub(super) fn read_ipseckey(source: &mut Source<'_, '_>) -> Result<(), Wrong> {
    let kind = source.octet()?;
    let algorithm = source.octet()?;
    source.out.extend_from_slice(&[kind, algorithm]);
    read_gateway(source, kind)?;
    let (at, key) = source.rest()?;
    codec::read_base64(&key, source.out).map_err(|what| Wrong::new(at, what, ""))
}

pub(super) fn write_ipseckey(value: &[u8], out: &mut String) -> Option<()> {
    let [kind, algorithm, rest @ ..] = value else { return None };
    let (gateway, key) = rest.split_at(gateway_length(*kind, rest).ok()?);
    out.push_str(&format!("{kind} {algorithm} "));
    write_gateway(*kind, gateway, out)?;
    if !key.is_empty() {
        out.push(' ');
        codec::write_base64(key, out);
    }
    Some(())
}

/// The part of AMTRELAY after its precedence: discovery bit and kind in one octet, relay.
pub(super) fn check_relay(rest: &[u8]) -> Result<(), Malformed> {
    let [kind, relay @ ..] = rest else { return Err("the data ends before the relay") };
    if gateway_length(kind & 0x7f, relay)? == relay.len() { Ok(()) } else { Err("unexpected octets after the relay") }
}

pub(super) fn read_relay(source: &mut Source<'_, '_>) -> Result<(), Wrong> {
    let discovery = source.number(1)?.to_le_bytes()[0];
    let kind = source.number(0x7f)?.to_le_bytes()[0];
    source.out.push(discovery << 7 | kind);
    read_gateway(source, kind)
}

pub(super) fn write_relay(value: &[u8], out: &mut String) -> Option<()> {
    let (kind, relay) = value.split_first()?;
    out.push_str(&format!("{} {} ", kind >> 7, kind & 0x7f));
    write_gateway(kind & 0x7f, relay, out)
}

/// The data of HIP (RFC 8005 section 5).
struct Hip<'a> {
    algorithm: u8,
    tag: &'a [u8],
    key: &'a [u8],
    /// Names of rendezvous servers, one after the other.
    servers: &'a [u8],
}

/// HIP on the wire: lengths of tag and key around the algorithm, then tag, key and names.
fn hip_parts(value: &[u8]) -> Result<Hip<'_>, Malformed> {
    const CUT: Malformed = "the data ends inside the key";
    let [tag_length, algorithm, high, low, rest @ ..] = value else { return Err(CUT) };
    let (tag, rest) = rest.split_at_checked(usize::from(*tag_length)).ok_or(CUT)?;
    let (key, servers) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low]))).ok_or(CUT)?;
    if tag.is_empty() || key.is_empty() {
        return Err("the host identity tag or the key is empty");
    }
    Ok(Hip { algorithm: *algorithm, tag, key, servers })
}

pub(super) fn check_hip(value: &[u8]) -> Result<(), Malformed> {
    let Hip { mut servers, .. } = hip_parts(value)?;
    while !servers.is_empty() {
        servers = &servers[name_length(servers)?..];
    }
    Ok(())
}

pub(super) fn read_hip(source: &mut Source<'_, '_>) -> Result<(), Wrong> {
    let start = source.out.len();
    let algorithm = source.octet()?;
    source.out.extend_from_slice(&[0, algorithm, 0, 0]);
    let word = source.need("a host identity tag in hexadecimal digits")?;
    codec::read_hex(word.text, source.out).map_err(|what| refuse_because(word, what))?;
    let tag = source.out.len() - start - 4;
    source.out[start] = u8::try_from(tag).map_err(|_| refuse(word, "a tag of at most 255 octets"))?;
    let word = source.need("a key in Base64")?;
    codec::read_base64(word.text, source.out).map_err(|what| refuse_because(word, what))?;
    let key = source.out.len() - start - 4 - tag;
    let key = u16::try_from(key).map_err(|_| refuse(word, "a key of at most 65535 octets"))?;
    source.out[start + 2..start + 4].copy_from_slice(&key.to_be_bytes());
    while source.more()? {
        source.name()?;
    }
    Ok(())
}

pub(super) fn write_hip(value: &[u8], out: &mut String) -> Option<()> {
    let Hip { algorithm, tag, key, mut servers } = hip_parts(value).ok()?;
    out.push_str(&format!("{algorithm} "));
    codec::write_hex(tag, out);
    out.push(' ');
    codec::write_base64(key, out);
    while !servers.is_empty() {
        let (name, rest) = servers.split_at(name_length(servers).ok()?);
        out.push(' ');
        out.push_str(&Name::from_wire(name).ok()?.to_string());
        servers = rest;
    }
    Some(())
}

/// Where names stand inside the value of one of these fields, which was checked.
pub(super) fn names(field: Field, value: &[u8]) -> Vec<Range<usize>> {
    let mut at = match (field, value) {
        (Field::Ipseckey, [KIND_NAME, _, ..]) => 2,
        (Field::Relay, [kind, ..]) if kind & 0x7f == KIND_NAME => 1,
        (Field::Hip, _) => hip_parts(value).map_or(value.len(), |hip| value.len() - hip.servers.len()),
        _ => value.len(),
    };
    let mut found = vec![];
    while let Some(length) = value.get(at..).filter(|rest| !rest.is_empty()).and_then(|rest| name_length(rest).ok()) {
        found.push(at..at + length);
        at += length;
        if field != Field::Hip {
            break;
        }
    }
    found
}
