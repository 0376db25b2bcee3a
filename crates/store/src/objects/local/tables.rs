//! The tables of the file, opening and migrating it, and reads.
//!
//! ```text
//! meta      name ───────────────► number   schema, revision, oldest (revision that can be watched from), octets (bytes of history),
//!                                          key (id of the key of all values), purged (1: the file has no secrets of former values)
//! objects   key ────────────────► row      current objects
//! history   key, revision ──────► row      changes of each key; the last one is the object, or its deletion
//! log       revision, position ─► key      the same changes in order: one row for each row of history
//! ```

use std::{fs::OpenOptions, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc};

use redb::{
    Builder, ConcurrencyMode, Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageBackend, TableDefinition, WriteTransaction, backends::FileBackend,
};

use super::super::{Entry, Event, Key, Listing, Object, Prefix, StoreError, StoreKeys, rows_wire::Row};

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
pub(super) const HISTORY: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("history");
pub(super) const LOG: TableDefinition<'_, (u64, u32), &str> = TableDefinition::new("log");

// Names of the numbers of `meta`. A changed name needs a migration.

/// Version of the store: the number of migrations that were applied.
pub(super) const SCHEMA: &str = "schema";
/// Revision of the last change.
pub(super) const REVISION: &str = "revision";
/// Oldest revision that can be watched from.
pub(super) const OLDEST: &str = "oldest";
/// Bytes of all rows of `history`.
pub(super) const HISTORY_BYTES: &str = "octets";
/// Id of the key that encrypts all values; 0 or absent if they are in the clear.
pub(super) const KEY: &str = "key";
/// 1 if no page of the file, used or free, has secrets of a former value. Absent in stores of earlier versions.
pub(super) const PURGED: &str = "purged";

/// Brings a store to the next version. All migrations of a store run in one transaction.
pub(super) type Migration = fn(&WriteTransaction) -> Result<(), StoreError>;

/// The migrations from an empty file (version 0) to the version of this program, which is their number.
pub(super) const MIGRATIONS: &[Migration] = &[create_tables, count_history_bytes];

fn create_tables(writing: &WriteTransaction) -> Result<(), StoreError> {
    writing.open_table(OBJECTS)?;
    writing.open_table(HISTORY)?;
    writing.open_table(LOG)?;
    let mut meta = writing.open_table(META)?;
    for (name, number) in [(REVISION, 0), (OLDEST, 0), (PURGED, 1)] {
        meta.insert(name, number)?;
    }
    Ok(())
}

/// Version 2 stores the bytes of the history, which are bounded.
fn count_history_bytes(writing: &WriteTransaction) -> Result<(), StoreError> {
    let mut bytes = 0;
    for entry in writing.open_table(HISTORY)?.iter()? {
        bytes += length(entry?.1.value());
    }
    writing.open_table(META)?.insert(HISTORY_BYTES, bytes)?;
    Ok(())
}

/// Opens a file for writing, or creates it (mode 0600).
pub(super) fn file(path: &Path) -> Result<FileBackend, StoreError> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let backend = file.map_err(|e| unusable(path, &e)).and_then(|file| Ok(FileBackend::new(file)?))?;
    // A new name in the folder must survive a power cut, too.
    fairway_files::sync_folder(fairway_files::folder_of(path)).map_err(|e| unusable(path, &e))?;
    Ok(backend)
}

/// The error of a file that cannot be used.
pub(super) fn unusable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}", path.display()))
}

/// Returns the options of every database: other processes (`fairway store`) may read while one writes.
pub(super) fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_concurrency_mode(ConcurrencyMode::SingleWriter).set_cache_size(CACHE);
    builder
}

/// Opens a store for writing and applies the migrations that it lacks.
pub(super) fn open(backend: impl StorageBackend, migrations: &[Migration]) -> Result<Database, StoreError> {
    let database = builder().create_with_backend(backend)?;
    let known = u64::try_from(migrations.len()).unwrap_or(u64::MAX);
    let found = schema(&database.begin_read()?)?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found < known {
        let writing = begin(&database)?;
        let applied = usize::try_from(found).unwrap_or(usize::MAX);
        for migrate in &migrations[applied..] {
            migrate(&writing)?;
        }
        writing.open_table(META)?.insert(SCHEMA, known)?;
        writing.commit()?;
    }
    Ok(database)
}

