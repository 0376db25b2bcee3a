//! Writes a store's file anew before it is opened: with all values under the first key, and without the secrets of former values.
//!
//! A database file has free pages, which keep what was deleted or replaced until they are used again. A new file has none.

use std::{fs, fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use fairway_files::{folder_of, remove_if_present, sync_folder};
use redb::{Database, ReadableDatabase, ReadableTable, backends::FileBackend};

use super::{
    super::{StoreError, ValueOptions},
    commit::Stored,
    copy::ENTRIES,
    database::catch_panic,
    file::copy_table,
    tables::{
        self, HISTORY, HISTORY_BYTES, KEY, LOG, META, MIGRATIONS, OBJECTS, PURGED, Tables, begin, builder, key, length,
        row, unusable,
    },
};

/// Prepares a file, if there is one.
///
/// # Errors
/// [`StoreError::Keys`] if the values are encrypted with a key that is not given; the file stays as it is.
pub(super) fn prepare(path: &Path, values: &ValueOptions) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    let database = catch_panic(|| tables::open(tables::file(path)?, MIGRATIONS))?;
    let prepared = catch_panic(|| {
        let from = Tables::open(&database.begin_read()?, &values.keys)?;
        let stored = from.optional_number(KEY)?.unwrap_or(0);
        values.keys.check(stored)?;
        let (has_its_key, is_purged) = (stored == values.keys.writing_id(), from.optional_number(PURGED)? == Some(1));
        if has_its_key && is_purged {
            return Ok(());
        }
        match rewrite(path, &database, &from, values) {
            Ok(()) => {
                tracing::info!(file = %path.display(), is_encrypted = values.keys.is_encrypting(), "store file written anew");
                Ok(())
            }
            // Nothing is lost, and the next start tries again.
            Err(error) if has_its_key => {
                tracing::warn!(%error, "secrets of former values not removed from the store file");
                Ok(())
            }
            Err(error) => Err(error),
        }
    });
    if let Err(error) = catch_panic(|| Ok(database.close()?)) {
        tracing::warn!(%error, "store file was not closed cleanly");
    }
    prepared
}

fn rewrite(path: &Path, database: &Database, from: &Tables, values: &ValueOptions) -> Result<(), StoreError> {
    let io = |error| unusable(path, &error);
    let temporary = path.with_extension("redb.anew");
    remove_if_present(&temporary).map_err(io)?;
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&temporary).map_err(io)?;
    let written = catch_panic(|| {
        let new: Database = builder().create_with_backend(FileBackend::new(file)?)?;
        copy_all(database, &new, from, values)?;
        Ok(new.close()?)
    });
    if let Err(error) = written {
        // A leftover is removed by the next attempt.
        let _ = remove_if_present(&temporary);
        return Err(error);
    }
    fs::rename(&temporary, path).and_then(|()| sync_folder(folder_of(path))).map_err(io)
}

fn copy_all(database: &Database, new: &Database, from: &Tables, values: &ValueOptions) -> Result<(), StoreError> {
    let reading = database.begin_read()?;
    let writing = begin(new)?;
    {
        copy_table(&from.log, writing.open_table(LOG)?)?;
        // Only copies of a shared store have this table.
        match reading.open_table(ENTRIES) {
            Ok(entries) => copy_table(&entries, writing.open_table(ENTRIES)?)?,
            Err(redb::TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let mut objects = writing.open_table(OBJECTS)?;
        for entry in from.objects.iter()? {
            let (name, bytes) = entry?;
            objects.insert(name.value(), &*anew(name.value(), bytes.value(), values)?.object)?;
        }
        let (mut history, mut bytes_of_history) = (writing.open_table(HISTORY)?, 0);
        for entry in from.history.iter()? {
            let (place, bytes) = entry?;
            let (name, revision) = place.value();
            let stored = anew(name, bytes.value(), values)?;
            let bytes = stored.history.unwrap_or(stored.object);
            bytes_of_history += length(&bytes);
            history.insert((name, revision), &*bytes)?;
        }
        copy_table(&from.meta, writing.open_table(META)?)?;
        let mut meta = writing.open_table(META)?;
        for (name, number) in [(HISTORY_BYTES, bytes_of_history), (KEY, values.keys.writing_id()), (PURGED, 1)] {
            meta.insert(name, number)?;
        }
    }
    Ok(writing.commit()?)
}

/// Returns a row under the first key, and its form for the history.
fn anew(name: &str, bytes: &[u8], values: &ValueOptions) -> Result<Stored, StoreError> {
    let row = row(name, bytes)?;
    let value = row.open(name, &values.keys)?;
    Stored::new(&key(name)?, &row.with_value(value.as_deref()), values)
}
