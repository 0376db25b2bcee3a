//! Applies one batch within a transaction: checks all changes, then writes them, then removes history over its limits.
//!
//! Time and author are in the batch. `writer` begins and ends the transaction.

use std::{collections::HashSet, sync::Arc};

use fairway_model::Timestamp;
use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::{
    super::{
        AUTHOR_MAX, BATCH_BYTES_MAX, BATCH_MAX, Batch, Change, Committed, Event, HistoryLimits, Object, REASON_MAX,
        StoreError, VALUE_MAX, rows_wire::Row,
    },
    copy::CopyWriter,
    tables::{HISTORY, HISTORY_BYTES, LOG, META, OBJECTS, OLDEST, REVISION, length, row, store_error},
    upstream::LogEntry,
};

/// The tables of a write transaction.
pub(super) struct TableWriter<'txn> {
    objects: Table<'txn, &'static str, &'static [u8]>,
    history: Table<'txn, (&'static str, u64), &'static [u8]>,
    log: Table<'txn, (u64, u32), &'static str>,
    meta: Table<'txn, &'static str, u64>,
    revision: u64,
    oldest: u64,
    /// Bytes of all history entries.
    bytes: u64,
    limits: HistoryLimits,
    /// Set if the file is a copy of a shared store.
    pub(super) copy: Option<CopyWriter<'txn>>,
}

/// Error of a batch, by what it makes fail.
#[derive(Debug)]
pub(super) enum CommitError {
    /// This batch only; it wrote nothing.
    Batch(StoreError),
    /// The transaction: a part of it may be written.
    Transaction(StoreError),
    /// The transaction, because the shared store did not accept it.
    Upstream(StoreError),
}

/// Result of a batch.
pub(super) struct Outcome {
    pub(super) committed: Committed,
    /// Events for watchers; empty if nothing changed.
    pub(super) events: Arc<[Event]>,
}

/// The object at a key before a change.
struct Found {
    generation: u64,
    created: Timestamp,
    /// The object, if the change leaves it as it is.
    unchanged: Option<Object>,
    sequence: u64,
}

impl<'txn> TableWriter<'txn> {
    pub(super) fn open(
        writing: &'txn WriteTransaction,
        limits: HistoryLimits,
        is_copy: bool,
    ) -> Result<Self, StoreError> {
        let meta = writing.open_table(META).map_err(store_error)?;
        let number =
            |name: &str| Ok::<_, StoreError>(meta.get(name).map_err(store_error)?.map_or(0, |number| number.value()));
        let (revision, oldest, bytes) = (number(REVISION)?, number(OLDEST)?, number(HISTORY_BYTES)?);
        Ok(Self {
            objects: writing.open_table(OBJECTS).map_err(store_error)?,
            history: writing.open_table(HISTORY).map_err(store_error)?,
            log: writing.open_table(LOG).map_err(store_error)?,
            meta,
            revision,
            oldest,
            bytes,
            limits,
            copy: is_copy.then(|| CopyWriter::open(writing)).transpose()?,
        })
    }

    /// Returns the revision of the last batch, and the oldest revision that can be watched from.
    pub(super) const fn revisions(&self) -> (u64, u64) {
        (self.revision, self.oldest)
    }

    /// Writes the numbers of `meta`. The last call before the transaction is committed.
    pub(super) fn close(mut self) -> Result<(), StoreError> {
        self.meta.insert(REVISION, self.revision).map_err(store_error)?;
        self.meta.insert(OLDEST, self.oldest).map_err(store_error)?;
        self.meta.insert(HISTORY_BYTES, self.bytes).map_err(store_error)?;
        self.copy.map_or(Ok(()), |copy| copy.close(&mut self.meta))
    }

