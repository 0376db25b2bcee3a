//! A store file that is a copy of a shared log: how it is opened, and the log's entries and head in it.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use redb::{Database, ReadableTable, Table, TableDefinition, WriteTransaction, backends::InMemoryBackend};

use super::{
    super::StoreError,
    database::{Opener, catch_panic},
    tables::{self, MIGRATIONS, REVISION, Tables},
    upstream::LogHead,
};

/// First revision of each log entry that the history still needs, and its last revision.
pub(super) const ENTRIES: TableDefinition<'_, u64, u64> = TableDefinition::new("groups");
/// Number of `meta` with the nonce of the head. A copy without it is incomplete.
const NONCE: &str = "stamp";

/// Writes the log's entries and head, within the transaction that writes the rows.
pub(super) struct CopyWriter<'txn> {
    entries: Table<'txn, u64, u64>,
    /// Rows that were written, in the order of the changes.
    pub(super) rows: Vec<(String, Vec<u8>)>,
    /// First revisions of entries that the history no longer needs.
    pub(super) expired: Vec<u64>,
    /// Nonce of the new head, once it is known.
    pub(super) nonce: Option<u64>,
}

impl<'txn> CopyWriter<'txn> {
    pub(super) fn open(writing: &'txn WriteTransaction) -> Result<Self, StoreError> {
        let entries = writing.open_table(ENTRIES)?;
        Ok(Self { entries, rows: Vec::new(), expired: Vec::new(), nonce: None })
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, first_revision: u64, last_revision: u64) -> Result<(), StoreError> {
        self.entries.insert(first_revision, last_revision)?;
        Ok(())
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        Ok(self.entries.retain(|_, _| false)?)
    }

    /// Removes the entry of a revision, if the log table has nothing of it any more.
    pub(super) fn expire(
        &mut self,
        revision: u64,
        log: &impl ReadableTable<(u64, u32), &'static str>,
    ) -> Result<(), StoreError> {
        let found = self.entries.range(..=revision)?.next_back().transpose()?;
        let Some((first, last)) = found.map(|(first, last)| (first.value(), last.value())) else { return Ok(()) };
        // Later revisions than `last` are being written and are in no entry yet.
        if last < revision || log.range((first, 0)..=(last, u32::MAX))?.next().is_some() {
            return Ok(());
        }
        self.entries.remove(first)?;
        self.expired.push(first);
        Ok(())
    }

    /// Writes the nonce of the head, if there is a new head.
    pub(super) fn close(self, meta: &mut Table<'_, &'static str, u64>) -> Result<(), StoreError> {
        if let Some(nonce) = self.nonce {
            meta.insert(NONCE, nonce)?;
        }
        Ok(())
    }
}

/// Returns the head that a copy has reached; `None` if it is incomplete.
pub(super) fn head(tables: &Tables) -> Result<Option<LogHead>, StoreError> {
    let revision = tables.number(REVISION)?;
    let nonce = tables.meta.get(NONCE)?.map(|nonce| nonce.value());
    Ok(nonce.map(|nonce| LogHead { revision, nonce }))
}

/// Opens the file at a path the first time. After a failure of the file, or without a path, a new copy is made in memory.
pub(super) fn opener(path: Option<PathBuf>) -> Opener {
    let is_first = AtomicBool::new(true);
    Box::new(move || {
        let path = path.as_deref().filter(|_| is_first.swap(false, Ordering::Relaxed));
        let opened = path.map(|path| catch_panic(|| on_disk(path)));
        match opened {
            Some(Ok(database)) => return Ok(database),
            Some(Err(error)) => {
                tracing::error!(%error, "on-disk copy of declared objects unavailable: using memory");
            }
            None => tracing::warn!("copy of declared objects is in memory only"),
        }
        tables::open(InMemoryBackend::new(), MIGRATIONS)
    })
}

fn on_disk(path: &Path) -> Result<Database, StoreError> {
    match catch_panic(|| tables::open(tables::file(path)?, MIGRATIONS)) {
        Err(error @ (StoreError::Damaged(_) | StoreError::Newer { .. })) => {
            let moved_to = path.with_extension("redb.damaged");
            tracing::error!(%error, moved_to = %moved_to.display(), "copy of declared objects moved aside and rebuilt");
            std::fs::rename(path, &moved_to).map_err(|e| tables::unusable(path, &e))?;
            tables::open(tables::file(path)?, MIGRATIONS)
        }
        result => result,
    }
}
