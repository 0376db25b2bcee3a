//! APL: a list of address prefixes (RFC 3123). Address families other than IP have only the form of RFC 3597.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{
    codec::Malformed,
    time::read_number,
    words::{Words, read_ipv4, read_ipv6, refuse},
};
use crate::{diagnostics::TextError, lexer::Word};

/// Checks the items. Addresses have no trailing zero octets (RFC 3123 section 4).
pub(super) fn check(mut rest: &[u8]) -> Result<(), Malformed> {
    const CUT: Malformed = "the list of prefixes is truncated";
    while let [high, low, prefix, length, tail @ ..] = rest {
        let length = usize::from(length & 0x7f);
        let address = tail.get(..length).ok_or(CUT)?;
        let bits = match u16::from_be_bytes([*high, *low]) {
            1 => 32,
            2 => 128,
            _ => 255,
        };
        let octets_max = if bits == 255 { 127 } else { usize::from(bits / 8) };
        if *prefix > bits || length > octets_max || address.last() == Some(&0) {
            return Err("an address prefix is not in the form of RFC 3123 section 4");
        }
        rest = &tail[length..];
    }
    if rest.is_empty() { Ok(()) } else { Err(CUT) }
}

pub(super) fn read(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    while let Some(word) = words.next()? {
        let item = read_item(word).ok_or_else(|| refuse(word, "a prefix like 1:192.0.2.0/24 or !2:2001:db8::/32"))?;
        words.out.extend_from_slice(&item);
    }
    Ok(())
}

fn read_item(word: Word<'_>) -> Option<Vec<u8>> {
    let (negation, text) = word.text.strip_prefix(b"!").map_or((0, word.text), |text| (0x80, text));
    let colon = text.iter().position(|o| *o == b':')?;
    let slash = text.iter().position(|o| *o == b'/')?;
    let address = text.get(colon + 1..slash)?;
    let (family, octets) = match &text[..colon] {
        b"1" => (1, read_ipv4(address)?.octets().to_vec()),
        b"2" => (2, read_ipv6(address)?.octets().to_vec()),
        _ => return None,
    };
    let prefix = u8::try_from(read_number(&text[slash + 1..])?).ok().filter(|p| usize::from(*p) <= octets.len() * 8)?;
    let length = octets.iter().rposition(|o| *o != 0).map_or(0, |last| last + 1);
    let mut item = vec![0, family, prefix, negation | length.to_le_bytes()[0]];
    item.extend_from_slice(&octets[..length]);
    Some(item)
}

pub(super) fn write(mut rest: &[u8], out: &mut String) -> Option<()> {
    while let [high, low, prefix, length, tail @ ..] = rest {
        let (address, after) = tail.split_at_checked(usize::from(length & 0x7f))?;
        let mut octets = [0; 16];
        octets.get_mut(..address.len())?.copy_from_slice(address);
        let address = match u16::from_be_bytes([*high, *low]) {
            1 => Ipv4Addr::from(*octets.first_chunk::<4>()?).to_string(),
            2 => Ipv6Addr::from(octets).to_string(),
            _ => return None,
        };
        let negation = if length & 0x80 == 0 { "" } else { "!" };
        out.push_str(&format!("{negation}{low}:{address}/{prefix} "));
        rest = after;
    }
    out.truncate(out.trim_end().len());
    Some(())
}
