//! The store of objects that are declared over the API: clusters, pools, names, intents.
//!
//! ```text
//! commit ── all changes of a batch, or none ──► revision n, durable before it is acknowledged
//!             │ each change states the revision that it expects (compare and set)
//!             ├─► read, list      current objects
//!             ├─► watch           every change after a revision, in order; it can be resumed
//!             └─► history         author, time and reason of each change of an object
//! ```
//!
//! Values are bytes to the store; they are validated before they are committed. [`LocalStore`] keeps them in the data folder,
//! [`EtcdStore`] on an etcd that several servers share. One contract test (`contract.rs`) runs against both.

#[cfg(test)]
mod contract;
mod etcd;
pub mod idempotency;
mod idempotency_wire;
mod key;
mod limits;
mod local;
mod rows_wire;
mod sealing;

use std::sync::Arc;

use async_trait::async_trait;
use fairway_model::Timestamp;
use tokio::sync::mpsc;

use super::Election;

pub use etcd::EtcdStore;
pub use key::{Key, KeyError, Kind, Prefix};
pub use limits::OverLimit;
pub use local::{LocalStore, StoreFile, Verified};
pub use sealing::{NoStoreKey, StoreKeys};

/// A store of objects. Every method may be called by many tasks at once.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Returns the object at a key, if there is one.
    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError>;

    /// Returns objects in the order of their keys: at most `max`, from the first one after `after`, all as of one revision.
    async fn list(&self, under: &Prefix, after: Option<&Key>, max: usize) -> Result<Listing, StoreError>;

    /// Makes all changes, or none. Returns once they are durable; watchers get them only then.
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;

    /// Watches every change after a revision, in order. Fails with [`StoreError::Compacted`] if the history does not reach back to the
    /// revision, or the store never had it (a backup was restored): list again.
    async fn watch(&self, after: u64) -> Result<Watch, StoreError>;

    /// Returns the history of a key, the latest entry first: at most `max` entries, older than revision `before`.
    async fn history(&self, key: &Key, before: Option<u64>, max: usize) -> Result<Vec<Entry>, StoreError>;

    /// Finishes the calls that were made before, and releases all files and connections. Later calls fail.
    async fn close(&self);

    /// Returns the kind and the state of the store, without waiting for anything.
    fn status(&self) -> StoreStatus;

    /// Returns the leader election of the servers that share the store; `None` if it cannot be shared.
    fn election(&self) -> Option<Election> {
        None
    }
}

/// State of the store of declared objects, as one server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// Kind of the store.
    pub kind: StoreKind,
    /// URL of the etcd server that is asked; `None` without etcd.
    pub endpoint: Option<String>,
    /// Last revision that this server has.
    pub revision: u64,
    /// Last revision that was seen in the store. The revisions after `revision` are being fetched.
    pub latest: u64,
    /// Set while the store is unavailable. Then writes fail, and the objects that this server has stay in use.
    pub outage: Option<Outage>,
}

/// Kind of a store of declared objects. Displays as status, metrics and traces have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum StoreKind {
    /// A file of the data folder.
    Embedded,
    /// An etcd that several servers share.
    Etcd,
}

/// A time without the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start.
    pub since: Timestamp,
    /// Error of the last call.
    pub reason: String,
}

/// A stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Key.
    pub key: Key,
    /// Canonical JSON, at most [`VALUE_MAX`] bytes.
    pub value: Arc<[u8]>,
    /// Revision of its last change; the ETag.
    pub revision: u64,
    /// Number of changes of the value, from 1 (Kubernetes: `metadata.generation`). Writing the same bytes is no change.
    pub generation: u64,
    /// Time of its creation. The older of two objects that conflict wins.
    pub created: Timestamp,
    /// Time of its last change.
    pub changed: Timestamp,
    /// Author of its last change.
    pub by: Author,
}

/// Result of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects in the order of their keys.
    pub objects: Vec<Object>,
    /// Revision of the list, from which changes can be watched.
    pub revision: u64,
    /// True if there are more.
    pub more: bool,
}

/// Author of a change, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// Authenticated identity, or the origin of the request. At most [`AUTHOR_MAX`] bytes.
    pub identity: String,
    /// Reason, for people; may be empty. At most [`REASON_MAX`] bytes.
    pub reason: String,
    /// True for `POST /v1/apply`: an object that is no longer in the applied files may then be pruned.
    pub applied: bool,
}

impl Author {
    /// Returns the author of a change by any route but `POST /v1/apply`.
    pub fn new(identity: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { identity: identity.into(), reason: reason.into(), applied: false }
    }
}

/// Changes that are committed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// At most [`BATCH_MAX`], each key once.
    pub changes: Vec<Change>,
    /// Author.
    pub by: Author,
    /// Time.
    pub at: Timestamp,
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Key.
    pub key: Key,
    /// Condition for the whole batch.
    pub expect: Expect,
    /// New value; `None` deletes the object.
    pub value: Option<Vec<u8>>,
}

/// Expected object at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No object.
    Absent,
    /// Any object, or none.
    Anything,
    /// An object of any revision.
    Present,
    /// The object of this revision.
    Revision(u64),
}

impl Expect {
    /// Checks the revision of the object that was found at a key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if it is not as expected.
    pub fn check(self, key: &Key, found: Option<u64>) -> Result<(), StoreError> {
        let is_met = match self {
            Self::Absent => found.is_none(),
            Self::Anything => true,
            Self::Present => found.is_some(),
            Self::Revision(revision) => found == Some(revision),
        };
        match is_met {
            true => Ok(()),
            false => Err(StoreError::Conflict { key: key.clone(), expect: self, found }),
        }
    }
}

