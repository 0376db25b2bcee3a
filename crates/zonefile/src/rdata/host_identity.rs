//! Algorithm, tag and key of HIP (RFC 8005 section 5). In wire form both lengths precede, in text there are none.

use data_encoding::{BASE64, HEXUPPER};

use super::{
    codec::{self, Malformed},
    words::{Words, refuse, refuse_because},
};
use crate::diagnostics::TextError;

/// Octets before the tag: length of the tag, algorithm, length of the key.
const HEAD: usize = 4;

/// Returns the length at the start of `rest`.
pub(super) fn length(rest: &[u8]) -> Result<usize, Malformed> {
    match rest {
        [0, ..] | [_, _, 0, 0, ..] => Err("the host identity tag or the key is empty"),
        [tag, _, high, low, ..] => Ok(HEAD + usize::from(*tag) + usize::from(u16::from_be_bytes([*high, *low]))),
        _ => Err("the data ends inside the key"),
    }
}

pub(super) fn read(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let start = words.out.len();
    let algorithm = words.octet()?;
    words.out.extend_from_slice(&[0, algorithm, 0, 0]);
    let word = words.need("a host identity tag in hexadecimal digits")?;
    codec::read_hex(word.text, words.out).map_err(|fact| refuse_because(word, fact))?;
    let tag = words.out.len() - start - HEAD;
    words.out[start] = u8::try_from(tag).map_err(|_| refuse(word, "a tag of at most 255 octets"))?;
    let word = words.need("a key in Base64")?;
    codec::read_base64(word.text, words.out).map_err(|fact| refuse_because(word, fact))?;
    let key = words.out.len() - start - HEAD - tag;
    let key = u16::try_from(key).map_err(|_| refuse(word, "a key of at most 65535 octets"))?;
    words.out[start + 2..start + HEAD].copy_from_slice(&key.to_be_bytes());
    Ok(())
}

pub(super) fn write(value: &[u8], out: &mut String) -> Option<()> {
    let (tag, key) = value.get(HEAD..)?.split_at_checked(usize::from(value[0]))?;
    out.push_str(&format!("{} {} {}", value[1], HEXUPPER.encode(tag), BASE64.encode(key)));
    Some(())
}
