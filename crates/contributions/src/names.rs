//! Names of objects that are made from contributed texts.

use fairway_access::TokenHash;
use fairway_model::{Name, PoolName};

/// Returns the name of the pool of a contributed name.
pub(crate) fn pool_name(name: &Name) -> PoolName {
    let text = name.to_string().to_ascii_lowercase();
    let text = format!("{}{}", CONTRIBUTED, name_part(text.trim_end_matches('.')));
    PoolName::new(&text).expect("name_part returns valid characters")
}

/// Escapes a text as a part of an object's name: invalid characters become `+` and two hexadecimal digits. Long names are truncated and
/// suffixed with a hash. The result ends in a letter or digit.
pub(crate) fn name_part(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            part.push(char::from(byte));
        } else {
            part.push_str(&format!("+{byte:02x}"));
        }
    }
    let ends_well = part.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if part.len() <= PART_MAX && ends_well {
        return part;
    }
    part.truncate(PART_MAX);
    // Names that are not truncated have no two pluses in a row.
    format!("{part}++{}", &TokenHash::of(text).to_string()[..16])
}

/// Maximum number of characters of an escaped text: an object's name has 128 at most, with a prefix and a hash.
const PART_MAX: usize = 80;

/// Beginning of the names of pools that only contributions declare.
const CONTRIBUTED: &str = "contributed+";
