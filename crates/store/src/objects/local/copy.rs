//! A file that is a copy of a store elsewhere: how it is opened, and what it notes beside its rows: which groups there are, and
//! the tip.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use redb::{Database, backends::InMemoryBackend};
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use super::{
    super::StoreError,
    tables::{REVISION, Tables, told},
    upstream::Tip,
};
use super::{
    opened::{Opener, contained},
    tables::{self, STEPS},
};

/// The first revision of each group of which something is remembered, and its last.
const GROUPS: TableDefinition<'_, u64, u64> = TableDefinition::new("groups");
/// The number of `meta` that says the stamp of the tip. Without it the copy is not whole.
const STAMP: &str = "stamp";

/// The notes while the tables are written to.
pub(super) struct Copied<'txn> {
    groups: Table<'txn, u64, u64>,
    /// The rows that were written, in the order of what happened.
    pub(super) rows: Vec<(String, Vec<u8>)>,
    /// The first revisions of groups of which nothing is remembered any more.
    pub(super) emptied: Vec<u64>,
    /// The stamp of the tip, once it is known.
    pub(super) stamp: Option<u64>,
}

impl<'txn> Copied<'txn> {
    pub(super) fn open(writing: &'txn WriteTransaction) -> Result<Self, StoreError> {
        let groups = writing.open_table(GROUPS).map_err(told)?;
        Ok(Self { groups, rows: Vec::new(), emptied: Vec::new(), stamp: None })
    }

    /// Notes a group.
    pub(super) fn add(&mut self, (first, last): (u64, u64)) -> Result<(), StoreError> {
        self.groups.insert(first, last).map_err(told).map(|_| ())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.groups.retain(|_, _| false).map_err(told)
    }

    /// An entry of a revision has gone from the log. With the last one of a group, the group goes.
    pub(super) fn forgotten(
        &mut self,
        revision: u64,
        log: &impl ReadableTable<(u64, u32), &'static str>,
    ) -> Result<(), StoreError> {
        let found = self.groups.range(..=revision).map_err(told)?.next_back().transpose().map_err(told)?;
        let Some((first, last)) = found.map(|(first, last)| (first.value(), last.value())) else { return Ok(()) };
        // What is being carried out is no group yet.
        if last < revision || log.range((first, 0)..=(last, u32::MAX)).map_err(told)?.next().is_some() {
            return Ok(());
        }
        self.groups.remove(first).map_err(told)?;
        self.emptied.push(first);
        Ok(())
    }

    /// Writes the stamp down, if there is a new one.
    pub(super) fn close(self, meta: &mut Table<'_, &'static str, u64>) -> Result<(), StoreError> {
        let stamp = self.stamp.map(|stamp| meta.insert(STAMP, stamp).map(|_| ()).map_err(told));
        stamp.unwrap_or(Ok(()))
    }
}

/// The tip of a copy; none of one that is not whole.
pub(super) fn tip(tables: &Tables) -> Result<Option<Tip>, StoreError> {
    let revision = tables.number(REVISION)?;
    let stamp = tables.meta.get(STAMP).map_err(told)?.map(|stamp| stamp.value());
    Ok(stamp.map(|stamp| Tip { revision, stamp }))
}

/// Opens the file at a path, once; after a fault of it, and where there is none, a copy is made in memory.
pub(super) fn opener(path: Option<PathBuf>) -> Opener {
    let is_first = AtomicBool::new(true);
    Box::new(move || {
        let path = path.as_deref().filter(|_| is_first.swap(false, Ordering::Relaxed));
        let opened = path.map(|path| contained(|| on_disk(path)).flatten());
        match opened {
            Some(Ok(database)) => return Ok(database),
            Some(Err(error)) => {
                tracing::error!(%error, "on-disk copy of declared objects unavailable: using memory");
            }
            None => tracing::warn!("copy of declared objects is in memory only"),
        }
        tables::open(InMemoryBackend::new(), STEPS)
    })
}

fn on_disk(path: &Path) -> Result<Database, StoreError> {
    match contained(|| tables::open(tables::file(path)?, STEPS)).flatten() {
        Err(error @ (StoreError::Damaged(_) | StoreError::Newer { .. })) => {
            let aside = path.with_extension("redb.damaged");
            tracing::error!(%error, moved_to = %aside.display(), "copy of declared objects moved aside and rebuilt");
            std::fs::rename(path, &aside).map_err(|e| tables::unusable(path, &e))?;
            tables::open(tables::file(path)?, STEPS)
        }
        opened => opened,
    }
}
