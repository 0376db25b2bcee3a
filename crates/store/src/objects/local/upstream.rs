//! Interface to the shared log that a store file is a copy of.
//!
//! ```text
//! batches ─► applied to the copy, not committed ─► append ─► next entry of the log ─► committed ─► acknowledged
//!             ▲                                      │
//!             └── fetch the entries of other servers ◄┘ another server was faster
//! ```
//! An *entry* is what one server committed together: batches with consecutive revisions. The first server that appends an entry after the
//! head decides the next revisions. Every other server copies the rows of the entry unchanged.

use super::super::StoreError;

/// Last entry of the log: its last revision, and the random number of the entry. Two logs that diverged (a backup was restored) have
/// different nonces, even at equal revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct LogHead {
    pub(in super::super) revision: u64,
    /// 0 in a log without entries.
    pub(in super::super) nonce: u64,
}

/// Batches that were committed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct LogEntry {
    pub(in super::super) first_revision: u64,
    pub(in super::super) last_revision: u64,
    /// Keys with their encoded rows, in the order of the changes.
    pub(in super::super) rows: Vec<(String, Vec<u8>)>,
}

/// An entry to append.
#[derive(Debug)]
pub(in super::super) struct NewEntry<'a> {
    pub(in super::super) entry: &'a LogEntry,
    /// Oldest revision that can be watched from, after this entry.
    pub(in super::super) oldest: u64,
    /// First revisions of earlier entries that the history no longer needs.
    pub(in super::super) expired: &'a [u64],
}

/// Result of appending an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Appended {
    /// Another server appended first: fetch, and apply the batches again.
    Behind,
    /// The entry is durable; holds the new head.
    Done(LogHead),
}

/// A step of bringing a copy up to date.
#[derive(Debug)]
pub(in super::super) enum Fetched {
    /// The copy is not a prefix of the log: delete its content.
    Restart,
    /// The next entry.
    Entry(LogEntry),
    /// There are no more entries.
    End {
        head: LogHead,
        /// Oldest revision that can be watched from.
        oldest: u64,
    },
}

/// The shared log, called by the thread that writes the copy. Every call ends within a bound of its own.
pub(in super::super) trait Upstream: Send {
    /// Appends an entry, if `after` is the head.
    fn append(&mut self, after: LogHead, new: &NewEntry<'_>) -> Result<Appended, StoreError>;

    /// Passes the entries after a head to `apply`, or all entries. Without news, `apply` is not called.
    fn fetch(
        &mut self,
        after: Option<LogHead>,
        apply: &mut dyn FnMut(Fetched) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Records the head that the copy has reached.
    fn copied(&mut self, head: LogHead);
}
