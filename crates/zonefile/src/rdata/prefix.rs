//! An address prefix of APL (RFC 3123). Address families other than IP have only the form of RFC 3597.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{codec::Malformed, time::read_number, words::parse};

/// Returns the length of the prefix at the start of `rest`. Addresses have no trailing zero octets (RFC 3123 section 4).
pub(super) fn length(rest: &[u8]) -> Result<usize, Malformed> {
    const CUT: Malformed = "the list of prefixes is truncated";
    let [high, low, prefix, length, tail @ ..] = rest else { return Err(CUT) };
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
    Ok(4 + length)
}

/// Reads a prefix like `1:192.0.2.0/24` or `!2:2001:db8::/32`.
pub(super) fn read(text: &[u8]) -> Option<Vec<u8>> {
    let (negation, text) = text.strip_prefix(b"!").map_or((0, text), |text| (0x80, text));
    let colon = text.iter().position(|o| *o == b':')?;
    let slash = text.iter().position(|o| *o == b'/')?;
    let address = text.get(colon + 1..slash)?;
    let (family, octets) = match &text[..colon] {
        b"1" => (1, parse::<Ipv4Addr>(address)?.octets().to_vec()),
        b"2" => (2, parse::<Ipv6Addr>(address)?.octets().to_vec()),
        _ => return None,
    };
    let prefix = u8::try_from(read_number(&text[slash + 1..])?).ok().filter(|p| usize::from(*p) <= octets.len() * 8)?;
    let length = octets.iter().rposition(|o| *o != 0).map_or(0, |last| last + 1);
    let mut item = vec![0, family, prefix, negation | length.to_le_bytes()[0]];
    item.extend_from_slice(&octets[..length]);
    Some(item)
}

pub(super) fn write(value: &[u8], out: &mut String) -> Option<()> {
    let [high, low, prefix, length, address @ ..] = value else { return None };
    let mut octets = [0; 16];
    octets.get_mut(..address.len())?.copy_from_slice(address);
    let address = match u16::from_be_bytes([*high, *low]) {
        1 => Ipv4Addr::from(*octets.first_chunk::<4>()?).to_string(),
        2 => Ipv6Addr::from(octets).to_string(),
        _ => return None,
    };
    let negation = if length & 0x80 == 0 { "" } else { "!" };
    out.push_str(&format!("{negation}{low}:{address}/{prefix}"));
    Some(())
}
