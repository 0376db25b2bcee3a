//! Protocol and ports of WKS (RFC 1035 section 3.4.2). Only common port names are supported, because the type is obsolete.

use super::{
    codec::Malformed,
    time::read_number,
    words::{Words, refuse},
};
use crate::diagnostics::TextError;

const PROTOCOLS: &[(&str, u8)] = &[("icmp", 1), ("tcp", 6), ("udp", 17)];

const PORTS: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("domain", 53),
    ("tftp", 69),
    ("finger", 79),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("nntp", 119),
    ("ntp", 123),
    ("imap2", 143),
    ("imap", 143),
    ("snmp", 161),
    ("ldap", 389),
    ("https", 443),
];

/// Checks the length: a protocol, then at most one bit per port.
pub(super) fn check(rest: &[u8]) -> Result<(), Malformed> {
    match rest.len() {
        0 => Err("the protocol is missing"),
        1..=8193 => Ok(()),
        _ => Err("the map of ports is over 8192 octets"),
    }
}

pub(super) fn read(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let word = words.need("a protocol")?;
    let named = PROTOCOLS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word.text)).map(|(_, n)| *n);
    let protocol = named.or_else(|| read_number(word.text).and_then(|n| u8::try_from(n).ok()));
    words.out.push(protocol.ok_or_else(|| refuse(word, "TCP, UDP or a protocol number"))?);
    let start = words.out.len();
    while let Some(word) = words.next()? {
        let named = PORTS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word.text)).map(|(_, n)| *n);
        let port = named.or_else(|| read_number(word.text).and_then(|n| u16::try_from(n).ok()));
        let port = port.ok_or_else(|| refuse(word, "a port number"))?;
        let index = start + usize::from(port / 8);
        if words.out.len() <= index {
            words.out.resize(index + 1, 0);
        }
        words.out[index] |= 0x80 >> (port % 8);
    }
    Ok(())
}

pub(super) fn write(value: &[u8], out: &mut String) -> Option<()> {
    let (protocol, map) = value.split_first()?;
    out.push_str(&protocol.to_string());
    for (index, octet) in map.iter().enumerate() {
        for bit in (0..8).filter(|bit| octet & 0x80 >> bit != 0) {
            out.push_str(&format!(" {}", index * 8 + bit));
        }
    }
    // Text cannot express trailing zeros of the map; the form of RFC 3597 can.
    if map.last() == Some(&0) { None } else { Some(()) }
}
