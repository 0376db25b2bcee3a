//! The file as a whole: read beside whoever writes to it, checked, copied into a backup, put back from one.
//!
//! A backup is a store of its own, as `objects.redb` is, with nothing in it but what is kept now.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fairway_files::remove_if_present;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, backends::FileBackend};

use super::{
    super::{Entry, Key, Listing, Prefix, StoreError, rows_wire::Row},
    COPY, FILE,
    opened::contained,
    tables::{
        self, HISTORY, LOG, META, OBJECTS, OCTETS, OLDEST, REVISION, SCHEMA, STEPS, Tables, begin, builder, key,
        length, row, schema, told, unusable,
    },
};
use crate::DataFolder;

/// A store's file as it was at the moment it was opened, for reading only. A server may be writing to it.
pub struct StoreFile {
    reading: ReadTransaction,
}

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Objects that are there now.
    pub objects: u64,
    /// Entries of all histories.
    pub entries: u64,
    /// The revision of the last change.
    pub revision: u64,
    /// The oldest revision that can be watched from.
    pub oldest: u64,
}

impl StoreFile {
    /// The file of a store in a data folder.
    pub fn path_in(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// The file of a data folder that is a copy of a store that several servers share.
    pub fn copy_in(folder: &Path) -> PathBuf {
        folder.join(COPY)
    }

    /// Puts a folder's copy of a shared store aside, for a server that keeps its objects in the folder itself from now on: it may be all
    /// that is left of what was declared. Gives where it is then; none where there was no copy.
    pub fn put_copy_aside(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
        let (copy, aside) = (Self::copy_in(folder), folder.join(format!("{COPY}.aside")));
        match fs::rename(&copy, &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&copy, &error)),
        }
    }

    /// Opens a file: that of a data folder, or a backup.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|e| unusable(path, &e))?;
        contained(|| {
            let backend = FileBackend::new(file).map_err(told)?;
            let database = builder().open_read_only_with_backend(backend).map_err(told)?;
            let reading = database.begin_read().map_err(told)?;
            let (found, known) = (schema(&reading)?, u64::try_from(STEPS.len()).unwrap_or(u64::MAX));
            match found {
                0 => Err(StoreError::Damaged("no store is in it".to_owned())),
                _ if found > known => Err(StoreError::Newer { found, known }),
                _ => Ok(Self { reading }),
            }
        })
        .flatten()
    }

    /// Brings a file of a folder in order after a crash, which the next start would do, and has every page's sum checked.
    /// Whether it was in order.
    pub fn mend(_held: &DataFolder, path: &Path) -> Result<bool, StoreError> {
        contained(|| {
            let mut database = tables::open(tables::file(path)?, STEPS)?;
            let in_order = database.check_integrity().map_err(told)?;
            database.close().map_err(told)?;
            Ok(in_order)
        })
        .flatten()
    }

    /// Reads everything: every row's sum, and whether objects, histories and log tell the same.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        contained(|| verify(&Tables::open(&self.reading)?)).flatten()
    }

    /// Everything that is there.
    pub fn list(&self) -> Result<Listing, StoreError> {
        contained(|| Tables::open(&self.reading)?.list(&Prefix::everything(), None, usize::MAX)).flatten()
    }

    /// What was done to a key, the latest first.
    pub fn history(&self, key: &Key, most: usize) -> Result<Vec<Entry>, StoreError> {
        contained(|| Tables::open(&self.reading)?.history(key, None, most)).flatten()
    }

    /// Copies everything into a new file (0600), which is on disk when this returns. A file that is there is left alone.
    pub fn back_up(&self, to: &Path) -> Result<Verified, StoreError> {
        let verified = self.verify()?;
        self.copy(to, verified.revision, verified.oldest)?;
        Ok(verified)
    }

    /// Puts this store into a data folder. The one that was there stays beside it as `objects.redb.replaced`.
    ///
    /// Revisions go on above those of both stores, and changes before it cannot be watched: a revision that was seen once never
    /// means something else.
    pub fn restore(&self, folder: &DataFolder) -> Result<Verified, StoreError> {
        let mut verified = self.verify()?;
        let path = folder.path().join(FILE);
        let (beside, replaced) = (path.with_extension("redb.new"), path.with_extension("redb.replaced"));
        let was = if path.exists() { last_revision(&path).unwrap_or(verified.revision + GAP) } else { 0 };
        verified.revision = verified.revision.max(was) + 1;
        verified.oldest = verified.revision;
        let io = |e: io::Error| unusable(&path, &e);
        remove_if_present(&beside).map_err(io)?;
        self.copy(&beside, verified.revision, verified.oldest)?;
        if path.exists() {
            remove_if_present(&replaced).map_err(io)?;
            // A second name for it, so that there is no moment without a store.
            fs::hard_link(&path, &replaced).map_err(io)?;
        }
        fs::rename(&beside, &path).and_then(|()| fairway_files::sync_folder(folder.path())).map_err(io)?;
        Ok(verified)
    }

    fn copy(&self, to: &Path, revision: u64, oldest: u64) -> Result<(), StoreError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to);
        let file = file.map_err(|e| unusable(to, &e))?;
        let copied = contained(|| self.copy_into(file, revision, oldest))
            .flatten()
            .and_then(|()| fairway_files::sync_folder(fairway_files::folder_of(to)).map_err(|e| unusable(to, &e)));
        if copied.is_err() {
            // Half a backup must not be taken for one.
            let _ = fs::remove_file(to);
        }
        copied
    }

    fn copy_into(&self, file: File, revision: u64, oldest: u64) -> Result<(), StoreError> {
        let from = Tables::open(&self.reading)?;
        let database: Database = builder().create_with_backend(FileBackend::new(file).map_err(told)?).map_err(told)?;
        let writing = begin(&database)?;
        {
            let mut objects = writing.open_table(OBJECTS).map_err(told)?;
            for kept in from.objects.iter().map_err(told)? {
                let (key, row) = kept.map_err(told)?;
                objects.insert(key.value(), row.value()).map_err(told)?;
            }
            let mut history = writing.open_table(HISTORY).map_err(told)?;
            for kept in from.history.iter().map_err(told)? {
                let (place, row) = kept.map_err(told)?;
                history.insert(place.value(), row.value()).map_err(told)?;
            }
            let mut log = writing.open_table(LOG).map_err(told)?;
            for kept in from.log.iter().map_err(told)? {
                let (place, key) = kept.map_err(told)?;
                log.insert(place.value(), key.value()).map_err(told)?;
            }
            let mut meta = writing.open_table(META).map_err(told)?;
            let numbers = [(SCHEMA, from.number(SCHEMA)?), (REVISION, revision), (OLDEST, oldest)];
            for (name, number) in numbers.into_iter().chain(from.noted(OCTETS)?.map(|octets| (OCTETS, octets))) {
                meta.insert(name, number).map_err(told)?;
            }
        }
        writing.commit().map_err(told)?;
        database.close().map_err(told)
    }
}

