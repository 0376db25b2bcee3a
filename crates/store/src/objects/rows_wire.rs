//! Encoding of a row: metadata and value of an object, or of one history entry of it.
//!
//! ```text
//! byte 0    1..9            9..13          13..             then
//! format    checksum (LE)   length (LE)    header, JSON     value: in the clear (format 1), or encrypted (format 2, see `sealing`)
//! ```
//!
//! The checksum covers the key and all bytes after the checksum. redb does not verify its own checksums when a row is read, and a
//! changed bit must not become an answer. `local/tables` has the tables of the rows.

use std::{borrow::Cow, sync::Arc};

use fairway_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Author, Entry, Key, Object, StoreError, StoreKeys};

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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    secret: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
}

/// A row. The value borrows from the bytes that were read.
#[derive(Clone, Debug)]
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
    /// True if the value has secrets.
    pub(super) has_secrets: bool,
    /// True if the value of this history entry is without its secrets.
    pub(super) is_redacted: bool,
    /// Value of the object; `None` if it was deleted.
    pub(super) value: Option<&'a [u8]>,
    /// Context of an encrypted value: the header. `None` of a value in the clear.
    pub(super) sealed_with: Option<&'a [u8]>,
}

impl<'a> Row<'a> {
    /// Returns a row with a value in the clear, without secrets.
    pub(super) fn new(revision: u64, by: Author, at: (Timestamp, Timestamp), value: Option<&'a [u8]>) -> Self {
        let (created, changed) = at;
        let (generation, sequence, position) = (1, 1, 0);
        let (has_secrets, is_redacted, sealed_with) = (false, false, None);
        Self {
            revision,
            generation,
            created,
            changed,
            by,
            sequence,
            position,
            has_secrets,
            is_redacted,
            value,
            sealed_with,
        }
    }

    /// Returns the row with another value in the clear.
    pub(super) fn with_value<'b>(&self, value: Option<&'b [u8]>) -> Row<'b>
    where
        'a: 'b,
    {
        Row { value, sealed_with: None, ..self.clone() }
    }

    /// Encodes the row of a key. Its value is in the clear, and is encrypted if there is a key for it.
    pub(super) fn encode(&self, key: &str, keys: &StoreKeys) -> Result<Vec<u8>, StoreError> {
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
            secret: self.has_secrets,
            redacted: self.is_redacted,
        };
        let is_sealed = self.value.is_some() && keys.is_encrypting();
        let value = self.value.unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER_AT + 256 + value.len());
        bytes.push(if is_sealed { SEALED_FORMAT } else { FORMAT });
        bytes.extend([0; HEADER_AT - 1]);
        serde_json::to_writer(&mut bytes, &header).expect("texts and numbers have a JSON form");
        let length = u32::try_from(bytes.len() - HEADER_AT).expect("author and reason are bounded");
        bytes[LENGTH_AT..HEADER_AT].copy_from_slice(&length.to_le_bytes());
        if is_sealed {
            let header = bytes[HEADER_AT..].to_vec();
            keys.seal(&[key.as_bytes(), &header], value, &mut bytes)?;
        } else {
            bytes.extend_from_slice(value);
        }
        let sum = checksum(key, &bytes[LENGTH_AT..]);
        bytes[1..LENGTH_AT].copy_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    /// Decodes the row of a key.
    pub(super) fn decode(key: &str, bytes: &'a [u8]) -> Result<Self, RowError> {
        let (format, rest) = bytes.split_first().ok_or(RowError::Short)?;
        if ![FORMAT, SEALED_FORMAT].contains(format) {
            return Err(RowError::Format(*format));
        }
        let (checksum, summed) = rest.split_first_chunk().ok_or(RowError::Short)?;
        if u64::from_le_bytes(*checksum) != self::checksum(key, summed) {
            return Err(RowError::Checksum);
        }
        let (length, rest) = summed.split_first_chunk().ok_or(RowError::Short)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| RowError::Short)?;
        let (text, value) = rest.split_at_checked(length).ok_or(RowError::Short)?;
        let header: Header<'_> = serde_json::from_slice(text).map_err(|e| RowError::Header(e.to_string()))?;
        let time = |text: &str| text.parse::<Timestamp>().map_err(|e| RowError::Header(e.to_string()));
        Ok(Self {
            revision: header.revision,
            generation: header.generation,
            created: time(&header.created)?,
            changed: time(&header.changed)?,
            by: Author { identity: header.who.into_owned(), reason: header.why.into_owned(), applied: header.applied },
            sequence: header.sequence,
            position: header.position,
            has_secrets: header.secret,
            is_redacted: header.redacted,
            value: (!header.is_deleted).then_some(value),
            sealed_with: (*format == SEALED_FORMAT).then_some(text),
        })
    }

    /// Returns the value in the clear; `None` if the object was deleted.
    pub(super) fn open(&self, key: &str, keys: &StoreKeys) -> Result<Option<Cow<'a, [u8]>>, StoreError> {
        let Some(value) = self.value else { return Ok(None) };
        Ok(Some(match self.sealed_with {
            Some(header) => Cow::Owned(keys.open(&[key.as_bytes(), header], value)?),
            None => Cow::Borrowed(value),
        }))
    }

    /// True if the values are equal. Of encrypted values only the length is compared, since no key is needed to verify a store; the
    /// checksum of a row covers its value.
    pub(super) fn has_value_of(&self, other: &Row<'_>) -> bool {
        match self.sealed_with.or(other.sealed_with) {
            Some(_) => self.value.map(<[u8]>::len) == other.value.map(<[u8]>::len),
            None => self.value == other.value,
        }
    }

    /// Returns the object of the row; `None` if it was deleted.
    pub(super) fn object(self, key: Key, keys: &StoreKeys) -> Result<Option<Object>, StoreError> {
        let Some(value) = self.open(key.as_str(), keys)? else { return Ok(None) };
        Ok(Some(Object {
            key,
            value: Arc::from(value),
            revision: self.revision,
            generation: self.generation,
            created: self.created,
            changed: self.changed,
            by: self.by,
        }))
    }

    /// Returns the row as a history entry.
    pub(super) fn entry(self, key: &str, keys: &StoreKeys) -> Result<Entry, StoreError> {
        let value = self.open(key, keys)?.map(Arc::from);
        let Self { revision, changed, by, is_redacted, .. } = self;
        Ok(Entry { revision, at: changed, by, value, is_redacted })
    }
}

