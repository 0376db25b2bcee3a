//! Encoding of a row: metadata and value of an object, or of one history entry of it.
//!
//! ```text
//! byte 0    1..9            9..13          13..             then
//! format    checksum (LE)   length (LE)    header, JSON     value
//! ```
//!
//! The checksum covers the key and all bytes after the checksum. redb does not verify its own checksums when a row is read, and a
//! changed bit must not become an answer. `local/tables` has the tables of the rows.

use std::{borrow::Cow, sync::Arc};

use fairway_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Author, Entry, Key, Object};

/// Metadata of a row.
#[derive(Debug, Serialize, Deserialize)]
struct Header<'a> {
    revision: u64,
    generation: u64,
    #[serde(borrow)]
    created: Cow<'a, str>,
    #[serde(borrow)]
    changed: Cow<'a, str>,
    #[serde(borrow)]
    who: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    why: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    applied: bool,
    #[serde(rename = "nth")]
    sequence: u64,
    #[serde(rename = "place")]
    position: u32,
    #[serde(rename = "gone", default, skip_serializing_if = "std::ops::Not::not")]
    is_deleted: bool,
}

/// A row. The value borrows from the bytes that were read.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) revision: u64,
    pub(super) generation: u64,
    pub(super) created: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) by: Author,
    /// Sequence number among the history entries of its key. The difference to the oldest one gives their number.
    pub(super) sequence: u64,
    /// Position among the changes of its revision.
    pub(super) position: u32,
    /// Value of the object; `None` if it was deleted.
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Row<'a> {
    /// Encodes the row of a key.
    pub(super) fn encode(&self, key: &str) -> Vec<u8> {
        let header = Header {
            revision: self.revision,
            generation: self.generation,
            created: format!("{:.9}", self.created).into(),
            changed: format!("{:.9}", self.changed).into(),
            who: self.by.identity.as_str().into(),
            why: self.by.reason.as_str().into(),
            applied: self.by.applied,
            sequence: self.sequence,
            position: self.position,
            is_deleted: self.value.is_none(),
        };
        let value = self.value.unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER_AT + 256 + value.len());
        bytes.push(FORMAT);
        bytes.extend([0; HEADER_AT - 1]);
        serde_json::to_writer(&mut bytes, &header).expect("texts and numbers have a JSON form");
        let length = u32::try_from(bytes.len() - HEADER_AT).expect("author and reason are bounded");
        bytes[LENGTH_AT..HEADER_AT].copy_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(value);
        let sum = checksum(key, &bytes[LENGTH_AT..]);
        bytes[1..LENGTH_AT].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the row of a key.
    pub(super) fn decode(key: &str, bytes: &'a [u8]) -> Result<Self, RowError> {
        let (format, rest) = bytes.split_first().ok_or(RowError::Short)?;
        if *format != FORMAT {
            return Err(RowError::Format(*format));
        }
        let (checksum, summed) = rest.split_first_chunk().ok_or(RowError::Short)?;
        if u64::from_le_bytes(*checksum) != self::checksum(key, summed) {
            return Err(RowError::Checksum);
        }
        let (length, rest) = summed.split_first_chunk().ok_or(RowError::Short)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| RowError::Short)?;
        let (header, value) = rest.split_at_checked(length).ok_or(RowError::Short)?;
        let header: Header<'_> = serde_json::from_slice(header).map_err(|e| RowError::Header(e.to_string()))?;
        let time = |text: &str| text.parse::<Timestamp>().map_err(|e| RowError::Header(e.to_string()));
        Ok(Self {
            revision: header.revision,
            generation: header.generation,
            created: time(&header.created)?,
            changed: time(&header.changed)?,
            by: Author { identity: header.who.into_owned(), reason: header.why.into_owned(), applied: header.applied },
            sequence: header.sequence,
            position: header.position,
            value: (!header.is_deleted).then_some(value),
        })
    }

    /// Returns the object of the row; `None` if it was deleted.
    pub(super) fn object(self, key: Key) -> Option<Object> {
        Some(Object {
            key,
            value: Arc::from(self.value?),
            revision: self.revision,
            generation: self.generation,
            created: self.created,
            changed: self.changed,
            by: self.by,
        })
    }

    /// Returns the row as a history entry.
    pub(super) fn entry(self) -> Entry {
        Entry { revision: self.revision, at: self.changed, by: self.by, value: self.value.map(Arc::from) }
    }
}

/// Error of a row that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RowError {
    /// Written by another version.
    #[error("it has format {0}; this fairway reads format {FORMAT}")]
    Format(u8),
    /// The checksum is right and the header is not: another program wrote it.
    #[error("malformed header: {0}")]
    Header(String),
    /// Truncated.
    #[error("it is truncated")]
    Short,
    /// Its bytes changed, or belong to another key.
    #[error("checksum mismatch")]
    Checksum,
}

/// Returns a checksum of 64 bits. Each step is invertible, so a change within eight bytes is always detected; other damage is missed
/// once in 2^64. It detects disk errors, not people who can write to the file.
fn checksum(key: &str, bytes: &[u8]) -> u64 {
    // The golden ratio in 64 bits; odd, so that the multiplication is invertible.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = u64::try_from(key.len()).unwrap_or(u64::MAX);
    for part in [key.as_bytes(), bytes] {
        let (words, rest) = part.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for word in words.iter().chain([&last]) {
            sum = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29);
        }
    }
    sum ^ u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

const FORMAT: u8 = 1;
const LENGTH_AT: usize = 9;
const HEADER_AT: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Option<&[u8]>) -> Row<'_> {
        Row {
            revision: 7,
            generation: 2,
            created: Timestamp::from_secs(5),
            changed: Timestamp::from(std::time::UNIX_EPOCH + std::time::Duration::new(9, 123_456_789)),
            by: Author { applied: value.is_some(), ..Author::new("ann \"the\" admin", "") },
            sequence: 3,
            position: 4,
            value,
        }
    }

    #[test]
    fn encoded_row_is_decoded_unchanged() {
        for value in [None, Some(&b""[..]), Some(b"{\"a\": 1}\xff\0\n")] {
            let bytes = row(value).encode("pool/a");
            let back = Row::decode("pool/a", &bytes).unwrap();
            assert_eq!(format!("{back:?}"), format!("{:?}", row(value)));
        }
    }

    #[test]
    fn header_has_the_names_of_earlier_versions() {
        let bytes = row(None).encode("pool/a");
        let header = String::from_utf8_lossy(&bytes[HEADER_AT..]);
        assert!(
            header.contains(r#""nth":3,"place":4,"gone":true"#),
            "stores of earlier versions stay readable: {header}"
        );
    }

    #[test]
    fn changed_bit_or_truncation_is_detected() {
        let bytes = row(Some(b"{\"weight\":10}")).encode("pool/a");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[at] ^= 1 << bit;
                assert!(Row::decode("pool/a", &broken).is_err(), "bit {bit} of byte {at}");
            }
            assert!(Row::decode("pool/a", &bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn row_of_another_key_is_rejected() {
        let bytes = row(Some(b"x")).encode("pool/a");
        assert_eq!(Row::decode("pool/b", &bytes).unwrap_err(), RowError::Checksum);
    }

    #[test]
    fn unknown_format_is_rejected_with_its_number() {
        let mut bytes = row(None).encode("pool/a");
        bytes[0] = 9;
        assert_eq!(
            Row::decode("pool/a", &bytes).unwrap_err().to_string(),
            "it has format 9; this fairway reads format 1"
        );
    }
}
