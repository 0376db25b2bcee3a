//! Base16, Base32hex and Base64 (RFC 4648), strict: no foreign characters, no missing or surplus padding.

/// The value of a hexadecimal digit.
pub(super) const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Decodes hexadecimal digits.
pub(super) fn read_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (pairs, odd) = text.as_chunks::<2>();
    if !odd.is_empty() {
        return Err("the number of hexadecimal digits is odd");
    }
    for [high, low] in pairs {
        let (Some(high), Some(low)) = (hex_value(*high), hex_value(*low)) else {
            return Err("a character is not a hexadecimal digit");
        };
        out.push(high << 4 | low);
    }
    Ok(())
}

/// Decodes Base64 with its padding.
pub(super) fn read_base64(text: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (quads, odd) = text.as_chunks::<4>();
    if !odd.is_empty() {
        return Err("the length of the Base64 text is not a multiple of 4; it may be truncated");
    }
    for (index, quad) in quads.iter().enumerate() {
        let padding = quad.iter().rev().take_while(|c| **c == b'=').count();
        if padding > 2 || (padding > 0 && index + 1 < quads.len()) {
            return Err("misplaced Base64 padding");
        }
        let mut bits = 0u32;
        for character in &quad[..4 - padding] {
            bits = bits << 6 | u32::from(base64_value(*character).ok_or("a character is not in the Base64 alphabet")?);
        }
        bits <<= 6 * padding;
        let [_, octets @ ..] = bits.to_be_bytes();
        if octets[3 - padding..].iter().any(|o| *o != 0) {
            return Err("the last Base64 character has unused bits that are not zero");
        }
        out.extend_from_slice(&octets[..3 - padding]);
    }
    Ok(())
}

/// Decodes Base32 with the extended hex alphabet and no padding (RFC 5155 section 3.3).
pub(super) fn read_base32hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (mut bits, mut held) = (0u16, 0);
    for character in text {
        let value = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'v' => character - b'a' + 10,
            b'A'..=b'V' => character - b'A' + 10,
            _ => return Err("a character is not in the extended hex alphabet of Base32"),
        };
        bits = bits << 5 | u16::from(value);
        held += 5;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held).to_be_bytes()[1]);
            bits &= (1 << held) - 1;
        }
    }
    if held >= 5 || bits != 0 { Err("the Base32 text is truncated") } else { Ok(()) }
}

const fn base64_value(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Writes upper-case hexadecimal digits.
pub(super) fn write_hex(octets: &[u8], out: &mut String) {
    for octet in octets {
        for digit in [octet >> 4, octet & 15] {
            out.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
        }
    }
}

/// Writes Base64 with padding.
pub(super) fn write_base64(octets: &[u8], out: &mut String) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in octets.chunks(3) {
        let mut three = [0; 4];
        three[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(three);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)).to_be_bytes()[3] & 63;
            out.push(if place > chunk.len() { '=' } else { char::from(ALPHABET[usize::from(index)]) });
        }
    }
}

/// Writes Base32 with the extended hex alphabet, without padding.
pub(super) fn write_base32hex(octets: &[u8], out: &mut String) {
    let (mut bits, mut held) = (0u16, 0u32);
    let digit = |value: u16| char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUV"[usize::from(value & 31)]);
    for octet in octets {
        bits = bits << 8 | u16::from(*octet);
        held += 8;
        while held >= 5 {
            held -= 5;
            out.push(digit(bits >> held));
        }
        bits &= (1 << held) - 1;
    }
    if held > 0 {
        out.push(digit(bits << (5 - held)));
    }
}
