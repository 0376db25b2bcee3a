//! IPSECKEY (RFC 4025), AMTRELAY (RFC 8777) and HIP (RFC 8005): the format of some fields depends on an earlier field.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
};

use fairway_model::Name;

use super::{
    codec::{self, Malformed},
    name::name_length,
    table::Field,
    words::{Words, refuse, refuse_because},
};
use crate::diagnostics::TextError;

/// Gateway type "name"; 0 is none, 1 an IPv4 address, 2 an IPv6 address (RFC 4025 section 2.3, RFC 8777 section 4.2.3).
const KIND_NAME: u8 = 3;

/// Returns the length of a gateway of this type at the start of `rest`.
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

fn read_gateway(words: &mut Words<'_, '_>, kind: u8) -> Result<(), TextError> {
    match kind {
        1 => words.ipv4(),
        2 => words.ipv6(),
        KIND_NAME => words.name(),
        _ => {
            let word = words.need("a gateway")?;
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

/// Checks IPSECKEY after its precedence: gateway type, algorithm, gateway, key.
pub(super) fn check_ipseckey(rest: &[u8]) -> Result<(), Malformed> {
    let [kind, algorithm, rest @ ..] = rest else { return Err("the data ends before the gateway") };
    let key = rest.len() - gateway_length(*kind, rest)?;
    if (*algorithm == 0) == (key == 0) {
        Ok(())
    } else {
        Err("a key must follow if the algorithm is not 0, and none if it is 0")
    }
}

pub(super) fn read_ipseckey(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let kind = words.octet()?;
    let algorithm = words.octet()?;
    words.out.extend_from_slice(&[kind, algorithm]);
    read_gateway(words, kind)?;
    let (at, key) = words.rest()?;
    codec::read_base64(&key, words.out).map_err(|fact| TextError::new(at, fact, ""))
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

/// Checks AMTRELAY after its precedence: discovery bit and relay type in one octet, relay.
pub(super) fn check_relay(rest: &[u8]) -> Result<(), Malformed> {
    let [kind, relay @ ..] = rest else { return Err("the data ends before the relay") };
    if gateway_length(kind & 0x7f, relay)? == relay.len() { Ok(()) } else { Err("unexpected octets after the relay") }
}

pub(super) fn read_relay(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let discovery = words.number(1)?.to_le_bytes()[0];
    let kind = words.number(0x7f)?.to_le_bytes()[0];
    words.out.push(discovery << 7 | kind);
    read_gateway(words, kind)
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
    /// Names of the rendezvous servers, concatenated.
    servers: &'a [u8],
}

/// Splits HIP in wire form: length of the tag, algorithm, length of the key, then tag, key and names.
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

pub(super) fn read_hip(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let start = words.out.len();
    let algorithm = words.octet()?;
    words.out.extend_from_slice(&[0, algorithm, 0, 0]);
    let word = words.need("a host identity tag in hexadecimal digits")?;
    codec::read_hex(word.text, words.out).map_err(|fact| refuse_because(word, fact))?;
    let tag = words.out.len() - start - 4;
    words.out[start] = u8::try_from(tag).map_err(|_| refuse(word, "a tag of at most 255 octets"))?;
    let word = words.need("a key in Base64")?;
    codec::read_base64(word.text, words.out).map_err(|fact| refuse_because(word, fact))?;
    let key = words.out.len() - start - 4 - tag;
    let key = u16::try_from(key).map_err(|_| refuse(word, "a key of at most 65535 octets"))?;
    words.out[start + 2..start + 4].copy_from_slice(&key.to_be_bytes());
    while words.has_next()? {
        words.name()?;
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

/// Returns the positions of the names in the value of one of these fields, which was checked.
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
