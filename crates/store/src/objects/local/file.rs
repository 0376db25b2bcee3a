//! A store's file as a whole: reading it while a server writes to it, verifying, backup, restore, repair.
//!
//! A backup is a store like `objects.redb`, without free space.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fairway_files::remove_if_present;
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table,
    backends::FileBackend,
};

use super::{
    super::{Entry, Key, Listing, Prefix, StoreError, StoreKeys, rows_wire::Row},
    COPY_FILE, FILE,
    database::catch_panic,
    tables::{
        self, HISTORY, HISTORY_BYTES, KEY, LOG, META, MIGRATIONS, OBJECTS, OLDEST, PURGED, REVISION, SCHEMA, Tables,
        begin, builder, key, length, row, schema, unusable,
    },
};
use crate::DataFolder;

/// A store's file, as it was when it was opened, for reading. A server may be writing to it.
pub struct StoreFile {
    reading: ReadTransaction,
    keys: StoreKeys,
}

/// Result of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Current objects.
    pub objects: u64,
    /// History entries of all keys.
    pub entries: u64,
    /// Revision of the last change.
    pub revision: u64,
    /// Oldest revision that can be watched from.
    pub oldest: u64,
}

impl StoreFile {
    /// Returns the path of the store in a data folder.
    pub fn path_in(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Returns the path of the copy of a shared store in a data folder.
    pub fn copy_in(folder: &Path) -> PathBuf {
        folder.join(COPY_FILE)
    }

    /// Renames a folder's copy of a shared store, when a server changes to the data folder. The copy may be the last one of the declared
    /// objects. Returns its new path; `None` if there was no copy.
    pub fn move_copy_aside(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
        let (copy, aside) = (Self::copy_in(folder), folder.join(format!("{COPY_FILE}.aside")));
        match fs::rename(&copy, &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&copy, &error)),
        }
    }

    /// Opens a file of a data folder, or a backup. The keys are needed for values only.
    pub fn open(path: &Path, keys: &StoreKeys) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|e| unusable(path, &e))?;
        catch_panic(|| {
            let backend = FileBackend::new(file)?;
            let database = builder().open_read_only_with_backend(backend)?;
            let reading = database.begin_read()?;
            let (found, known) = (schema(&reading)?, u64::try_from(MIGRATIONS.len()).unwrap_or(u64::MAX));
            match found {
                0 => Err(StoreError::Damaged("the file is empty".to_owned())),
                _ if found > known => Err(StoreError::Newer { found, known }),
                _ => Ok(Self { reading, keys: keys.clone() }),
            }
        })
    }

    /// Checks that the values can be decrypted with the given keys.
    pub fn check_keys(&self) -> Result<(), StoreError> {
        catch_panic(|| self.keys.check(self.tables()?.optional_number(KEY)?.unwrap_or(0)))
    }

    fn tables(&self) -> Result<Tables, StoreError> {
        Tables::open(&self.reading, &self.keys)
    }

    /// Repairs a file after a crash, as the next start would, and verifies the checksum of every page. Returns true if nothing was wrong.
    pub fn repair(_locked: &DataFolder, path: &Path) -> Result<bool, StoreError> {
        catch_panic(|| {
            let mut database = tables::open(tables::file(path)?, MIGRATIONS)?;
            let is_intact = database.check_integrity()?;
            database.close()?;
            Ok(is_intact)
        })
    }

    /// Verifies the checksum of every row, and that objects, history and log agree.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        catch_panic(|| verify(&self.tables()?))
    }

    /// Returns all objects.
    pub fn list(&self) -> Result<Listing, StoreError> {
        catch_panic(|| self.tables()?.list(&Prefix::everything(), None, usize::MAX))
    }

    /// Returns the history of a key, the latest entry first.
    pub fn history(&self, key: &Key, most: usize) -> Result<Vec<Entry>, StoreError> {
        catch_panic(|| self.tables()?.history(key, None, most))
    }

    /// Copies the store into a new file (mode 0600). When this returns, the file survives a power cut. Fails if the file exists.
    pub fn back_up(&self, to: &Path) -> Result<Verified, StoreError> {
        let verified = self.verify()?;
        self.copy(to, verified.revision, verified.oldest)?;
        Ok(verified)
    }

    /// Replaces the store of a data folder by this one. The former store is kept as `objects.redb.replaced`.
    ///
    /// Revisions continue above those of both stores, so that no revision is used twice, and earlier changes cannot be watched.
    pub fn restore(&self, folder: &DataFolder) -> Result<Verified, StoreError> {
        let mut verified = self.verify()?;
        let path = folder.path().join(FILE);
        let (temporary, replaced) = (path.with_extension("redb.new"), path.with_extension("redb.replaced"));
        let replaced_revision =
            if path.exists() { last_revision(&path).unwrap_or(verified.revision + REVISION_GAP) } else { 0 };
        verified.revision = verified.revision.max(replaced_revision) + 1;
        verified.oldest = verified.revision;
        let io = |e: io::Error| unusable(&path, &e);
        remove_if_present(&temporary).map_err(io)?;
        self.copy(&temporary, verified.revision, verified.oldest)?;
        if path.exists() {
            remove_if_present(&replaced).map_err(io)?;
            // A hard link, so that the folder has a store at every moment.
            fs::hard_link(&path, &replaced).map_err(io)?;
        }
        fs::rename(&temporary, &path).and_then(|()| fairway_files::sync_folder(folder.path())).map_err(io)?;
        Ok(verified)
    }

    fn copy(&self, to: &Path, revision: u64, oldest: u64) -> Result<(), StoreError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to);
        let file = file.map_err(|e| unusable(to, &e))?;
        let copied = catch_panic(|| self.copy_into(file, revision, oldest))
            .and_then(|()| fairway_files::sync_folder(fairway_files::folder_of(to)).map_err(|e| unusable(to, &e)));
        if copied.is_err() {
            // An incomplete file must not pass for a backup.
            let _ = fs::remove_file(to);
        }
        copied
    }

    fn copy_into(&self, file: File, revision: u64, oldest: u64) -> Result<(), StoreError> {
        let from = self.tables()?;
        let database: Database = builder().create_with_backend(FileBackend::new(file)?)?;
        let writing = begin(&database)?;
        {
            copy_table(&from.objects, writing.open_table(OBJECTS)?)?;
            copy_table(&from.history, writing.open_table(HISTORY)?)?;
            copy_table(&from.log, writing.open_table(LOG)?)?;
            let mut meta = writing.open_table(META)?;
            let numbers = [(SCHEMA, from.number(SCHEMA)?), (REVISION, revision), (OLDEST, oldest)];
            for (name, number) in numbers {
                meta.insert(name, number)?;
            }
            for name in [HISTORY_BYTES, KEY, PURGED] {
                if let Some(number) = from.optional_number(name)? {
                    meta.insert(name, number)?;
                }
            }
        }
        writing.commit()?;
        Ok(database.close()?)
    }
}

