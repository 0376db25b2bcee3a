//! Objects that were declared over the API (clusters, pools, names, intents): where they are kept, and the one way in.
//!
//! ```text
//! commit ── all changes of a batch, or none ──► revision n, durable before it is acknowledged
//!             │ each change names what it expects (compare and set)
//!             ├─► read, list      what is there now
//!             ├─► watch           every change after a revision, in order; resumes, or says that it cannot
//!             └─► history         who changed an object, when and why
//! ```
//!
//! A store knows octets and keys, no meaning: what an object says is checked before it is committed. One trait, one contract
//! test (`contract.rs`), an implementation in the data folder ([`LocalStore`]), and one that several servers share
//! ([`EtcdStore`]).

#[cfg(test)]
mod contract;
mod etcd;
pub mod idempotency;
mod idempotency_wire;
mod key;
mod local;
mod rows_wire;

use std::sync::Arc;

use async_trait::async_trait;
use fairway_model::Timestamp;
use tokio::sync::mpsc;

use super::Board;

pub use etcd::EtcdStore;
pub use key::{Key, KeyError, Kind, Prefix};
pub use local::{LocalStore, StoreFile, Verified};

/// Keeps objects. Every method may be called by many tasks at once.
#[async_trait]
pub trait ObjectStore: std::fmt::Debug + Send + Sync {
    /// The object at a key, if there is one.
    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError>;

    /// Objects in the order of their keys, at most `most` of them, beginning after `after`, all of one revision.
    async fn list(&self, under: &Prefix, after: Option<&Key>, most: usize) -> Result<Listing, StoreError>;

    /// Makes all changes, or none. Returns once they are durable; watchers hear of them only then.
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;

    /// Every change after a revision, in order. [`StoreError::Compacted`] if the store does not remember that far back, or was
    /// never there (a backup was restored): list anew.
    async fn watch(&self, after: u64) -> Result<Watch, StoreError>;

    /// What was done to a key, the latest first, at most `most` entries older than revision `before`.
    async fn history(&self, key: &Key, before: Option<u64>, most: usize) -> Result<Vec<Entry>, StoreError>;

    /// Carries out what was asked for before, and lets go of everything; what is asked after is refused.
    async fn close(&self);

    /// What kind of store it is, and how this server stands to it. Waits for nothing.
    fn standing(&self) -> Standing;

    /// Where one of the servers that share the store writes what all of them follow; none where nobody shares it.
    fn board(&self) -> Option<Board> {
        None
    }
}

/// How a server stands to the store of its declared objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `embedded` (a file of the data folder) or `etcd`.
    pub kind: &'static str,
    /// The server of the store that is asked, where there is one.
    pub endpoint: Option<String>,
    /// The last revision that is held here.
    pub revision: u64,
    /// The last revision that was seen there: what is between the two is on its way.
    pub latest: u64,
    /// Since when the store does not answer, and why. Then nothing can be declared, and what is held here is served on.
    pub away: Option<(Timestamp, String)>,
}

/// An object as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where it is.
    pub key: Key,
    /// What it says: canonical JSON. At most [`VALUE_MAX`] octets.
    pub value: Arc<[u8]>,
    /// The revision of its last change: its ETag.
    pub revision: u64,
    /// How often what it says has changed, from 1 (Kubernetes: `metadata.generation`). A change to the same octets is none.
    pub generation: u64,
    /// When it was made, and the older of two that conflict wins by it.
    pub created: Timestamp,
    /// When it was last changed.
    pub changed: Timestamp,
    /// Who changed it last.
    pub by: Author,
}

/// Objects that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In the order of their keys.
    pub objects: Vec<Object>,
    /// The revision they are of: what to watch after.
    pub revision: u64,
    /// Whether there are more.
    pub more: bool,
}

/// Who changed something, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// The authenticated identity, or where the request came from. At most 256 octets.
    pub who: String,
    /// For people; may be empty. At most 1,024 octets.
    pub why: String,
    /// Whether it came as files do, by `POST /v1/apply`: what is not in the files any more may go then.
    pub applied: bool,
}

impl Author {
    /// Who, and why, by any way but that of files.
    pub fn new(who: impl Into<String>, why: impl Into<String>) -> Self {
        Self { who: who.into(), why: why.into(), applied: false }
    }
}

