//! What is kept in etcd: the form of keys and values.
//!
//! ```text
//! PREFIXhead                              fairway-objects 1 REVISION OLDEST STAMP
//! PREFIXrecord/REVISION                   =GROUP, or where that is long: /STAMP PIECES LENGTH
//! PREFIXrecord/REVISION/STAMP/NUMBER      a piece of a long group
//! PREFIXboard                             who decides for all, and what (`board`)
//!
//! GROUP: 1 STAMP-BEFORE STAMP FIRST LAST, a line; then for each row: length of its key, length of it (4 octets each, LE), both
//! ```
//! The revision of a record's key is the group's first one, in 16 hexadecimal digits, so that keys are in the order of what
//! happened. A group counts once the head says its last revision; pieces without their record are nothing.

use fairway_etcd::prefix_end;

use super::super::{
    StoreError,
    local::upstream::{Group, Tip},
};

/// The head, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The last group.
    pub(super) tip: Tip,
    /// The oldest revision that can be watched from.
    pub(super) oldest: u64,
    /// etcd's revision of it; 0 where there is none.
    pub(super) mod_revision: i64,
    /// Its value.
    pub(super) value: Vec<u8>,
}

/// The value of a head.
pub(super) fn head(tip: Tip, oldest: u64) -> Vec<u8> {
    format!("fairway-objects {FORM} {} {oldest} {:016x}", tip.revision, tip.stamp).into_bytes()
}

/// Reads the value of a head.
pub(super) fn read_head(value: &[u8], mod_revision: i64) -> Result<Head, StoreError> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let words: Vec<&str> = text.split(' ').collect();
    let damaged = || StoreError::Damaged(format!("the head in etcd says {text:.100?}"));
    let ["fairway-objects", form, rest @ ..] = words.as_slice() else { return Err(damaged()) };
    match form.parse() {
        Ok(FORM) => {}
        Ok(found) => return Err(StoreError::Newer { found, known: FORM }),
        Err(_) => return Err(damaged()),
    }
    let [revision, oldest, stamp] = rest else { return Err(damaged()) };
    let stamp = u64::from_str_radix(stamp, 16).map_err(|_| damaged())?;
    let number = |word: &str| word.parse::<u64>().map_err(|_| damaged());
    let tip = Tip { revision: number(revision)?, stamp };
    Ok(Head { tip, oldest: number(oldest)?, mod_revision, value: value.to_vec() })
}

/// A group with the tips before it and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The stamp of the group before.
    pub(super) after: u64,
    /// Its own stamp.
    pub(super) stamp: u64,
    /// What happened.
    pub(super) group: Group,
}

/// The octets of a group.
pub(super) fn encode(after: u64, stamp: u64, group: &Group) -> Vec<u8> {
    let (first, last) = group.revisions;
    let mut octets = format!("{FORM} {after:016x} {stamp:016x} {first} {last}\n").into_bytes();
    for (key, row) in &group.rows {
        for part in [key.as_bytes(), row] {
            octets.extend(u32::try_from(part.len()).expect("rows are bounded").to_le_bytes());
        }
        octets.extend(key.as_bytes());
        octets.extend(row);
    }
    octets
}

/// Reads the octets of a group.
pub(super) fn decode(octets: &[u8]) -> Result<Record, StoreError> {
    read(octets).ok_or_else(|| StoreError::Damaged("a record in etcd has no form that is known".to_owned()))
}

