//! Domain names: from text to wire form, and their length in RDATA.

use fairway_model::{Name, NameError};

use super::codec::Malformed;
use crate::{
    diagnostics::{TextError, show},
    lexer::Word,
};

/// Appends the wire form of a name to `out`. Same result as [`Name::from_text`], without allocations: zones have millions of names.
pub(crate) fn read_name(text: &[u8], origin: &Name, out: &mut Vec<u8>) -> Result<(), NameError> {
    let begin = out.len();
    let mut length_at = begin;
    out.push(0);
    for (index, &octet) in text.iter().enumerate() {
        match octet {
            b'.' => {
                let label = out.len() - length_at - 1;
                match u8::try_from(label) {
                    Ok(1..=63) => out[length_at] = label.to_le_bytes()[0],
                    _ => return read_escaped_name(text, origin, begin, out),
                }
                if index + 1 == text.len() {
                    out.push(0);
                    return if out.len() - begin > Name::OCTETS_MAX { Err(NameError::Long) } else { Ok(()) };
                }
                length_at = out.len();
                out.push(0);
            }
            b'\\' => return read_escaped_name(text, origin, begin, out),
            _ => out.push(octet),
        }
    }
    let label = out.len() - length_at - 1;
    if text == b"@" || !(1..=Name::LABEL_MAX).contains(&label) {
        return read_escaped_name(text, origin, begin, out);
    }
    out[length_at] = label.to_le_bytes()[0];
    out.extend_from_slice(origin.as_wire());
    if out.len() - begin > Name::OCTETS_MAX { Err(NameError::Long) } else { Ok(()) }
}

/// Reads names with escapes or errors, and the short forms `.` and `@`.
fn read_escaped_name(text: &[u8], origin: &Name, begin: usize, out: &mut Vec<u8>) -> Result<(), NameError> {
    out.truncate(begin);
    out.extend_from_slice(Name::from_text(text, Some(origin))?.as_wire());
    Ok(())
}

/// Returns the error for a word that is no domain name.
pub(crate) fn name_error(word: Word<'_>, error: NameError) -> TextError {
    TextError::new(word.at, format!("{} is not a domain name: {error}", show(word.text)), "")
}

/// Returns the length of the uncompressed name at the start of `rest`.
pub(super) fn name_length(rest: &[u8]) -> Result<usize, Malformed> {
    let mut end = 0;
    loop {
        let label = usize::from(*rest.get(end).ok_or("the data ends inside a name")?);
        end += 1 + label;
        match label {
            64.. => return Err("a name has a label over 63 octets, or is compressed"),
            _ if end > 255 => return Err("a name is over 255 octets"),
            0 => return Ok(end),
            _ => {}
        }
    }
}