/// Changes that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// At most [`BATCH_MAX`], each key once.
    pub changes: Vec<Change>,
    /// Who wants them.
    pub by: Author,
    /// When.
    pub at: Timestamp,
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub key: Key,
    /// What must be there for the batch to be carried out.
    pub expect: Expect,
    /// What it says from now on; nothing takes the object away.
    pub value: Option<Vec<u8>>,
}

/// What a change expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// An object or none.
    Anything,
    /// An object, whatever its revision.
    Present,
    /// The object of just this revision.
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

/// What a batch has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The revision of everything that changed. A batch that changes nothing gets the current one.
    pub revision: u64,
    /// The objects after it, in the order of the changes; none where one was taken away.
    pub objects: Vec<Option<Object>>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its revision; events of one batch share it.
    pub revision: u64,
    /// Where.
    pub key: Key,
    /// The object from now on; none if it was taken away.
    pub object: Option<Object>,
}

/// Every event after a revision.
#[derive(Debug)]
pub struct Watch {
    /// Batches, each whole and in the order of its changes. Closed when the store ends, or when the reader is [`WATCH_MAX`] batches
    /// behind: watch again after the last revision that was seen.
    pub events: mpsc::Receiver<Arc<[Event]>>,
}

/// One entry of the history of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The revision it made.
    pub revision: u64,
    /// When.
    pub at: Timestamp,
    /// Who, and why.
    pub by: Author,
    /// What the object said from then on; none where it was taken away.
    pub value: Option<Arc<[u8]>>,
}

/// Why a store did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The history no longer reaches back to the revision.
    #[error(
        "changes after revision {asked} are no longer remembered, only those after {oldest}; list anew and watch from there"
    )]
    Compacted {
        /// What was asked for.
        asked: u64,
        /// The oldest revision that can be asked for.
        oldest: u64,
    },
    /// Something else is at a key than was expected; nothing was changed.
    #[error("{key}: {}; read it again and decide anew", expected(*.expect, *.found))]
    Conflict {
        /// Where.
        key: Key,
        /// What was expected.
        expect: Expect,
        /// The revision of what is there.
        found: Option<u64>,
    },
    /// What was kept cannot be read.
    #[error("the store is damaged: {0}; restore a backup, see docs/operations/store.md")]
    Damaged(String),
    /// A newer program wrote it, and this one does not know what it means.
    #[error(
        "the store has version {found}, and this program knows {known} at most: run the newer one, or restore a backup of this one"
    )]
    Newer {
        /// The version that was found.
        found: u64,
        /// The newest that this program knows.
        known: u64,
    },
    /// The batch is over a bound or names a key twice.
    #[error("the batch is refused: {0}")]
    Refused(String),
    /// The disk, or the server of the store, does not take it now. Nothing was acknowledged; a change that was under way may still
    /// be found made, as a whole.
    #[error("the store cannot be used now: {0}; what is served goes on, try again")]
    Unavailable(String),
}

fn expected(expect: Expect, found: Option<u64>) -> String {
    let there = found.map_or_else(|| "nothing is there".to_owned(), |revision| format!("revision {revision} is there"));
    match expect {
        Expect::Absent => format!("it exists already ({there})"),
        Expect::Anything | Expect::Present => there,
        Expect::Revision(revision) => format!("revision {revision} was expected, {there}"),
    }
}

/// Most octets that one object says.
pub const VALUE_MAX: usize = 1 << 20;
/// Most changes of one batch.
pub const BATCH_MAX: usize = 10_000;
/// Most octets that the objects of one batch say together.
pub const BATCH_OCTETS_MAX: usize = 64 << 20;
/// Most octets of who made a change, and of why.
pub const AUTHOR_MAX: (usize, usize) = (256, 1_024);
/// Batches that a watcher may be behind.
pub const WATCH_MAX: usize = 1_024;
/// Entries that are remembered of each key, the latest; of all keys together; and octets of all of them (2 GiB: those of 1,000,000
/// entries of 2 kB).
pub const HISTORY_MAX: (usize, usize, u64) = (100, 1_000_000, 2 << 30);

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
