//! Applies one batch within a transaction: checks all changes, then writes them, then removes history over its limits.
//!
//! Time and author are in the batch. `writer` begins and ends the transaction.

use std::collections::HashSet;

use fairway_model::Timestamp;
use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::{
    super::{
        AUTHOR_MAX, BATCH_BYTES_MAX, BATCH_MAX, Batch, Change, Committed, HistoryLimits, Key, Object, REASON_MAX,
        StoreError, StoreKeys, VALUE_MAX, ValueOptions, rows_wire::Row,
    },
    copy::CopyWriter,
    tables::{self, HISTORY, HISTORY_BYTES, KEY, LOG, META, OBJECTS, OLDEST, PURGED, REVISION, length, row},
    upstream::{LogEntry, LogHead},
};

/// The tables of a write transaction.
pub(in super::super) struct TableWriter<'txn> {
    objects: Table<'txn, &'static str, &'static [u8]>,
    history: Table<'txn, (&'static str, u64), &'static [u8]>,
    log: Table<'txn, (u64, u32), &'static str>,
    meta: Table<'txn, &'static str, u64>,
    /// Revision of the last batch.
    pub(super) revision: u64,
    /// Oldest revision that can be watched from.
    pub(super) oldest: u64,
    /// Bytes of all history entries.
    bytes: u64,
    limits: HistoryLimits,
    values: ValueOptions,
    /// True if a value with secrets was replaced or deleted: a free page may still have it.
    is_stale: bool,
    /// Set if the file is a copy of a shared store.
    pub(super) copy: Option<CopyWriter<'txn>>,
}

/// The object at a key before a change.
struct Found {
    generation: u64,
    created: Timestamp,
    /// The object, if the change leaves it as it is.
    unchanged: Option<Object>,
    sequence: u64,
}

impl Found {
    /// Returns the object at the key of a change, or a conflict if the change expects another one.
    fn new(change: &Change, bytes: Option<&[u8]>, keys: &StoreKeys) -> Result<Option<Self>, StoreError> {
        let row = bytes.map(|bytes| row(change.key.as_str(), bytes)).transpose()?;
        change.expect.check(&change.key, row.as_ref().map(|row| row.revision))?;
        let Some(row) = row else { return Ok(None) };
        let (generation, created, sequence) = (row.generation, row.created, row.sequence);
        let found = row.object(change.key.clone(), keys)?;
        let unchanged = found.filter(|found| Some(&*found.value) == change.value.as_deref());
        Ok(Some(Self { generation, created, unchanged, sequence }))
    }
}

impl<'txn> TableWriter<'txn> {
    pub(super) fn open(
        writing: &'txn WriteTransaction,
        limits: HistoryLimits,
        values: &ValueOptions,
        is_copy: bool,
    ) -> Result<Self, StoreError> {
        let meta = writing.open_table(META)?;
        let number = |name: &str| Ok::<_, StoreError>(meta.get(name)?.map_or(0, |number| number.value()));
        let (revision, oldest, bytes) = (number(REVISION)?, number(OLDEST)?, number(HISTORY_BYTES)?);
        Ok(Self {
            objects: writing.open_table(OBJECTS)?,
            history: writing.open_table(HISTORY)?,
            log: writing.open_table(LOG)?,
            meta,
            revision,
            oldest,
            bytes,
            limits,
            values: values.clone(),
            is_stale: false,
            copy: is_copy.then(|| CopyWriter::open(writing)).transpose()?,
        })
    }

    /// Writes the numbers of `meta`. The last call before the transaction is committed.
    pub(super) fn close(mut self) -> Result<(), StoreError> {
        self.meta.insert(REVISION, self.revision)?;
        self.meta.insert(OLDEST, self.oldest)?;
        self.meta.insert(HISTORY_BYTES, self.bytes)?;
        self.meta.insert(KEY, self.values.keys.writing_id())?;
        if self.is_stale {
            self.meta.insert(PURGED, 0)?;
        }
        self.copy.map_or(Ok(()), |copy| copy.close(&mut self.meta))
    }

    /// Deletes everything, for a copy that starts over.
    pub(in super::super) fn clear(&mut self) -> Result<(), StoreError> {
        self.objects.retain(|_, _| false)?;
        self.history.retain(|_, _| false)?;
        self.log.retain(|_, _| false)?;
        (self.revision, self.oldest, self.bytes) = (0, 0, 0);
        self.copy.as_mut().map_or(Ok(()), CopyWriter::clear)
    }

