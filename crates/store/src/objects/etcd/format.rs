//! Keys and values in etcd.
//!
//! ```text
//! PREFIXhead                           fairway-objects 1 REVISION OLDEST NONCE
//! PREFIXrecord/REVISION                =ENTRY, or for a long entry: /NONCE CHUNKS LENGTH
//! PREFIXrecord/REVISION/NONCE/NUMBER   a chunk of a long entry
//! PREFIXleader                         decision of the leader (`candidate`)
//!
//! ENTRY: one line `1 PREVIOUS-NONCE NONCE FIRST LAST`; then for each row the length of its key and of the row (4 bytes each,
//! little-endian), the key, the row
//! ```
//! The revision in the key of a record is the first one of the entry, in 16 hexadecimal digits: keys sort in the order of the log. An entry
//! counts once the head has its last revision. Chunks without a record are leftovers of a server that lost the race.

use fairway_etcd::{KeyValue, prefix_end};

use super::super::{
    StoreError,
    local::upstream::{LogEntry, LogHead},
};

/// The head key, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredHead {
    pub(super) head: LogHead,
    /// Oldest revision that can be watched from.
    pub(super) oldest: u64,
    /// Revision of etcd that last changed the key; 0 if the key does not exist.
    pub(super) mod_revision: i64,
    pub(super) value: Vec<u8>,
}

/// Returns the value of the head key.
pub(super) fn encode_head(head: LogHead, oldest: u64) -> Vec<u8> {
    format!("fairway-objects {FORMAT} {} {oldest} {:016x}", head.revision, head.nonce).into_bytes()
}

/// Parses the value of the head key.
pub(super) fn decode_head(value: &[u8], mod_revision: i64) -> Result<StoredHead, StoreError> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let words: Vec<&str> = text.split(' ').collect();
    let damaged = || StoreError::Damaged(format!("the head key in etcd has the value {text:.100?}"));
    let ["fairway-objects", format, rest @ ..] = words.as_slice() else { return Err(damaged()) };
    match format.parse() {
        Ok(FORMAT) => {}
        Ok(found) => return Err(StoreError::Newer { found, known: FORMAT }),
        Err(_) => return Err(damaged()),
    }
    let [revision, oldest, nonce] = rest else { return Err(damaged()) };
    let number = |word: &str| word.parse::<u64>().map_err(|_| damaged());
    let head = LogHead { revision: number(revision)?, nonce: hex(nonce).ok_or_else(damaged)? };
    Ok(StoredHead { head, oldest: number(oldest)?, mod_revision, value: value.to_vec() })
}

/// An entry with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Nonce of the entry before.
    pub(super) previous_nonce: u64,
    pub(super) nonce: u64,
    pub(super) entry: LogEntry,
}

/// Returns the bytes of an entry.
pub(super) fn encode(previous_nonce: u64, nonce: u64, entry: &LogEntry) -> Vec<u8> {
    let LogEntry { first_revision, last_revision, rows } = entry;
    let line = format!("{FORMAT} {previous_nonce:016x} {nonce:016x} {first_revision} {last_revision}\n");
    let mut bytes = line.into_bytes();
    for (key, row) in rows {
        for part in [key.as_bytes(), row] {
            bytes.extend(u32::try_from(part.len()).expect("a row is at most 1 MiB and its head").to_le_bytes());
        }
        bytes.extend(key.as_bytes());
        bytes.extend(row);
    }
    bytes
}

/// Parses the bytes of an entry.
pub(super) fn decode(bytes: &[u8]) -> Result<Record, StoreError> {
    parse(bytes).ok_or_else(|| StoreError::Damaged("a record in etcd has an unknown format".to_owned()))
}

fn parse(bytes: &[u8]) -> Option<Record> {
    let line = bytes.iter().position(|byte| *byte == b'\n')?;
    let words: Vec<&str> = std::str::from_utf8(&bytes[..line]).ok()?.split(' ').collect();
    let [format, previous_nonce, nonce, first, last] = words.as_slice() else { return None };
    if format.parse() != Ok(FORMAT) {
        return None;
    }
    let mut rest = &bytes[line + 1..];
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let (key, more) = rest.split_first_chunk::<4>()?;
        let (row, more) = more.split_first_chunk::<4>()?;
        let length = |bytes: &[u8; 4]| usize::try_from(u32::from_le_bytes(*bytes)).ok();
        let (key, more) = more.split_at_checked(length(key)?)?;
        let (row, more) = more.split_at_checked(length(row)?)?;
        rows.push((String::from_utf8(key.to_vec()).ok()?, row.to_vec()));
        rest = more;
    }
    let entry = LogEntry { first_revision: first.parse().ok()?, last_revision: last.parse().ok()?, rows };
    Some(Record { previous_nonce: hex(previous_nonce)?, nonce: hex(nonce)?, entry })
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

