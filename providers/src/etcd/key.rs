//! Names as keys and keys as names.

use data_encoding::HEXLOWER;
use fairway_model::{Name, Rtype};
use ring::digest::{SHA256, digest};

/// A key below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Of our form: a record of this set.
    Ours {
        /// Its name.
        name: Name,
        /// Its type.
        rtype: Rtype,
    },
    /// Somebody else's, with the labels in it, that of the top first.
    Other(Vec<String>),
}

impl Key {
    /// Reads a key; none where it holds no name.
    pub(super) fn read(prefix: &str, key: &str) -> Option<Self> {
        let labels: Vec<_> = key.strip_prefix(prefix)?.split('/').filter(|label| !label.is_empty()).collect();
        let (last, above) = labels.split_last()?;
        let id = last.strip_prefix(MARK).and_then(|rest| rest.split_once('-'));
        if let Some((rtype, hash)) = id
            && hash.len() == HASH_OCTETS * 2
            && let (Ok(rtype), Some(name)) = (rtype.to_ascii_uppercase().parse(), name_of(above))
        {
            return Some(Self::Ours { name, rtype });
        }
        Some(Self::Other(labels.into_iter().map(str::to_owned).collect()))
    }
}

/// The name of labels, that of the top first.
pub(super) fn name_of<T: AsRef<str>>(labels: &[T]) -> Option<Name> {
    labels.iter().try_fold(Name::root(), |name, label| name.child(label.as_ref().as_bytes())).ok()
}

/// What all keys at and below a name begin with; none for a name that no key holds.
pub(super) fn below(prefix: &str, name: &Name) -> Option<String> {
    let mut labels = name.labels().map(plain).collect::<Option<Vec<_>>>()?;
    labels.reverse();
    Some(labels.into_iter().fold(prefix.to_owned(), |key, label| key + &label + "/"))
}

/// What the keys of a set of ours begin with.
pub(super) fn of_set(prefix: &str, name: &Name, rtype: Rtype) -> Option<String> {
    Some(format!("{}{MARK}{}-", below(prefix, name)?, rtype.to_string().to_ascii_lowercase()))
}

/// The key of a record.
pub(super) fn of_record(of_set: &str, rdata: &[u8]) -> String {
    of_set.to_owned() + &HEXLOWER.encode(&digest(&SHA256, rdata).as_ref()[..HASH_OCTETS])
}

/// A label in lower case. CoreDNS searches below names with a label `*` or `any`, which it takes for wildcards of the question.
fn plain(label: &[u8]) -> Option<String> {
    let is_plain = label.iter().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_'));
    let text = String::from_utf8(label.to_ascii_lowercase()).ok()?;
    (is_plain && text != "any").then_some(text)
}

/// What the last part of our keys begins with.
const MARK: &str = "fairway-";
/// Octets of the hash that tells records of a set apart.
const HASH_OCTETS: usize = 8;