/// Result of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Revision of the batch. A batch that changes nothing returns the current revision.
    pub revision: u64,
    /// Objects after the batch, in the order of the changes; `None` for one that was deleted.
    pub objects: Vec<Option<Object>>,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Revision of its batch.
    pub revision: u64,
    /// Key.
    pub key: Key,
    /// New object; `None` if it was deleted. If it had secrets and was changed since, it is the present object, of a later revision.
    pub object: Option<Object>,
}

/// Changes after a revision.
#[derive(Debug)]
pub struct Watch {
    /// Complete batches, in order. The channel closes when the store closes, or when the reader is so slow that the history lost its next
    /// batch: watch again after the last revision that was received.
    pub events: mpsc::Receiver<Arc<[Event]>>,
}

/// A history entry of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Revision.
    pub revision: u64,
    /// Time.
    pub at: Timestamp,
    /// Author and reason.
    pub by: Author,
    /// New value; `None` if the object was deleted.
    pub value: Option<Arc<[u8]>>,
    /// True if the value is without its secrets: the history keeps none, once the object was changed or deleted.
    pub is_redacted: bool,
}

/// Treatment of values by a store.
#[derive(Clone, Debug)]
pub struct ValueOptions {
    /// Keys that encrypt them.
    pub keys: StoreKeys,
    /// Returns a value without its secrets; `None` if it has none. The history keeps only that.
    pub redact: Redact,
}

/// Returns a value of a kind without its secrets; `None` if it has none.
pub type Redact = fn(Kind, &[u8]) -> Option<Vec<u8>>;

impl Default for ValueOptions {
    /// Values are stored in the clear, and have no secrets.
    fn default() -> Self {
        Self { keys: StoreKeys::default(), redact: |_, _| None }
    }
}

/// Error of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The history no longer reaches back to the revision.
    #[error(
        "changes after revision {asked} are no longer stored, only those after {oldest}; list again and watch from there"
    )]
    Compacted {
        /// Requested revision.
        asked: u64,
        /// Oldest revision that can be requested.
        oldest: u64,
    },
    /// The object at a key is not the expected one; nothing was changed.
    #[error("{key}: {}; read it again and repeat the change", conflict(*.expect, *.found))]
    Conflict {
        /// Key.
        key: Key,
        /// Expected object.
        expect: Expect,
        /// Revision of the object at the key.
        found: Option<u64>,
    },
    /// Stored data cannot be read.
    #[error("the store is damaged: {0}; restore a backup, see docs/operations/store.md")]
    Damaged(String),
    /// The objects would be over a limit on all of them together. Nothing was changed.
    #[error("{0}")]
    Full(OverLimit),
    /// Values are encrypted with a key that was not given. Nothing was changed.
    #[error(
        "the store cannot be decrypted: {0}; add that key to store.keys (after the first one if it is an old one); nothing was changed"
    )]
    Keys(String),
    /// A newer version of Fairway wrote it.
    #[error(
        "the store has version {found}, and this fairway reads up to version {known}: run the newer fairway (its `fairway get` \
         exports all objects for `fairway apply`), or restore a backup of this one with `fairway store restore FILE`"
    )]
    Newer {
        /// Version that was found.
        found: u64,
        /// Newest version that this program reads.
        known: u64,
    },
    /// The batch is over a bound or changes a key twice.
    #[error("batch rejected: {0}")]
    Refused(String),
    /// The disk or etcd is unavailable. Nothing was acknowledged; a batch that was being committed may turn out to be committed.
    #[error("the store is unavailable: {0}; serving continues, try again")]
    Unavailable(String),
}

fn conflict(expect: Expect, found: Option<u64>) -> String {
    let found = found.map_or_else(|| "it does not exist".to_owned(), |revision| format!("it has revision {revision}"));
    match expect {
        Expect::Absent => format!("it exists already ({found})"),
        Expect::Anything | Expect::Present => found,
        Expect::Revision(revision) => format!("expected revision {revision}, {found}"),
    }
}

/// Limits of the history. The oldest entries over a limit are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Entries of each key.
    pub per_key: usize,
    /// Entries of all keys.
    pub entries: usize,
    /// Bytes of all entries.
    pub bytes: u64,
}

/// Maximum bytes of an object.
pub const VALUE_MAX: usize = 1 << 20;
/// Maximum number of changes of a request.
pub const REQUEST_MAX: usize = 10_000;
/// Maximum number of changes of a batch: those of a request, its idempotency record, and its removed names (500 an object, once of the
/// tenant and once of the prune). The rest is for deletions of expired objects.
pub const BATCH_MAX: usize = REQUEST_MAX + 100;
/// Maximum bytes of all objects of a batch.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of the author of a change.
pub const AUTHOR_MAX: usize = 256;
/// Maximum bytes of the reason of a change.
pub const REASON_MAX: usize = 1_024;
/// Maximum number of batches that wait for a watcher in memory. Later ones are read once it is their turn.
pub const WATCH_MAX: usize = 1_024;
/// Limits of the history of every store. 2 GiB are 1,000,000 entries of 2 kB.
pub const HISTORY_LIMITS: HistoryLimits = HistoryLimits { per_key: 100, entries: 1_000_000, bytes: 2 << 30 };

#[cfg(test)]
mod tests {
    use super::{Expect, Key, Kind};

    #[test]
    fn expectation_is_met_by_the_revision_it_names() {
        let key = Key::new(Kind::Pool, &["shop"]).unwrap();
        for (expect, nothing, first, second) in [
            (Expect::Absent, true, false, false),
            (Expect::Anything, true, true, true),
            (Expect::Present, false, true, true),
            (Expect::Revision(2), false, false, true),
        ] {
            let met = [None, Some(1), Some(2)].map(|found| expect.check(&key, found).is_ok());
            assert_eq!(met, [nothing, first, second], "{expect:?}");
        }
    }
}