/// Error of a row that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RowError {
    /// Written by another version.
    #[error("it has format {0}; this fairway reads formats {FORMAT} and {SEALED_FORMAT}")]
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
const SEALED_FORMAT: u8 = 2;
const LENGTH_AT: usize = 9;
const HEADER_AT: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Option<&[u8]>) -> Row<'_> {
        let changed = Timestamp::from(std::time::UNIX_EPOCH + std::time::Duration::new(9, 123_456_789));
        let by = Author { applied: value.is_some(), ..Author::new("ann \"the\" admin", "") };
        let row = Row::new(7, by, (Timestamp::from_secs(5), changed), value);
        Row { generation: 2, sequence: 3, position: 4, ..row }
    }

    fn encode(value: Option<&[u8]>) -> Vec<u8> {
        row(value).encode("pool/a", &StoreKeys::default()).unwrap()
    }

    #[test]
    fn encoded_row_is_decoded_unchanged() {
        for value in [None, Some(&b""[..]), Some(b"{\"a\": 1}\xff\0\n")] {
            let bytes = encode(value);
            let back = Row::decode("pool/a", &bytes).unwrap();
            assert_eq!(format!("{back:?}"), format!("{:?}", row(value)));
        }
    }

    #[test]
    fn header_has_the_names_of_earlier_versions() {
        let bytes = encode(None);
        let header = String::from_utf8_lossy(&bytes[HEADER_AT..]);
        assert!(
            header.contains(r#""nth":3,"place":4,"gone":true"#),
            "stores of earlier versions stay readable: {header}"
        );
    }

    #[test]
    fn changed_bit_or_truncation_is_detected() {
        let bytes = encode(Some(b"{\"weight\":10}"));
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
        let bytes = encode(Some(b"x"));
        assert_eq!(Row::decode("pool/b", &bytes).unwrap_err(), RowError::Checksum);
    }

    #[test]
    fn unknown_format_is_rejected_with_its_number() {
        let mut bytes = encode(None);
        bytes[0] = 9;
        assert_eq!(
            Row::decode("pool/a", &bytes).unwrap_err().to_string(),
            "it has format 9; this fairway reads formats 1 and 2"
        );
    }

    #[test]
    fn encrypted_row_shows_its_header_and_not_its_value() {
        let secret = |digit: &str| fairway_model::Secret::new(digit.repeat(64));
        let keys = StoreKeys::new(&[secret("a")]).unwrap();
        let bytes = row(Some(b"password")).encode("pool/a", &keys).unwrap();
        let found = Row::decode("pool/a", &bytes).unwrap();
        assert_eq!((found.revision, found.by.identity.as_str()), (7, "ann \"the\" admin"));
        assert!(!bytes.windows(8).any(|part| part == b"password"));
        assert_eq!(found.open("pool/a", &keys).unwrap().as_deref(), Some(&b"password"[..]));
        for other in [StoreKeys::default(), StoreKeys::new(&[secret("b")]).unwrap()] {
            assert!(matches!(found.open("pool/a", &other), Err(StoreError::Keys(_))));
        }
    }
}
