//! The tables of the file, how it is opened, and what is read from them. Nothing is written here but the tables of a new file.
//!
//! ```text
//! meta      name ──────────────► number      schema, revision, oldest (the oldest revision that can be watched from), octets (of history)
//! objects   key ───────────────► row         what is there now
//! history   key, revision ─────► row         what was done to a key; the last one of a key is its object, or tells that it went
//! log       revision, place ───► key         the same entries in the order of what happened: one of them for one of history
//! ```

use std::{fs::OpenOptions, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc};

use redb::{
    Builder, ConcurrencyMode, Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageBackend, TableDefinition, WriteTransaction, backends::FileBackend,
};

use super::super::{Entry, Event, Key, Listing, Object, Prefix, StoreError, rows_wire::Row};

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
pub(super) const HISTORY: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("history");
pub(super) const LOG: TableDefinition<'_, (u64, u32), &str> = TableDefinition::new("log");

/// Numbers of `meta`.
pub(super) const SCHEMA: &str = "schema";
pub(super) const REVISION: &str = "revision";
pub(super) const OLDEST: &str = "oldest";
pub(super) const OCTETS: &str = "octets";

/// Brings a store from the version of its place to the next one, within one transaction with all that follow.
pub(super) type Step = fn(&WriteTransaction) -> Result<(), StoreError>;

/// How a store comes to the version that this program reads: that is their number. Nothing at all is version 0.
pub(super) const STEPS: &[Step] = &[make_tables, count_octets];

fn make_tables(writing: &WriteTransaction) -> Result<(), StoreError> {
    writing.open_table(OBJECTS).map_err(told)?;
    writing.open_table(HISTORY).map_err(told)?;
    writing.open_table(LOG).map_err(told)?;
    let mut meta = writing.open_table(META).map_err(told)?;
    for name in [REVISION, OLDEST] {
        meta.insert(name, 0).map_err(told)?;
    }
    Ok(())
}

/// Version 2: how many octets histories have is noted, so that they can be bounded.
fn count_octets(writing: &WriteTransaction) -> Result<(), StoreError> {
    let mut octets = 0;
    for kept in writing.open_table(HISTORY).map_err(told)?.iter().map_err(told)? {
        octets += length(kept.map_err(told)?.1.value());
    }
    writing.open_table(META).map_err(told)?.insert(OCTETS, octets).map_err(told)?;
    Ok(())
}

/// Opens the file at a path for writing, makes it (0600) where it is missing.
pub(super) fn file(path: &Path) -> Result<FileBackend, StoreError> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let backend = file.map_err(|e| unusable(path, &e)).and_then(|file| FileBackend::new(file).map_err(told))?;
    // Its name in the folder must survive a power cut, too.
    fairway_files::sync_folder(fairway_files::folder_of(path)).map_err(|e| unusable(path, &e))?;
    Ok(backend)
}

pub(super) fn unusable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}", path.display()))
}

/// What `Builder` is told for every store: others may read while one writes, which is what `fairway store` does.
pub(super) fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_concurrency_mode(ConcurrencyMode::SingleWriter).set_cache_size(CACHE);
    builder
}

/// Opens a store for writing and brings it to the version that the steps lead to.
pub(super) fn open(backend: impl StorageBackend, steps: &[Step]) -> Result<Database, StoreError> {
    let database = builder().create_with_backend(backend).map_err(told)?;
    let known = u64::try_from(steps.len()).unwrap_or(u64::MAX);
    let found = schema(&database.begin_read().map_err(told)?)?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found < known {
        let writing = begin(&database)?;
        let at = usize::try_from(found).unwrap_or(usize::MAX);
        for step in &steps[at..] {
            step(&writing)?;
        }
        writing.open_table(META).map_err(told)?.insert(SCHEMA, known).map_err(told)?;
        writing.commit().map_err(told)?;
    }
    Ok(database)
}

