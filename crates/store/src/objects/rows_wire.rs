//! The octets of a row: what is known of an object, or of one entry of its history, and what the object says.
//!
//! ```text
//! octet 0   1..9         9..13            13..             then
//! form      sum (LE)     length (LE)      head, JSON       value, octet for octet
//! ```
//!
//! The sum is over the key and all that follows it: the file's own sums are not looked at when a row is read, and a flipped
//! bit must not become an answer. Where rows lie is in `local/tables`.

use std::{borrow::Cow, sync::Arc};

use fairway_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Author, Entry, Key, Object};

/// What a row tells beside the value.
#[derive(Debug, Serialize, Deserialize)]
struct Head<'a> {
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
    /// The number of this entry among those of its key.
    nth: u64,
    /// Its place among the events of its revision.
    place: u32,
    /// Whether the object was taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
}

/// A row that was read; the value lies where it was read from.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) revision: u64,
    pub(super) generation: u64,
    pub(super) created: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) by: Author,
    /// The number of this entry among those of its key: with the number of the oldest one it tells how many there are.
    pub(super) nth: u64,
    /// Its place among the events of its revision.
    pub(super) place: u32,
    /// What the object says; none where it was taken away.
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Row<'a> {
    /// The octets of the row of a key.
    pub(super) fn encode(&self, key: &str) -> Vec<u8> {
        let head = Head {
            revision: self.revision,
            generation: self.generation,
            created: format!("{:.9}", self.created).into(),
            changed: format!("{:.9}", self.changed).into(),
            who: self.by.who.as_str().into(),
            why: self.by.why.as_str().into(),
            applied: self.by.applied,
            nth: self.nth,
            place: self.place,
            gone: self.value.is_none(),
        };
        let value = self.value.unwrap_or_default();
        let mut octets = Vec::with_capacity(HEAD_AT + 256 + value.len());
        octets.push(FORM);
        octets.extend([0; HEAD_AT - 1]);
        serde_json::to_writer(&mut octets, &head).expect("texts and numbers have a JSON form");
        let length = u32::try_from(octets.len() - HEAD_AT).expect("who and why are bounded");
        octets[LENGTH_AT..HEAD_AT].copy_from_slice(&length.to_le_bytes());
        octets.extend_from_slice(value);
        let sum = sum(key, &octets[LENGTH_AT..]);
        octets[1..LENGTH_AT].copy_from_slice(&sum.to_le_bytes());
        octets
    }

    /// Reads the row of a key.
    pub(super) fn decode(key: &str, octets: &'a [u8]) -> Result<Self, RowError> {
        let (form, rest) = octets.split_first().ok_or(RowError::Short)?;
        if *form != FORM {
            return Err(RowError::Form(*form));
        }
        let (told, summed) = rest.split_first_chunk().ok_or(RowError::Short)?;
        if u64::from_le_bytes(*told) != sum(key, summed) {
            return Err(RowError::Sum);
        }
        let (length, rest) = summed.split_first_chunk().ok_or(RowError::Short)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| RowError::Short)?;
        let (head, value) = rest.split_at_checked(length).ok_or(RowError::Short)?;
        let head: Head<'_> = serde_json::from_slice(head).map_err(|e| RowError::Head(e.to_string()))?;
        let moment = |text: &str| text.parse::<Timestamp>().map_err(|e| RowError::Head(e.to_string()));
        Ok(Self {
            revision: head.revision,
            generation: head.generation,
            created: moment(&head.created)?,
            changed: moment(&head.changed)?,
            by: Author { who: head.who.into_owned(), why: head.why.into_owned(), applied: head.applied },
            nth: head.nth,
            place: head.place,
            value: (!head.gone).then_some(value),
        })
    }

    /// The object that the row is of, unless it was taken away.
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

    /// The row as an entry of a history.
    pub(super) fn entry(self) -> Entry {
        Entry { revision: self.revision, at: self.changed, by: self.by, value: self.value.map(Arc::from) }
    }
}

/// Why a row cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RowError {
    /// A form that this program does not write.
    #[error("its form is {0}, and this program knows {FORM} only")]
    Form(u8),
    /// The sum is right and the text is not: another program wrote it.
    #[error("its head cannot be read: {0}")]
    Head(String),
    /// It ends too early.
    #[error("it ends too early")]
    Short,
    /// Its octets are not those that were written, or belong to another key.
    #[error("its octets are not those that were written")]
    Sum,
}

/// A sum of 64 bits. Each step can be undone, so a change within eight octets is always seen; other damage is missed once in
/// 2^64. It protects from faults of a disk, not from people who can write to the file.
fn sum(key: &str, octets: &[u8]) -> u64 {
    // Odd, so that multiplying loses nothing; its digits are those of the golden ratio.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = u64::try_from(key.len()).unwrap_or(u64::MAX);
    for part in [key.as_bytes(), octets] {
        let (words, rest) = part.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for word in words.iter().chain([&last]) {
            sum = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(STEP).rotate_left(29);
        }
    }
    sum ^ u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

const FORM: u8 = 1;
const LENGTH_AT: usize = 9;
const HEAD_AT: usize = 13;

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
            nth: 3,
            place: 4,
            value,
        }
    }

    #[test]
    fn what_is_written_is_read_back_octet_for_octet() {
        for value in [None, Some(&b""[..]), Some(b"{\"a\": 1}\xff\0\n")] {
            let octets = row(value).encode("pool/a");
            let back = Row::decode("pool/a", &octets).unwrap();
            assert_eq!(format!("{back:?}"), format!("{:?}", row(value)));
        }
    }

    #[test]
    fn a_flipped_bit_or_a_cut_anywhere_is_seen() {
        let octets = row(Some(b"{\"weight\":10}")).encode("pool/a");
        for at in 0..octets.len() {
            for bit in 0..8 {
                let mut broken = octets.clone();
                broken[at] ^= 1 << bit;
                assert!(Row::decode("pool/a", &broken).is_err(), "bit {bit} of octet {at}");
            }
            assert!(Row::decode("pool/a", &octets[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_row_under_another_key_is_not_taken() {
        let octets = row(Some(b"x")).encode("pool/a");
        assert_eq!(Row::decode("pool/b", &octets).unwrap_err(), RowError::Sum);
    }

    #[test]
    fn a_form_that_is_to_come_is_told() {
        let mut octets = row(None).encode("pool/a");
        octets[0] = 9;
        assert_eq!(
            Row::decode("pool/a", &octets).unwrap_err().to_string(),
            "its form is 9, and this program knows 1 only"
        );
    }
}