    /// Copies an entry of the shared log.
    pub(in super::super) fn apply_entry(&mut self, entry: &LogEntry) -> Result<(), StoreError> {
        for (key, bytes) in &entry.rows {
            // A key of an unknown kind would make every later list fail.
            tables::key(key)?;
            let row = row(key, bytes)?;
            if row.revision != self.revision {
                self.trim_history()?;
                self.revision = row.revision;
            }
            // Another server may write with another key.
            let value = row.open(key, &self.values.keys)?;
            self.insert(key, &row.with_value(value.as_deref()))?;
        }
        self.trim_history()?;
        self.revision = entry.last_revision;
        self.copy.as_mut().map_or(Ok(()), |copy| copy.add(entry.first_revision, entry.last_revision))
    }

    /// Sets the log's head, and the oldest revision that can be watched from.
    pub(super) fn set_head(&mut self, head: LogHead, oldest: u64) {
        self.revision = head.revision;
        self.oldest = self.oldest.max(oldest);
        if let Some(copy) = &mut self.copy {
            copy.nonce = Some(head.nonce);
        }
    }

    /// Applies a batch that is within its bounds. A rejected batch changes nothing; after any other error the transaction must end.
    pub(super) fn apply(&mut self, batch: &Batch) -> Result<Result<Committed, StoreError>, StoreError> {
        let mut found = Vec::with_capacity(batch.changes.len());
        for change in &batch.changes {
            let bytes = self.objects.get(change.key.as_str())?;
            match Found::new(change, bytes.as_ref().map(|bytes| bytes.value()), &self.values.keys) {
                Ok(object) => found.push(object),
                Err(rejection) => return Ok(Err(rejection)),
            }
        }
        let is_effective = |found: &Option<Found>, change: &Change| match found {
            Some(found) => found.unchanged.is_none(),
            None => change.value.is_some(),
        };
        let is_changed = found.iter().zip(&batch.changes).any(|(found, change)| is_effective(found, change));
        self.revision += u64::from(is_changed);
        let mut objects = Vec::with_capacity(found.len());
        let mut position = 0;
        for (found, change) in found.into_iter().zip(&batch.changes) {
            if is_effective(&found, change) {
                objects.push(self.write(batch, change, found, position)?);
                position += 1;
            } else {
                objects.push(found.and_then(|found| found.unchanged));
            }
        }
        self.trim_history()?;
        Ok(Ok(Committed { revision: self.revision, objects }))
    }

    fn write(
        &mut self,
        batch: &Batch,
        change: &Change,
        found: Option<Found>,
        position: u32,
    ) -> Result<Option<Object>, StoreError> {
        let key = change.key.as_str();
        let previous = match &found {
            Some(found) => found.sequence,
            None => self.last_sequence(key)?,
        };
        let created = found.as_ref().map_or(batch.at, |found| found.created);
        let row = Row {
            generation: found.as_ref().map_or(0, |found| found.generation) + 1,
            sequence: previous + 1,
            position,
            ..Row::new(self.revision, batch.by.clone(), (created, batch.at), change.value.as_deref())
        };
        let bytes = self.insert(key, &row)?;
        if let Some(copy) = &mut self.copy {
            copy.rows.push((key.to_owned(), bytes));
        }
        row.object(change.key.clone(), &self.values.keys)
    }

    /// Writes a row of the current revision, with its value in the clear, and removes the history of its key over the limit. Returns its
    /// bytes with the secrets, which only the table of objects has.
    fn insert(&mut self, key: &str, row: &Row<'_>) -> Result<Vec<u8>, StoreError> {
        let Stored { object, history } = Stored::new(&tables::key(key)?, row, &self.values)?;
        let replaced = match row.value {
            Some(_) => self.objects.insert(key, &*object)?,
            None => self.objects.remove(key)?,
        };
        let had_secrets = replaced.map(|bytes| Ok(tables::row(key, bytes.value())?.has_secrets)).transpose();
        self.is_stale |= had_secrets.map_err(|error: StoreError| error)?.unwrap_or(false);
        let history = history.as_deref().unwrap_or(&object);
        let replaced = self.history.insert((key, row.revision), history)?;
        self.bytes = (self.bytes + length(history)).saturating_sub(replaced.map_or(0, |row| length(row.value())));
        self.log.insert((row.revision, row.position), key)?;
        self.trim_history_of(key, row.sequence)?;
        Ok(object)
    }

    /// Returns the sequence number of the last history entry of a key; 0 if there is none.
    fn last_sequence(&self, key: &str) -> Result<u64, StoreError> {
        match self.history.range((key, 0)..=(key, u64::MAX))?.next_back() {
            Some(last) => Ok(row(key, last?.1.value())?.sequence),
            None => Ok(0),
        }
    }