    /// Deletes everything, for a copy that starts over.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.objects.retain(|_, _| false).map_err(store_error)?;
        self.history.retain(|_, _| false).map_err(store_error)?;
        self.log.retain(|_, _| false).map_err(store_error)?;
        (self.revision, self.oldest, self.bytes) = (0, 0, 0);
        self.copy.as_mut().map_or(Ok(()), CopyWriter::clear)
    }

    /// Copies an entry of the shared log.
    pub(super) fn apply_entry(&mut self, entry: &LogEntry) -> Result<(), StoreError> {
        for (key, bytes) in &entry.rows {
            let row = row(key, bytes)?;
            if row.revision != self.revision {
                self.trim_history()?;
                self.revision = row.revision;
            }
            self.insert(key, &row, bytes)?;
        }
        self.trim_history()?;
        self.revision = entry.last_revision;
        self.copy.as_mut().map_or(Ok(()), |copy| copy.add(entry.first_revision, entry.last_revision))
    }

    /// Sets the revision of the log's head, and the oldest revision that can be watched from.
    pub(super) fn set_revisions(&mut self, revision: u64, oldest: u64) {
        self.revision = revision;
        self.oldest = self.oldest.max(oldest);
    }

    /// Applies a batch that is within its bounds, or changes nothing.
    pub(super) fn apply(&mut self, batch: &Batch) -> Result<Outcome, CommitError> {
        let found: Vec<_> = batch.changes.iter().map(|change| self.check(change)).collect::<Result<_, _>>()?;
        let changes = |found: &Option<Found>, change: &Change| match found {
            Some(found) => found.unchanged.is_none(),
            None => change.value.is_some(),
        };
        let is_changed = found.iter().zip(&batch.changes).any(|(found, change)| changes(found, change));
        self.revision += u64::from(is_changed);
        let mut objects = Vec::with_capacity(found.len());
        let mut events = Vec::new();
        for (found, change) in found.into_iter().zip(&batch.changes) {
            if !changes(&found, change) {
                objects.push(found.and_then(|found| found.unchanged));
                continue;
            }
            let position = u32::try_from(events.len()).expect("a batch has at most 10,000 changes");
            let object = self.write(batch, change, found, position).map_err(CommitError::Transaction)?;
            events.push(Event { revision: self.revision, key: change.key.clone(), object: object.clone() });
            objects.push(object);
        }
        self.trim_history().map_err(CommitError::Transaction)?;
        Ok(Outcome { committed: Committed { revision: self.revision, objects }, events: events.into() })
    }

    /// Returns the object at the key of a change, or a conflict if the change expects another one.
    fn check(&self, change: &Change) -> Result<Option<Found>, CommitError> {
        let key = change.key.as_str();
        let bytes = self.objects.get(key).map_err(|e| CommitError::Transaction(store_error(e)))?;
        let row = bytes.as_ref().map(|bytes| row(key, bytes.value())).transpose().map_err(CommitError::Batch)?;
        let found = row.as_ref().map(|row| row.revision);
        change.expect.check(&change.key, found).map_err(CommitError::Batch)?;
        Ok(row.map(|row| {
            let (generation, created, sequence) = (row.generation, row.created, row.sequence);
            let is_unchanged = row.value.is_some() && row.value == change.value.as_deref();
            let unchanged = if is_unchanged { row.object(change.key.clone()) } else { None };
            Found { generation, created, unchanged, sequence }
        }))
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
        let row = Row {
            revision: self.revision,
            generation: found.as_ref().map_or(0, |found| found.generation) + 1,
            created: found.as_ref().map_or(batch.at, |found| found.created),
            changed: batch.at,
            by: batch.by.clone(),
            sequence: previous + 1,
            position,
            value: change.value.as_deref(),
        };
        let bytes = row.encode(key);
        self.insert(key, &row, &bytes)?;
        if let Some(copy) = &mut self.copy {
            copy.rows.push((key.to_owned(), bytes));
        }
        Ok(row.object(change.key.clone()))
    }

    /// Writes a row of the current revision, and removes the history of its key over the limit.
    fn insert(&mut self, key: &str, row: &Row<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        if row.value.is_some() {
            self.objects.insert(key, bytes).map_err(store_error)?;
        } else {
            self.objects.remove(key).map_err(store_error)?;
        }
        let replaced = self.history.insert((key, row.revision), bytes).map_err(store_error)?;
        self.bytes = (self.bytes + length(bytes)).saturating_sub(replaced.map_or(0, |row| length(row.value())));
        self.log.insert((row.revision, row.position), key).map_err(store_error)?;
        self.trim_history_of(key, row.sequence)
    }

    /// Returns the sequence number of the last history entry of a key; 0 if there is none.
    fn last_sequence(&self, key: &str) -> Result<u64, StoreError> {
        match self.history.range((key, 0)..=(key, u64::MAX)).map_err(store_error)?.next_back() {
            Some(last) => Ok(row(key, last.map_err(store_error)?.1.value())?.sequence),
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
            self.log.remove((revision, position)).map_err(store_error)?;
            self.expire(revision)?;
        }
        Ok(())
    }

    /// Returns sequence number, revision and position of the oldest history entry of a key.
    fn oldest_entry(&self, key: &str) -> Result<Option<(u64, u64, u32)>, StoreError> {
        let first = self.history.range((key, 0)..=(key, u64::MAX)).map_err(store_error)?.next();
        let Some((_, bytes)) = first.transpose().map_err(store_error)? else { return Ok(None) };
        let row = row(key, bytes.value())?;
        Ok(Some((row.sequence, row.revision, row.position)))
    }

    /// Removes the oldest entries of all keys, down to the limits on their number and bytes.
    fn trim_history(&mut self) -> Result<(), StoreError> {
        let entries_max = u64::try_from(self.limits.entries).unwrap_or(u64::MAX);
        while self.log.len().map_err(store_error)? > entries_max || self.bytes > self.limits.bytes {
            let (revision, key) = {
                let Some((position, key)) = self.log.pop_first().map_err(store_error)? else { return Ok(()) };
                (position.value().0, key.value().to_owned())
            };
            self.remove_entry(&key, revision)?;
            self.expire(revision)?;
        }
        Ok(())
    }

    fn remove_entry(&mut self, key: &str, revision: u64) -> Result<(), StoreError> {
        let removed = self.history.remove((key, revision)).map_err(store_error)?;
        self.bytes = self.bytes.saturating_sub(removed.map_or(0, |row| length(row.value())));
        Ok(())
    }

    /// Records that the log lost an entry of a revision.
    fn expire(&mut self, revision: u64) -> Result<(), StoreError> {
        self.oldest = self.oldest.max(revision);
        self.copy.as_mut().map_or(Ok(()), |copy| copy.expire(revision, &self.log))
    }
}

/// Rejects a batch that is over a bound or changes a key twice.
pub(super) fn check_bounds(batch: &Batch) -> Result<(), StoreError> {
    let rejected = |reason: String| Err(StoreError::Refused(reason));
    if batch.changes.len() > BATCH_MAX {
        return rejected(format!("it has {} changes; the limit is {BATCH_MAX}", batch.changes.len()));
    }
    for (field, text, max) in [("author", &batch.by.who, AUTHOR_MAX), ("reason", &batch.by.why, REASON_MAX)] {
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
