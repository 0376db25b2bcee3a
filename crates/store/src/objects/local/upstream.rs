//! A store elsewhere that several servers share, of which the file is a copy: what it must do to be one.
//!
//! ```text
//! commit ─► carried out on the copy, not yet kept ─► append ─► it is the next one there ─► kept ─► acknowledged
//!             ▲                                        │
//!             └──── fetch: what others added ◄─────────┘ it is not
//! ```
//! A *group* is what was carried out together: batches with consecutive revisions. The first copy that appends a group after the
//! last one decides what the next revisions are; every other copy takes its rows as they are and decides nothing.

use super::super::StoreError;

/// The last group of a store: its last revision, and a number that was drawn for it. Two histories that went apart (a backup was
/// restored) do not have one tip, whatever their revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Tip {
    pub(in super::super) revision: u64,
    /// 0 of a store that was never written to.
    pub(in super::super) stamp: u64,
}

/// What was carried out together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Group {
    /// Its first revision and its last.
    pub(in super::super) revisions: (u64, u64),
    /// Keys with the octets of their rows, in the order of what happened.
    pub(in super::super) rows: Vec<(String, Vec<u8>)>,
}

/// What is known of a group by who carried it out.
#[derive(Debug)]
pub(in super::super) struct Carried<'a> {
    pub(in super::super) group: &'a Group,
    /// The oldest revision that can be watched from, after it.
    pub(in super::super) oldest: u64,
    /// The first revisions of groups of which nothing is remembered any more.
    pub(in super::super) emptied: &'a [u64],
}

/// What has become of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Appended {
    /// Others added to the store before: fetch, and carry it out again.
    Behind,
    /// It is the last one, and durable.
    Done(Tip),
}

/// What a copy is told.
#[derive(Debug)]
pub(in super::super) enum Part {
    /// What it has is no beginning of what is there: it has to forget everything.
    Anew,
    /// The next group.
    Group(Group),
    /// There is no more: the tip, and the oldest revision that can be watched from.
    Until(Tip, u64),
}

/// The store elsewhere, as the thread that writes the copy sees it. Every call ends within a bound of its own.
pub(in super::super) trait Upstream: Send {
    /// Adds a group after a tip, if that is the last one.
    fn append(&mut self, after: Tip, carried: &Carried<'_>) -> Result<Appended, StoreError>;

    /// Tells what came after a tip, or everything: nothing at all where there is no more.
    fn fetch(
        &mut self,
        after: Option<Tip>,
        take: &mut dyn FnMut(Part) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Is told what the copy holds now.
    fn holds(&mut self, tip: Tip);
}
