//! Base16, Base32hex and Base64 (RFC 4648), strict: no foreign characters, no missing or surplus padding. Also quoted strings.

use data_encoding::{BASE32_DNSSEC, BASE64, DecodeKind, Encoding, HEXLOWER_PERMISSIVE};

/// Reason why text or RDATA is invalid.
pub(super) type Malformed = &'static str;

/// Decodes hexadecimal digits.
pub(super) fn read_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    decode(&HEXLOWER_PERMISSIVE, text, out).map_err(|kind| match kind {
        DecodeKind::Symbol => "a character is not a hexadecimal digit",
        _ => "the number of hexadecimal digits is odd",
    })
}

/// Decodes Base64 with its padding.
pub(super) fn read_base64(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    // The library accepts several padded texts after each other.
    let is_padding_inside = text.iter().position(|c| *c == b'=').is_some_and(|first| first + 2 < text.len());
    let kind = match decode(&BASE64, text, out) {
        Ok(()) if !is_padding_inside => return Ok(()),
        Ok(()) => DecodeKind::Padding,
        Err(kind) => kind,
    };
    Err(match kind {
        DecodeKind::Length => "the length of the Base64 text is not a multiple of 4; it may be truncated",
        DecodeKind::Symbol => "a character is not in the Base64 alphabet",
        DecodeKind::Trailing => "the last Base64 character has unused bits that are not zero",
        DecodeKind::Padding => "misplaced Base64 padding",
    })
}

/// Decodes Base32 with the extended hex alphabet and no padding (RFC 5155 section 3.3).
pub(super) fn read_base32hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    decode(&BASE32_DNSSEC, text, out).map_err(|kind| match kind {
        DecodeKind::Symbol => "a character is not in the extended hex alphabet of Base32",
        _ => "the Base32 text is truncated",
    })
}

fn decode(encoding: &Encoding, text: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeKind> {
    out.extend_from_slice(&encoding.decode(text).map_err(|error| error.kind)?);
    Ok(())
}

/// Writes octets as a quoted string. Escapes quotes, backslashes and octets that are not printable.
pub(super) fn write_octets(octets: &[u8], out: &mut String) {
    out.push('"');
    for &octet in octets {
        match octet {
            b'"' | b'\\' => out.extend(['\\', char::from(octet)]),
            b' '..=b'~' => out.push(char::from(octet)),
            _ => out.push_str(&format!("\\{octet:03}")),
        }
    }
    out.push('"');
}
