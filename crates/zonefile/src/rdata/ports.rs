//! The ports of WKS, a map with one bit per port (RFC 1035 section 3.4.2). Only common port names are supported, because the type is obsolete.

use super::{
    codec::Malformed,
    table::Mnemonics,
    words::{Words, read_code, refuse},
    write::{bits, write_joined},
};
use crate::diagnostics::TextError;

const PORTS: Mnemonics = &[
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

/// Checks that the map has at most one bit per port.
pub(super) fn check(map: &[u8]) -> Result<(), Malformed> {
    if map.len() > 8192 { Err("the map of ports is over 8192 octets") } else { Ok(()) }
}

pub(super) fn read(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let start = words.out.len();
    while let Some(word) = words.next()? {
        let port = read_code(word.text, PORTS).and_then(|n| u16::try_from(n).ok());
        let port = port.ok_or_else(|| refuse(word, "a port number"))?;
        let index = start + usize::from(port / 8);
        if words.out.len() <= index {
            words.out.resize(index + 1, 0);
        }
        words.out[index] |= 0x80 >> (port % 8);
    }
    Ok(())
}

pub(super) fn write(map: &[u8], out: &mut String) -> Option<()> {
    write_joined(bits(map), " ", out);
    // Text cannot express trailing zeros of the map; the form of RFC 3597 can.
    if map.last() == Some(&0) { None } else { Some(()) }
}