/// The last revision of a store that may be damaged; none where it cannot be read.
fn last_revision(path: &Path) -> Option<u64> {
    let read = || {
        let database = tables::open(tables::file(path)?, STEPS)?;
        let reading = database.begin_read().map_err(told)?;
        Tables::open(&reading)?.number(REVISION)
    };
    contained(read).flatten().ok()
}

fn verify(tables: &Tables) -> Result<Verified, StoreError> {
    let verified = Verified {
        objects: tables.objects.len().map_err(told)?,
        entries: tables.log.len().map_err(told)?,
        revision: tables.number(REVISION)?,
        oldest: tables.number(OLDEST)?,
    };
    let wrong = |why: String| Err(StoreError::Damaged(why));
    if tables.history.len().map_err(told)? != verified.entries {
        return wrong("log and histories do not have the same entries".to_owned());
    }
    let (mut before, mut octets_in_all): (Option<(String, u64)>, u64) = (None, 0);
    for kept in tables.history.iter().map_err(told)? {
        let (place, octets) = kept.map_err(told)?;
        let (text, revision) = place.value();
        octets_in_all += length(octets.value());
        let row = row(text, octets.value())?;
        key(text)?;
        let logged = tables.log.get((revision, row.place)).map_err(told)?;
        if row.revision != revision || revision > verified.revision {
            return wrong(format!("{text}: an entry of revision {} stands at {revision}", row.revision));
        }
        if logged.is_none_or(|logged| logged.value() != text) {
            return wrong(format!("{text}: revision {revision} is not in the log"));
        }
        if before.as_ref().is_some_and(|(same, nth)| same == text && nth + 1 != row.nth) {
            return wrong(format!("{text}: an entry before revision {revision} is missing"));
        }
        before = Some((text.to_owned(), row.nth));
    }
    if let Some(noted) = tables.noted(OCTETS)?.filter(|noted| *noted != octets_in_all) {
        return wrong(format!("histories have {octets_in_all} octets, and {noted} are noted"));
    }
    for kept in tables.objects.iter().map_err(told)? {
        let (text, octets) = kept.map_err(told)?;
        let row = row(text.value(), octets.value())?;
        key(text.value())?;
        if row.value.is_none() || row.revision > verified.revision || !is_last(tables, text.value(), &row)? {
            return wrong(format!("{}: the object of revision {} is not the last entry", text.value(), row.revision));
        }
    }
    Ok(verified)
}

/// Whether an object is what the last entry of its history says, if there still is one.
fn is_last(tables: &Tables, key: &str, object: &Row<'_>) -> Result<bool, StoreError> {
    let last = tables.history.range((key, 0)..=(key, u64::MAX)).map_err(told)?.next_back();
    Ok(match last.transpose().map_err(told)? {
        None => true,
        Some((place, octets)) => place.value().1 == object.revision && row(key, octets.value())?.value == object.value,
    })
}

impl std::fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreFile").finish_non_exhaustive()
    }
}

/// How far a restore goes above a backup's revision where the revision of the damaged store cannot be read: more changes than
/// anybody makes between two backups, and few enough that 2^53, the last number JSON can tell, is 2,000,000 restores away.
const GAP: u64 = 1 << 32;