/// Returns the version of a store; 0 of an empty file.
pub(super) fn schema(reading: &ReadTransaction) -> Result<u64, StoreError> {
    match reading.open_table(META) {
        Ok(meta) => Ok(meta.get(SCHEMA)?.map_or(0, |number| number.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => match reading.list_tables()?.next() {
            None => Ok(0),
            Some(_) => Err(StoreError::Damaged("the file has tables of another program".to_owned())),
        },
        Err(e) => Err(e.into()),
    }
}

/// Begins a write transaction.
///
/// A commit has two phases, each synced: data and the new root, then the mark that makes the root valid. With one phase a root is valid
/// by its checksum. After a failed sync the system may report pages as written that never reached the disk, and the checksum would be
/// computed from memory; also, a client that chooses values could make a checksum match. The list of free pages is written with each
/// commit (quick repair), so that a start after a crash need not read the whole file.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, StoreError> {
    let mut writing = database.begin_write()?;
    writing.set_two_phase_commit(true);
    writing.set_quick_repair(true);
    Ok(writing)
}

/// The tables of a read transaction.
pub(super) struct Tables {
    pub(super) meta: ReadOnlyTable<&'static str, u64>,
    pub(super) objects: ReadOnlyTable<&'static str, &'static [u8]>,
    pub(super) history: ReadOnlyTable<(&'static str, u64), &'static [u8]>,
    pub(super) log: ReadOnlyTable<(u64, u32), &'static str>,
    keys: StoreKeys,
}

impl Tables {
    pub(super) fn open(reading: &ReadTransaction, keys: &StoreKeys) -> Result<Self, StoreError> {
        Ok(Self {
            keys: keys.clone(),
            meta: reading.open_table(META)?,
            objects: reading.open_table(OBJECTS)?,
            history: reading.open_table(HISTORY)?,
            log: reading.open_table(LOG)?,
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, StoreError> {
        self.optional_number(name)?.ok_or_else(|| StoreError::Damaged(format!("the number {name:?} is missing")))
    }

    /// Returns a number that a store of an earlier version lacks.
    pub(super) fn optional_number(&self, name: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.meta.get(name)?.map(|number| number.value()))
    }

    pub(super) fn object(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        match self.objects.get(key.as_str())? {
            Some(bytes) => row(key.as_str(), bytes.value())?.object(key.clone(), &self.keys),
            None => Ok(None),
        }
    }

    pub(super) fn list(&self, under: &Prefix, after: Option<&Key>, max: usize) -> Result<Listing, StoreError> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let from = match after.map(Key::as_str) {
            Some(after) if after >= under.as_str() => Excluded(after),
            _ => Included(under.as_str()),
        };
        let mut listing = Listing { revision: self.number(REVISION)?, ..Listing::default() };
        for entry in self.objects.range::<&str>((from, Unbounded))? {
            let (text, bytes) = entry?;
            if !text.value().starts_with(under.as_str()) {
                break;
            }
            if listing.objects.len() == max {
                listing.more = true;
                break;
            }
            listing.objects.extend(row(text.value(), bytes.value())?.object(key(text.value())?, &self.keys)?);
        }
        Ok(listing)
    }

    pub(super) fn history(&self, key: &Key, before: Option<u64>, max: usize) -> Result<Vec<Entry>, StoreError> {
        let key = key.as_str();
        let range = (key, 0)..(key, before.unwrap_or(u64::MAX));
        let mut history = Vec::new();
        for entry in self.history.range(range)?.rev().take(max) {
            let mut entry = row(key, entry?.1.value())?.entry(key, &self.keys)?;
            if entry.is_redacted
                && let Some(current) = self.objects.get(key)?
                && let current = row(key, current.value())?
                && current.revision == entry.revision
            {
                entry = current.entry(key, &self.keys)?;
            }
            history.push(entry);
        }
        Ok(history)
    }

    /// Returns a page of batches after one revision and up to another.
    pub(super) fn events(&self, after: u64, until: u64) -> Result<Vec<Arc<[Event]>>, StoreError> {
        let oldest = self.number(OLDEST)?;
        if after < oldest {
            return Err(StoreError::Compacted { asked: after, oldest });
        }
        let mut page = Vec::<Arc<[Event]>>::new();
        let mut batch = Vec::<Event>::new();
        let mut bytes = 0;
        for entry in self.log.range((after + 1, 0)..=(until, u32::MAX))? {
            let (position, text) = entry?;
            let (revision, _) = position.value();
            if batch.last().is_some_and(|event| event.revision != revision) {
                page.push(std::mem::take(&mut batch).into());
                if page.len() >= PAGE_BATCHES || bytes >= PAGE_BYTES {
                    return Ok(page);
                }
            }
            let event = self.event(text.value(), revision)?;
            bytes += event.object.as_ref().map_or(0, |object| object.value.len());
            batch.push(event);
        }
        if !batch.is_empty() {
            page.push(batch.into());
        }
        Ok(page)
    }

    fn event(&self, text: &str, revision: u64) -> Result<Event, StoreError> {
        let bytes = self
            .history
            .get((text, revision))?
            .ok_or_else(|| StoreError::Damaged(format!("{text}: revision {revision} is missing in the history")))?;
        let (key, row) = (key(text)?, row(text, bytes.value())?);
        // Who follows the store needs the secrets. Those of a former value are gone, and the present one comes next anyway.
        let object = if row.is_redacted { self.object(&key)? } else { row.object(key.clone(), &self.keys)? };
        Ok(Event { revision, key, object })
    }
}

/// Decodes the row of a key.
pub(super) fn row<'a>(key: &str, bytes: &'a [u8]) -> Result<Row<'a>, StoreError> {
    Row::decode(key, bytes).map_err(|e| StoreError::Damaged(format!("the row of {key:.300}: {e}")))
}

/// Returns the bytes of a row.
pub(super) fn length(row: &[u8]) -> u64 {
    u64::try_from(row.len()).unwrap_or(u64::MAX)
}

/// Parses a key of the file.
pub(super) fn key(text: &str) -> Result<Key, StoreError> {
    Key::parse(text).map_err(|e| StoreError::Damaged(format!("a key: {e}")))
}

impl From<redb::Error> for StoreError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
                Self::Unavailable("another process has it open".to_owned())
            }
            redb::Error::Io(error)
                if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) =>
            {
                Self::Damaged(format!("the file is truncated or not a store: {error}"))
            }
            // The library reads files of its own major version only.
            redb::Error::UpgradeRequired(format) => Self::Unavailable(format!(
                "the file has format {format} of an older fairway; run that one to export all objects with `fairway get`, remove the file, and \
                 import them with `fairway apply`"
            )),
            error @ (redb::Error::DatabaseClosed
            | redb::Error::Io(_)
            | redb::Error::LockPoisoned(_)
            | redb::Error::PreviousIo
            | redb::Error::RepairAborted
            | redb::Error::TransactionInProgress
            | redb::Error::Unsupported
            | redb::Error::WouldBlock) => Self::Unavailable(error.to_string()),
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// Converts the errors of single calls of redb, so that `?` can be used on each.
macro_rules! from_redb {
    ($($error:ident)*) => {
        $(impl From<redb::$error> for StoreError {
            fn from(error: redb::$error) -> Self {
                redb::Error::from(error).into()
            }
        })*
    };
}

from_redb!(CommitError DatabaseError StorageError TableError TransactionError);

/// Memory for pages of the file. Other pages are read again, usually from the page cache of the system.
///
/// With 64 MiB, a server with 50,000 TXT endpoints of 1,000 bytes needed 56 to 64 MiB more, and neither its start nor changes of 4,000
/// of them took less CPU.
const CACHE: usize = 16 << 20;
/// A page of events ends after this many batches, or with the batch that brings it to this many bytes: as large as a transaction.
const PAGE_BATCHES: usize = 256;
const PAGE_BYTES: usize = 8 << 20;