fn read(octets: &[u8]) -> Option<Record> {
    let line = octets.iter().position(|octet| *octet == b'\n')?;
    let words: Vec<&str> = std::str::from_utf8(&octets[..line]).ok()?.split(' ').collect();
    let [form, after, stamp, first, last] = words.as_slice() else { return None };
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    if form.parse() != Ok(FORM) {
        return None;
    }
    let (mut rest, mut rows) = (&octets[line + 1..], Vec::new());
    while !rest.is_empty() {
        let (key, more) = rest.split_first_chunk::<4>()?;
        let (row, more) = more.split_first_chunk::<4>()?;
        let length = |octets: &[u8; 4]| usize::try_from(u32::from_le_bytes(*octets)).ok();
        let (key, more) = more.split_at_checked(length(key)?)?;
        let (row, more) = more.split_at_checked(length(row)?)?;
        rows.push((String::from_utf8(key.to_vec()).ok()?, row.to_vec()));
        rest = more;
    }
    let revisions = (first.parse().ok()?, last.parse().ok()?);
    Some(Record { after: hex(after)?, stamp: hex(stamp)?, group: Group { revisions, rows } })
}

/// Where things are.
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

    pub(super) fn board(&self) -> Vec<u8> {
        format!("{}board", self.prefix).into_bytes()
    }

    pub(super) fn record(&self, revision: u64) -> Vec<u8> {
        format!("{}record/{revision:016x}", self.prefix).into_bytes()
    }

    pub(super) fn piece(&self, revision: u64, stamp: u64, number: usize) -> Vec<u8> {
        format!("{}record/{revision:016x}/{stamp:016x}/{number:04x}", self.prefix).into_bytes()
    }

    /// The pieces of a group that has become nothing.
    pub(super) fn pieces(&self, revision: u64, stamp: u64) -> (Vec<u8>, Vec<u8>) {
        let start = format!("{}record/{revision:016x}/{stamp:016x}/", self.prefix).into_bytes();
        (start.clone(), prefix_end(start))
    }

    /// What ends a range with a record and its pieces: '0' comes after '/'.
    pub(super) fn end_of(&self, revision: u64) -> Vec<u8> {
        let mut key = self.record(revision);
        key.push(b'0');
        key
    }

    /// What a key below `record/` is: the revision, and of a piece its stamp and number.
    pub(super) fn place(&self, key: &[u8]) -> Option<(u64, Option<(u64, usize)>)> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix("record/")?;
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [revision] => Some((hex(revision)?, None)),
            [revision, stamp, number] => {
                Some((hex(revision)?, Some((hex(stamp)?, usize::from_str_radix(number, 16).ok()?))))
            }
            _ => None,
        }
    }
}

/// Puts records together as keys are read in order.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// A long record: its stamp, how many pieces it has, its length, and what of it there is.
    open: Option<(u64, usize, usize, Vec<u8>)>,
    pieces: usize,
}

impl Assembler {
    /// Takes the next key with its value; a record, when it is whole.
    pub(super) fn take(&mut self, keys: &Keys, key: &[u8], value: &[u8]) -> Result<Option<Record>, StoreError> {
        let damaged = |what: &str| StoreError::Damaged(format!("{}: {what} in etcd", String::from_utf8_lossy(key)));
        let Some((_, piece)) = keys.place(key) else { return Err(damaged("a key that is not ours")) };
        match (piece, &mut self.open) {
            (None, Some(_)) => Err(damaged("pieces of the record before it are missing")),
            (None, None) => match value.split_first() {
                Some((b'=', octets)) => decode(octets).map(Some),
                Some((b'/', text)) => {
                    let text = std::str::from_utf8(text).unwrap_or_default();
                    let words: Vec<&str> = text.split(' ').collect();
                    let [stamp, pieces, length] = words.as_slice() else { return Err(damaged("no record")) };
                    let number = |word: &str| word.parse::<usize>().ok().filter(|number| *number <= LENGTH_MAX);
                    let (Ok(stamp), Some(pieces), Some(length)) =
                        (u64::from_str_radix(stamp, 16), number(pieces), number(length))
                    else {
                        return Err(damaged("no record"));
                    };
                    (self.open, self.pieces) = (Some((stamp, pieces, length, Vec::with_capacity(length))), 0);
                    Ok(None)
                }
                _ => Err(damaged("no record")),
            },
            (Some((of, number)), Some((stamp, pieces, length, octets))) if of == *stamp => {
                if number != self.pieces || octets.len() + value.len() > *length {
                    return Err(damaged("a piece is missing"));
                }
                octets.extend(value);
                self.pieces += 1;
                if self.pieces < *pieces {
                    return Ok(None);
                }
                let (_, _, length, octets) = self.open.take().expect("it was matched");
                if octets.len() == length { decode(&octets).map(Some) } else { Err(damaged("a piece is cut off")) }
            }
            // Left by who was slower, or not there any more.
            (Some(_), _) => Ok(None),
        }
    }

