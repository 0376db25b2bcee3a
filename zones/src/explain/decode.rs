//! Decodes a response for people. Bounded, and safe for any input, though the input is our own.

use fairway_model::{Name, Rtype, Ttl};
use fairway_zonefile::rdata_text;

use crate::wire::{compressible, u16_at};

/// A record in presentation form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRecord {
    /// Owner name.
    pub owner: Name,
    /// Type.
    pub rtype: Rtype,
    /// Time to live.
    pub ttl: Ttl,
    /// RDATA in presentation form.
    pub rdata: String,
}

/// A response in presentation form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Mnemonic of the response code.
    pub rcode: &'static str,
    /// AA flag.
    pub authoritative: bool,
    /// TC flag.
    pub truncated: bool,
    /// Answer section.
    pub answer: Vec<ExplainedRecord>,
    /// Authority section.
    pub authority: Vec<ExplainedRecord>,
    /// Additional section without OPT.
    pub additional: Vec<ExplainedRecord>,
    /// Scope of the client subnet option.
    pub scope: Option<u8>,
}

/// Decodes a response with one question. Returns `None` if it is malformed.
pub fn decode(message: &[u8]) -> Option<Decoded> {
    let mut at = 12;
    if u16_at(message, 4)? == 1 {
        at = name_at(message, at)?.1 + 4;
    }
    let mut decoded = Decoded {
        rcode: rcode_text(message[3] & 15),
        authoritative: message[2] & 0x04 != 0,
        truncated: message[2] & 0x02 != 0,
        answer: vec![],
        authority: vec![],
        additional: vec![],
        scope: None,
    };
    for (count_at, section) in [(6, 0), (8, 1), (10, 2)] {
        for _ in 0..u16_at(message, count_at)? {
            let (owner, end) = name_at(message, at)?;
            let (rtype, length) = (Rtype(u16_at(message, end)?), usize::from(u16_at(message, end + 8)?));
            let ttl = u32::from(u16_at(message, end + 4)?) << 16 | u32::from(u16_at(message, end + 6)?);
            at = end + 10 + length;
            if rtype == Rtype::OPT {
                decoded.scope = scope(message.get(end + 10..at)?);
                continue;
            }
            let rdata = expand(message, rtype, end + 10, at)?;
            let ttl = Ttl::from_secs(ttl).ok()?;
            let record = ExplainedRecord { owner, rtype, ttl, rdata: rdata_text(rtype, &rdata) };
            [&mut decoded.answer, &mut decoded.authority, &mut decoded.additional][section].push(record);
        }
    }
    (at == message.len()).then_some(decoded)
}

/// Returns RDATA with uncompressed names (only types of RFC 1035 may be compressed).
fn expand(message: &[u8], rtype: Rtype, start: usize, end: usize) -> Option<Vec<u8>> {
    let (prefix, names) = compressible(rtype);
    let mut at = start + prefix;
    let mut rdata = message.get(start..at)?.to_vec();
    for _ in 0..names {
        let (name, after) = name_at(message, at)?;
        rdata.extend_from_slice(name.as_wire());
        at = after;
    }
    rdata.extend_from_slice(message.get(at..end)?);
    Some(rdata)
}

/// Returns a name with its pointers followed, and its end. Each pointer must lead back, so the loop ends.
fn name_at(message: &[u8], start: usize) -> Option<(Name, usize)> {
    let mut wire = Vec::new();
    let (mut at, mut end, mut before) = (start, None, start);
    loop {
        let length = usize::from(*message.get(at)?);
        if length >= 0xc0 {
            let to = usize::from(u16_at(message, at)? & 0x3fff);
            end = end.or(Some(at + 2));
            if to >= before {
                return None;
            }
            (at, before) = (to, to);
            continue;
        }
        wire.extend_from_slice(message.get(at..=at + length)?);
        at += 1 + length;
        if length == 0 {
            return Some((Name::from_wire(&wire).ok()?, end.unwrap_or(at)));
        }
        if wire.len() > Name::OCTETS_MAX {
            return None;
        }
    }
}

/// Returns the scope of the client subnet from the options of an OPT record.
fn scope(mut options: &[u8]) -> Option<u8> {
    loop {
        let (code, length) = (u16_at(options, 0)?, usize::from(u16_at(options, 2)?));
        if code == 8 {
            return options.get(7).copied();
        }
        options = options.get(4 + length..)?;
    }
}

fn rcode_text(code: u8) -> &'static str {
    match code {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        6 => "YXDOMAIN",
        9 => "NOTAUTH",
        _ => "RESERVED",
    }
}
