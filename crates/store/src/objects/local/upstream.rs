//! Entries of the shared log that a store file is a copy of.
//!
//! ```text
//! batches ─► applied to the copy, not committed ─► append ─► next entry of the log ─► committed ─► acknowledged
//!             ▲                                      │
//!             └── fetch the entries of other servers ◄┘ another server was faster
//! ```
//! An *entry* is what one server committed together: batches with consecutive revisions. The first server that appends an entry after the
//! head decides the next revisions. Every other server copies the rows of the entry unchanged.

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

/// Result of bringing a copy up to date.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Fetched {
    /// Head that the copy has now.
    pub(in super::super) head: LogHead,
    /// Oldest revision that can be watched from.
    pub(in super::super) oldest: u64,
    /// True if the copy was no prefix of the log, so that its content was deleted first.
    pub(in super::super) is_restart: bool,
}