    /// Whether nothing is missing.
    pub(super) const fn is_whole(&self) -> bool {
        self.open.is_none()
    }
}

/// The value of a record whose group is in pieces.
pub(super) fn of_pieces(stamp: u64, pieces: usize, length: usize) -> Vec<u8> {
    format!("/{stamp:016x} {pieces} {length}").into_bytes()
}

/// The form of head and records.
const FORM: u64 = 1;
/// Longest group that is read: the values and rows of a full transaction stay far below.
const LENGTH_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Group {
        Group { revisions: (7, 9), rows: vec![("pool/a".into(), b"row\n\0".to_vec()), ("pool/b".into(), vec![])] }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (tip, oldest) = (Tip { revision: 9, stamp: 0xfeed }, 4);
        let head = read_head(&head(tip, oldest), 12).unwrap();
        assert_eq!((head.tip, head.oldest, head.mod_revision), (tip, oldest, 12));
        let record = decode(&encode(1, 2, &group())).unwrap();
        assert_eq!(record, Record { after: 1, stamp: 2, group: group() });
        let keys = Keys::new("/fairway/");
        assert_eq!(keys.place(&keys.record(9)), Some((9, None)));
        assert_eq!(keys.place(&keys.piece(9, 2, 3)), Some((9, Some((2, 3)))));
        assert!(keys.record(9) < keys.piece(9, u64::MAX, 0xffff) && keys.piece(9, u64::MAX, 0xffff) < keys.end_of(9));
        assert!(keys.end_of(9) < keys.record(10) && keys.record(15) < keys.record(16));
    }

    #[test]
    fn what_is_cut_off_or_of_another_form_is_told() {
        let octets = encode(1, 2, &group());
        let line = octets.iter().position(|octet| *octet == b'\n').unwrap();
        for at in 0..octets.len() {
            let whole_rows = [line + 1, line + 1 + 8 + 6 + 5];
            assert_eq!(decode(&octets[..at]).is_ok(), whole_rows.contains(&at), "cut at {at}");
        }
        assert!(matches!(read_head(b"fairway-objects 2 x", 1), Err(StoreError::Newer { found: 2, known: 1 })));
        assert!(matches!(read_head(b"something else", 1), Err(StoreError::Damaged(_))));
    }

    #[test]
    fn a_long_record_is_put_together_and_what_others_left_is_passed_over() {
        let (keys, octets) = (Keys::new(""), encode(1, 2, &group()));
        let (one, two) = octets.split_at(30);
        let mut assembler = Assembler::default();
        let mut take = |key: Vec<u8>, value: &[u8]| assembler.take(&keys, &key, value);
        assert_eq!(take(keys.record(7), &of_pieces(2, 2, octets.len())), Ok(None));
        assert_eq!(take(keys.piece(7, 1, 0), b"of another"), Ok(None));
        assert_eq!(take(keys.piece(7, 2, 0), one), Ok(None));
        assert_eq!(take(keys.piece(7, 2, 1), two).unwrap().unwrap().group, group());
        assert_eq!(take(keys.piece(7, 3, 0), b"of another"), Ok(None));
        assert_eq!(take(keys.record(10), &of_pieces(2, 2, octets.len())), Ok(None));
        assert!(matches!(take(keys.piece(10, 2, 1), two), Err(StoreError::Damaged(_))), "the first is missing");
        assert!(matches!(take(keys.record(11), b"="), Err(StoreError::Damaged(_))), "the rest is missing");
    }
}