pub(super) fn copy_table<K: redb::Key, V: redb::Value>(
    from: &ReadOnlyTable<K, V>,
    mut to: Table<'_, K, V>,
) -> Result<(), StoreError> {
    for entry in from.iter()? {
        let (key, value) = entry?;
        to.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// Returns the last revision of a store that may be damaged; `None` if it cannot be read.
fn last_revision(path: &Path) -> Option<u64> {
    let read = || {
        let database = tables::open(tables::file(path)?, MIGRATIONS)?;
        let reading = database.begin_read()?;
        Tables::open(&reading, &StoreKeys::default())?.number(REVISION)
    };
    catch_panic(read).ok()
}

fn verify(tables: &Tables) -> Result<Verified, StoreError> {
    let verified = Verified {
        objects: tables.objects.len()?,
        entries: tables.log.len()?,
        revision: tables.number(REVISION)?,
        oldest: tables.number(OLDEST)?,
    };
    let damaged = |reason: String| Err(StoreError::Damaged(reason));
    if tables.history.len()? != verified.entries {
        return damaged("log and history have different numbers of entries".to_owned());
    }
    let mut previous: Option<(String, u64)> = None;
    let mut history_bytes = 0;
    for entry in tables.history.iter()? {
        let (place, bytes) = entry?;
        let (text, revision) = place.value();
        history_bytes += length(bytes.value());
        let row = row(text, bytes.value())?;
        key(text)?;
        let logged = tables.log.get((revision, row.position))?;
        if row.revision != revision || revision > verified.revision {
            return damaged(format!("{text}: the entry at revision {revision} has revision {}", row.revision));
        }
        if logged.is_none_or(|logged| logged.value() != text) {
            return damaged(format!("{text}: revision {revision} is not in the log"));
        }
        if previous.as_ref().is_some_and(|(key, sequence)| key == text && sequence + 1 != row.sequence) {
            return damaged(format!("{text}: an entry before revision {revision} is missing"));
        }
        previous = Some((text.to_owned(), row.sequence));
    }
    if let Some(stored) = tables.optional_number(HISTORY_BYTES)?.filter(|stored| *stored != history_bytes) {
        return damaged(format!("the history has {history_bytes} bytes, and the stored sum is {stored}"));
    }
    for entry in tables.objects.iter()? {
        let (text, bytes) = entry?;
        let row = row(text.value(), bytes.value())?;
        key(text.value())?;
        if row.value.is_none() || row.revision > verified.revision || !is_last(tables, text.value(), &row)? {
            return damaged(format!(
                "{}: the object of revision {} is not the last history entry",
                text.value(),
                row.revision
            ));
        }
    }
    Ok(verified)
}

/// True if an object equals the last entry of its history, or has no history any more.
fn is_last(tables: &Tables, key: &str, object: &Row<'_>) -> Result<bool, StoreError> {
    let last = tables.history.range((key, 0)..=(key, u64::MAX))?.next_back();
    Ok(match last.transpose()? {
        None => true,
        Some((place, bytes)) => {
            let last = row(key, bytes.value())?;
            place.value().1 == object.revision && (last.is_redacted || last.has_value_of(object))
        }
    })
}

/// Distance of a restored store's revision from that of the backup if the revision of the damaged store cannot be read: more than the
/// changes between two backups, and small enough that 2^53, the largest integer that JSON numbers hold, is 2,000,000 restores away.
const REVISION_GAP: u64 = 1 << 32;
