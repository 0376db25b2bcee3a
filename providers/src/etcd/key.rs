//! Conversion between names and keys.

use data_encoding::HEXLOWER;
use fairway_model::{Name, Rtype};
use ring::digest::{SHA256, digest};

/// A key below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// An owned key: one record of this set.
    Ours {
        /// Its name.
        name: Name,
        /// Its type.
        rtype: Rtype,
    },
    /// A key of another client: its labels, the top-level one first.
    Other(Vec<String>),
}

impl Key {
    /// Parses a key. Returns `None` if it contains no name.
    pub(super) fn read(prefix: &str, key: &str) -> Option<Self> {
        let labels: Vec<_> = key.strip_prefix(prefix)?.split('/').filter(|label| !label.is_empty()).collect();
        let (last, above) = labels.split_last()?;
        let id = last.strip_prefix(MARK).and_then(|rest| rest.split_once('-'));
        if let Some((rtype, hash)) = id
            && hash.len() == HASH_BYTES * 2
            && let (Ok(rtype), Some(name)) = (rtype.to_ascii_uppercase().parse(), name_of(above))
        {
            return Some(Self::Ours { name, rtype });
        }
        Some(Self::Other(labels.into_iter().map(str::to_owned).collect()))
    }
}

/// Returns the name of labels, the top-level one first.
pub(super) fn name_of<T: AsRef<str>>(labels: &[T]) -> Option<Name> {
    labels.iter().try_fold(Name::root(), |name, label| name.child(label.as_ref().as_bytes())).ok()
}

/// Returns the prefix of all keys at and below a name. Returns `None` for a name that has no key.
pub(super) fn below(prefix: &str, name: &Name) -> Option<String> {
    let mut labels = name.labels().map(plain).collect::<Option<Vec<_>>>()?;
    labels.reverse();
    Some(labels.into_iter().fold(prefix.to_owned(), |key, label| key + &label + "/"))
}

/// Returns the prefix of the keys of an owned set.
pub(super) fn of_set(prefix: &str, name: &Name, rtype: Rtype) -> Option<String> {
    Some(format!("{}{MARK}{}-", below(prefix, name)?, rtype.to_string().to_ascii_lowercase()))
}

/// Returns the key of a record.
pub(super) fn of_record(of_set: &str, rdata: &[u8]) -> String {
    of_set.to_owned() + &HEXLOWER.encode(&digest(&SHA256, rdata).as_ref()[..HASH_BYTES])
}

/// Returns a label in lower case. CoreDNS treats the labels `*` and `any` of a query as wildcards, so they cannot be published.
fn plain(label: &[u8]) -> Option<String> {
    let is_plain = label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let text = String::from_utf8(label.to_ascii_lowercase()).ok()?;
    (is_plain && text != "any").then_some(text)
}

/// Prefix of the last part of our keys.
const MARK: &str = "fairway-";
/// Bytes of the hash that distinguishes the records of a set.
const HASH_BYTES: usize = 8;