/// Names of the keys.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub(super) fn head(&self) -> Vec<u8> {
        format!("{}head", self.prefix).into_bytes()
    }

    /// Prefix of the keys with the evidence of each server.
    pub(super) fn evidence(&self) -> String {
        format!("{}evidence/", self.prefix)
    }

    pub(super) fn leader(&self) -> Vec<u8> {
        format!("{}leader", self.prefix).into_bytes()
    }

    pub(super) fn record(&self, revision: u64) -> Vec<u8> {
        format!("{}record/{revision:016x}", self.prefix).into_bytes()
    }

    pub(super) fn chunk(&self, revision: u64, nonce: u64, number: usize) -> Vec<u8> {
        format!("{}record/{revision:016x}/{nonce:016x}/{number:04x}", self.prefix).into_bytes()
    }

    /// Returns start and end of the chunks of one entry.
    pub(super) fn chunks(&self, revision: u64, nonce: u64) -> (Vec<u8>, Vec<u8>) {
        let start = format!("{}record/{revision:016x}/{nonce:016x}/", self.prefix).into_bytes();
        (start.clone(), prefix_end(start))
    }

    /// Returns the end of a range that has a record and its chunks last: '0' is the byte after '/'.
    pub(super) fn end_of(&self, revision: u64) -> Vec<u8> {
        let mut key = self.record(revision);
        key.push(b'0');
        key
    }

    /// Parses a key below `record/`: returns the revision, and true for a chunk.
    pub(super) fn parse(&self, key: &[u8]) -> Result<(u64, bool), StoreError> {
        let parse = || {
            let text = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix("record/")?;
            let revision = text.split('/').next()?;
            Some((hex(revision)?, text.len() > revision.len()))
        };
        parse().ok_or_else(|| damaged(key, "not a key of Fairway"))
    }
}

/// The value of a record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredRecord<'a> {
    /// The entry.
    Entry(&'a [u8]),
    /// The entry is long: its chunks are in keys of their own.
    Chunks {
        nonce: u64,
        /// Number of the chunks.
        count: usize,
        /// Bytes of all chunks together.
        length: usize,
    },
}

impl<'a> StoredRecord<'a> {
    /// Returns the value.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Entry(bytes) => [b"=", *bytes].concat(),
            Self::Chunks { nonce, count, length } => format!("/{nonce:016x} {count} {length}").into_bytes(),
        }
    }

    /// Parses the value of a record's key.
    pub(super) fn parse(pair: &'a KeyValue) -> Result<Self, StoreError> {
        let parse = || match pair.value.split_first()? {
            (b'=', bytes) => Some(Self::Entry(bytes)),
            (b'/', text) => {
                let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
                let [nonce, count, length] = words.as_slice() else { return None };
                let number = |word: &str| word.parse::<usize>().ok().filter(|number| *number <= LENGTH_MAX);
                Some(Self::Chunks { nonce: hex(nonce)?, count: number(count)?, length: number(length)? })
            }
            _ => None,
        };
        parse().ok_or_else(|| damaged(&pair.key, "not a record"))
    }
}

fn damaged(key: &[u8], what: &str) -> StoreError {
    StoreError::Damaged(format!("key {} in etcd: {what}", String::from_utf8_lossy(key)))
}

/// Version of the format of head and records.
const FORMAT: u64 = 1;
/// Maximum length of an entry that is read. A transaction has batches of 8 MiB and one more of 64 MiB, in 42,768 rows with at most 7.7 KiB
/// of author and reason (1,280 bytes, each as JSON's `\u0001`): 393 MiB.
const LENGTH_MAX: usize = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> LogEntry {
        let rows = vec![("pool/a".into(), b"row\n\0".to_vec()), ("pool/b".into(), vec![])];
        LogEntry { first_revision: 7, last_revision: 9, rows }
    }

    #[test]
    fn encoded_head_record_and_keys_are_decoded_unchanged() {
        let (head, oldest) = (LogHead { revision: 9, nonce: 0xfeed }, 4);
        let decoded = decode_head(&encode_head(head, oldest), 12).unwrap();
        assert_eq!((decoded.head, decoded.oldest, decoded.mod_revision), (head, oldest, 12));
        let record = decode(&encode(1, 2, &entry())).unwrap();
        assert_eq!(record, Record { previous_nonce: 1, nonce: 2, entry: entry() });
        let keys = Keys::new("/fairway/");
        assert_eq!(keys.parse(&keys.record(9)), Ok((9, false)));
        assert_eq!(keys.parse(&keys.chunk(9, 2, 3)), Ok((9, true)));
        assert!(matches!(keys.parse(b"/fairway/record/other"), Err(StoreError::Damaged(_))));
        assert!(keys.record(9) < keys.chunk(9, u64::MAX, 0xffff) && keys.chunk(9, u64::MAX, 0xffff) < keys.end_of(9));
        assert!(keys.end_of(9) < keys.record(10) && keys.record(15) < keys.record(16));
    }

    #[test]
    fn truncated_record_and_unknown_format_are_rejected() {
        let bytes = encode(1, 2, &entry());
        let line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        for at in 0..bytes.len() {
            let complete_rows = [line + 1, line + 1 + 8 + 6 + 5];
            assert_eq!(decode(&bytes[..at]).is_ok(), complete_rows.contains(&at), "cut at {at}");
        }
        assert!(matches!(decode_head(b"fairway-objects 2 x", 1), Err(StoreError::Newer { found: 2, known: 1 })));
        assert!(matches!(decode_head(b"something else", 1), Err(StoreError::Damaged(_))));
    }

    #[test]
    fn encoded_record_is_parsed_unchanged_and_another_value_is_rejected() {
        let pair = |value: &[u8]| KeyValue { value: value.to_vec(), ..KeyValue::default() };
        for record in [StoredRecord::Entry(b"bytes"), StoredRecord::Chunks { nonce: 2, count: 3, length: 2 << 20 }] {
            assert_eq!(StoredRecord::parse(&pair(&record.encode())), Ok(record));
        }
        for value in ["", "entry", "/2 3", "/2 3 x", "/2 3 9999999999"] {
            let pair = pair(value.as_bytes());
            let result = StoredRecord::parse(&pair);
            assert!(matches!(result, Err(StoreError::Damaged(_))), "{value}: {result:?}");
        }
    }
}