/// The version of a store; 0 where there is nothing yet.
pub(super) fn schema(reading: &ReadTransaction) -> Result<u64, StoreError> {
    match reading.open_table(META) {
        Ok(meta) => Ok(meta.get(SCHEMA).map_err(told)?.map_or(0, |number| number.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => match reading.list_tables().map_err(told)?.next() {
            None => Ok(0),
            Some(_) => Err(StoreError::Damaged("it holds tables of another program".to_owned())),
        },
        Err(e) => Err(told(e)),
    }
}

/// Begins to write.
///
/// A commit is in two steps, each flushed: data and the new root, then the mark that the new root holds. After a flush that
/// failed, the system may count pages as written that never came to the disk, so a root must not hold by sums alone, which
/// would be taken over those pages in memory. It also keeps whoever chooses what values say from making a sum come out.
/// What is free is written with each commit, so that a start after a crash need not walk the whole file.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, StoreError> {
    let mut writing = database.begin_write().map_err(told)?;
    writing.set_two_phase_commit(true);
    writing.set_quick_repair(true);
    Ok(writing)
}

/// Everything as it was at one moment.
pub(super) struct Tables {
    pub(super) meta: ReadOnlyTable<&'static str, u64>,
    pub(super) objects: ReadOnlyTable<&'static str, &'static [u8]>,
    pub(super) history: ReadOnlyTable<(&'static str, u64), &'static [u8]>,
    pub(super) log: ReadOnlyTable<(u64, u32), &'static str>,
}

impl Tables {
    pub(super) fn open(reading: &ReadTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            meta: reading.open_table(META).map_err(told)?,
            objects: reading.open_table(OBJECTS).map_err(told)?,
            history: reading.open_table(HISTORY).map_err(told)?,
            log: reading.open_table(LOG).map_err(told)?,
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, StoreError> {
        self.noted(name)?.ok_or_else(|| StoreError::Damaged(format!("it has no number {name:?}")))
    }

    /// A number that a file of an earlier version may not have.
    pub(super) fn noted(&self, name: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.meta.get(name).map_err(told)?.map(|number| number.value()))
    }

    pub(super) fn object(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        match self.objects.get(key.as_str()).map_err(told)? {
            Some(octets) => Ok(row(key.as_str(), octets.value())?.object(key.clone())),
            None => Ok(None),
        }
    }

    pub(super) fn list(&self, under: &Prefix, after: Option<&Key>, most: usize) -> Result<Listing, StoreError> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let from = match after.map(Key::as_str) {
            Some(after) if after >= under.as_str() => Excluded(after),
            _ => Included(under.as_str()),
        };
        let mut listing = Listing { revision: self.number(REVISION)?, ..Listing::default() };
        for kept in self.objects.range::<&str>((from, Unbounded)).map_err(told)? {
            let (text, octets) = kept.map_err(told)?;
            if !text.value().starts_with(under.as_str()) {
                break;
            }
            if listing.objects.len() == most {
                listing.more = true;
                break;
            }
            listing.objects.extend(row(text.value(), octets.value())?.object(key(text.value())?));
        }
        Ok(listing)
    }

    pub(super) fn history(&self, key: &Key, before: Option<u64>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let key = key.as_str();
        let range = (key, 0)..(key, before.unwrap_or(u64::MAX));
        let entries = self.history.range(range).map_err(told)?.rev().take(most);
        let entry = |kept: Result<_, redb::StorageError>| {
            let (_, octets): (_, redb::AccessGuard<'_, &[u8]>) = kept.map_err(told)?;
            Ok(row(key, octets.value())?.entry())
        };
        entries.map(entry).collect()
    }

    /// Batches after one revision and up to another, as many as make a page.
    pub(super) fn events(&self, after: u64, until: u64) -> Result<Vec<Arc<[Event]>>, StoreError> {
        let oldest = self.number(OLDEST)?;
        if after < oldest {
            return Err(StoreError::Compacted { asked: after, oldest });
        }
        let (mut page, mut batch, mut octets) = (Vec::<Arc<[Event]>>::new(), Vec::<Event>::new(), 0);
        for kept in self.log.range((after + 1, 0)..=(until, u32::MAX)).map_err(told)? {
            let (place, text) = kept.map_err(told)?;
            let (revision, _) = place.value();
            if batch.last().is_some_and(|event| event.revision != revision) {
                page.push(std::mem::take(&mut batch).into());
                if page.len() >= PAGE_BATCHES || octets >= PAGE_OCTETS {
                    return Ok(page);
                }
            }
            let event = self.event(text.value(), revision)?;
            octets += event.object.as_ref().map_or(0, |object| object.value.len());
            batch.push(event);
        }
        page.extend((!batch.is_empty()).then(|| batch.into()));
        Ok(page)
    }

    fn event(&self, text: &str, revision: u64) -> Result<Event, StoreError> {
        let octets = self.history.get((text, revision)).map_err(told)?;
        let octets = octets
            .ok_or_else(|| StoreError::Damaged(format!("{text}: revision {revision} is missing in its history")))?;
        let key = key(text)?;
        Ok(Event { revision, key: key.clone(), object: row(text, octets.value())?.object(key) })
    }
}

/// Reads the row of a key.
pub(super) fn row<'a>(key: &str, octets: &'a [u8]) -> Result<Row<'a>, StoreError> {
    Row::decode(key, octets).map_err(|e| StoreError::Damaged(format!("the row of {key:.300}: {e}")))
}

/// Octets of a row.
pub(super) fn length(row: &[u8]) -> u64 {
    u64::try_from(row.len()).unwrap_or(u64::MAX)
}

/// Takes a key of the file apart.
pub(super) fn key(text: &str) -> Result<Key, StoreError> {
    Key::parse(text).map_err(|e| StoreError::Damaged(format!("a key: {e}")))
}

/// What the library says, as an error of the store.
pub(super) fn told(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            StoreError::Unavailable("another process has it open".to_owned())
        }
        redb::Error::Io(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
            StoreError::Damaged(format!("the file is cut off, or no store: {error}"))
        }
        error @ (redb::Error::DatabaseClosed
        | redb::Error::Io(_)
        | redb::Error::LockPoisoned(_)
        | redb::Error::PreviousIo
        | redb::Error::RepairAborted
        | redb::Error::TransactionInProgress
        | redb::Error::Unsupported
        | redb::Error::WouldBlock) => StoreError::Unavailable(error.to_string()),
        error => StoreError::Damaged(error.to_string()),
    }
}

/// Memory for pages of the file: what does not fit is read again, mostly from the system's own memory.
const CACHE: usize = 64 << 20;
/// A page of events ends after this many batches, or with the batch that has it hold so many octets.
const PAGE_BATCHES: usize = 256;
const PAGE_OCTETS: usize = 8 << 20;