    /// Removes the oldest entries of a key whose last one has this sequence number, down to the limit per key.
    fn trim_history_of(&mut self, key: &str, last: u64) -> Result<(), StoreError> {
        while let Some((sequence, revision, position)) = self.oldest_entry(key)? {
            // Entries are removed from the oldest on, so the sequence numbers of the rest have no gap.
            if usize::try_from(last.saturating_sub(sequence)).unwrap_or(usize::MAX) < self.limits.per_key {
                break;
            }
            self.remove_entry(key, revision)?;
            self.log.remove((revision, position))?;
            self.expire(revision)?;
        }
        Ok(())
    }

    /// Returns sequence number, revision and position of the oldest history entry of a key.
    fn oldest_entry(&self, key: &str) -> Result<Option<(u64, u64, u32)>, StoreError> {
        let first = self.history.range((key, 0)..=(key, u64::MAX))?.next();
        let Some((_, bytes)) = first.transpose()? else { return Ok(None) };
        let row = row(key, bytes.value())?;
        Ok(Some((row.sequence, row.revision, row.position)))
    }

    /// Removes the oldest entries of all keys, down to the limits on their number and bytes.
    fn trim_history(&mut self) -> Result<(), StoreError> {
        let entries_max = u64::try_from(self.limits.entries).unwrap_or(u64::MAX);
        while self.log.len()? > entries_max || self.bytes > self.limits.bytes {
            let (revision, key) = {
                let Some((position, key)) = self.log.pop_first()? else { return Ok(()) };
                (position.value().0, key.value().to_owned())
            };
            self.remove_entry(&key, revision)?;
            self.expire(revision)?;
        }
        Ok(())
    }

    fn remove_entry(&mut self, key: &str, revision: u64) -> Result<(), StoreError> {
        let removed = self.history.remove((key, revision))?;
        self.bytes = self.bytes.saturating_sub(removed.map_or(0, |row| length(row.value())));
        Ok(())
    }

    /// Records that the log lost an entry of a revision.
    fn expire(&mut self, revision: u64) -> Result<(), StoreError> {
        self.oldest = self.oldest.max(revision);
        self.copy.as_mut().map_or(Ok(()), |copy| copy.expire(revision, &self.log))
    }
}

/// A row as the tables have it.
pub(super) struct Stored {
    /// Bytes of the object.
    pub(super) object: Vec<u8>,
    /// Bytes of the history entry, if they differ: they have no secrets.
    pub(super) history: Option<Vec<u8>>,
}

impl Stored {
    /// Encodes a row whose value is in the clear.
    pub(super) fn new(key: &Key, row: &Row<'_>, values: &ValueOptions) -> Result<Self, StoreError> {
        let text = key.as_str();
        let redacted = row.value.filter(|_| !row.is_redacted).and_then(|value| (values.redact)(key.kind(), value));
        let row = Row { has_secrets: redacted.is_some(), ..row.clone() };
        let history = redacted.map(|redacted| {
            let row = Row { has_secrets: false, is_redacted: true, ..row.with_value(Some(&redacted)) };
            row.encode(text, &values.keys)
        });
        Ok(Self { object: row.encode(text, &values.keys)?, history: history.transpose()? })
    }
}

/// Rejects a batch that is over a bound or changes a key twice.
pub(super) fn check_bounds(batch: &Batch) -> Result<(), StoreError> {
    let rejected = |reason: String| Err(StoreError::Refused(reason));
    if batch.changes.len() > BATCH_MAX {
        return rejected(format!("it has {} changes; the limit is {BATCH_MAX}", batch.changes.len()));
    }
    for (field, text, max) in [("author", &batch.by.identity, AUTHOR_MAX), ("reason", &batch.by.reason, REASON_MAX)] {
        if text.len() > max {
            return rejected(format!("the {field} has {} bytes; the limit is {max}", text.len()));
        }
    }
    let mut keys = HashSet::with_capacity(batch.changes.len());
    let mut bytes = 0;
    for change in &batch.changes {
        let length = change.value.as_ref().map_or(0, Vec::len);
        if length > VALUE_MAX {
            return rejected(format!("{} has {length} bytes; the limit is {VALUE_MAX}", change.key));
        }
        bytes += length;
        if bytes > BATCH_BYTES_MAX {
            return rejected(format!("its objects have more than {BATCH_BYTES_MAX} bytes together; split it"));
        }
        if !keys.insert(&change.key) {
            return rejected(format!("it changes {} twice", change.key));
        }
    }
    Ok(())
}
