//! One batch within a transaction: checked as a whole, then carried out; and what is forgotten to make room for it.
//!
//! Pure but for the tables: when it is, and who asks, stands in the batch. When a transaction ends is up to `writer`.

use std::{collections::HashSet, sync::Arc};

use fairway_model::Timestamp;
use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::{
    super::{
        AUTHOR_MAX, BATCH_MAX, BATCH_OCTETS_MAX, Batch, Change, Committed, Event, Object, StoreError, VALUE_MAX,
        rows_wire::Row,
    },
    copy::Copied,
    tables::{HISTORY, LOG, META, OBJECTS, OCTETS, OLDEST, REVISION, length, row, told},
    upstream::Group,
};

/// The tables while they are written to.
pub(super) struct Ledger<'txn> {
    objects: Table<'txn, &'static str, &'static [u8]>,
    history: Table<'txn, (&'static str, u64), &'static [u8]>,
    log: Table<'txn, (u64, u32), &'static str>,
    meta: Table<'txn, &'static str, u64>,
    revision: u64,
    oldest: u64,
    /// Octets of all entries.
    octets: u64,
    /// Entries that are remembered of each key, of all, and octets of all.
    remembered: (usize, usize, u64),
    /// What is noted where the file is a copy of a store elsewhere.
    pub(super) copied: Option<Copied<'txn>>,
}

/// Why a batch is not carried out, and whom that concerns.
#[derive(Debug)]
pub(super) enum Fault {
    /// This batch alone.
    Batch(StoreError),
    /// The whole transaction: some of it may be done.
    Store(StoreError),
    /// The whole transaction, which the store elsewhere did not take.
    Upstream(StoreError),
}

/// What a batch was found to be.
pub(super) struct Outcome {
    /// What is answered.
    pub(super) committed: Committed,
    /// What watchers are told; empty where nothing changed.
    pub(super) events: Arc<[Event]>,
}

/// What is at a key before a change.
struct Found {
    generation: u64,
    created: Timestamp,
    /// The object itself, where the change is none.
    same: Option<Object>,
    nth: u64,
}

impl<'txn> Ledger<'txn> {
    pub(super) fn open(
        writing: &'txn WriteTransaction,
        remembered: (usize, usize, u64),
        is_copy: bool,
    ) -> Result<Self, StoreError> {
        let meta = writing.open_table(META).map_err(told)?;
        let number = |name: &str| Ok::<_, StoreError>(meta.get(name).map_err(told)?.map_or(0, |number| number.value()));
        let (revision, oldest, octets) = (number(REVISION)?, number(OLDEST)?, number(OCTETS)?);
        Ok(Self {
            objects: writing.open_table(OBJECTS).map_err(told)?,
            history: writing.open_table(HISTORY).map_err(told)?,
            log: writing.open_table(LOG).map_err(told)?,
            meta,
            revision,
            oldest,
            octets,
            remembered,
            copied: is_copy.then(|| Copied::open(writing)).transpose()?,
        })
    }

    /// The revision of the last batch, and the oldest one that can be watched from.
    pub(super) const fn revisions(&self) -> (u64, u64) {
        (self.revision, self.oldest)
    }

    /// Writes down what the tables are of: the last thing before the transaction ends.
    pub(super) fn close(mut self) -> Result<(), StoreError> {
        self.meta.insert(REVISION, self.revision).map_err(told)?;
        self.meta.insert(OLDEST, self.oldest).map_err(told)?;
        self.meta.insert(OCTETS, self.octets).map_err(told)?;
        self.copied.map_or(Ok(()), |copied| copied.close(&mut self.meta))
    }

    /// Forgets everything, for a copy that begins anew.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.objects.retain(|_, _| false).map_err(told)?;
        self.history.retain(|_, _| false).map_err(told)?;
        self.log.retain(|_, _| false).map_err(told)?;
        (self.revision, self.oldest, self.octets) = (0, 0, 0);
        self.copied.as_mut().map_or(Ok(()), Copied::clear)
    }

    /// Takes a group as another server carried it out.
    pub(super) fn take(&mut self, group: &Group) -> Result<(), StoreError> {
        for (key, octets) in &group.rows {
            let row = row(key, octets)?;
            if row.revision != self.revision {
                self.forget()?;
                self.revision = row.revision;
            }
            self.keep(key, &row, octets)?;
        }
        self.forget()?;
        self.revision = group.revisions.1;
        self.copied.as_mut().map_or(Ok(()), |copied| copied.add(group.revisions))
    }

    /// What was taken ends with this revision; what can be watched from is told with it.
    pub(super) fn until(&mut self, revision: u64, oldest: u64) {
        self.revision = revision;
        self.oldest = self.oldest.max(oldest);
    }

    /// Carries out a batch that is within its bounds, or leaves everything as it was.
    pub(super) fn carry_out(&mut self, batch: &Batch) -> Result<Outcome, Fault> {
        let found: Vec<_> = batch.changes.iter().map(|change| self.check(change)).collect::<Result<_, _>>()?;
        let changes = |found: &Option<Found>, change: &Change| match found {
            Some(found) => found.same.is_none(),
            None => change.value.is_some(),
        };
        let changed = found.iter().zip(&batch.changes).any(|(found, change)| changes(found, change));
        self.revision += u64::from(changed);
        let (mut objects, mut events) = (Vec::with_capacity(found.len()), Vec::new());
        for (found, change) in found.into_iter().zip(&batch.changes) {
            if !changes(&found, change) {
                objects.push(found.and_then(|found| found.same));
                continue;
            }
            let place = u32::try_from(events.len()).expect("a batch has at most 10,000 changes");
            let object = self.write(batch, change, found, place).map_err(Fault::Store)?;
            events.push(Event { revision: self.revision, key: change.key.clone(), object: object.clone() });
            objects.push(object);
        }
        self.forget().map_err(Fault::Store)?;
        Ok(Outcome { committed: Committed { revision: self.revision, objects }, events: events.into() })
    }

    /// What is at the key of a change, if that is what the change expects.
    fn check(&self, change: &Change) -> Result<Option<Found>, Fault> {
        let key = change.key.as_str();
        let octets = self.objects.get(key).map_err(|e| Fault::Store(told(e)))?;
        let kept = octets.as_ref().map(|octets| row(key, octets.value())).transpose().map_err(Fault::Batch)?;
        let found = kept.as_ref().map(|kept| kept.revision);
        change.expect.check(&change.key, found).map_err(Fault::Batch)?;
        Ok(kept.map(|kept| {
            let (generation, created, nth) = (kept.generation, kept.created, kept.nth);
            let is_same = kept.value.is_some() && kept.value == change.value.as_deref();
            let same = if is_same { kept.object(change.key.clone()) } else { None };
            Found { generation, created, same, nth }
        }))
    }

    fn write(
        &mut self,
        batch: &Batch,
        change: &Change,
        found: Option<Found>,
        place: u32,
    ) -> Result<Option<Object>, StoreError> {
        let key = change.key.as_str();
        let before = match &found {
            Some(found) => found.nth,
            None => self.last_entry(key)?,
        };
        let row = Row {
            revision: self.revision,
            generation: found.as_ref().map_or(0, |found| found.generation) + 1,
            created: found.as_ref().map_or(batch.at, |found| found.created),
            changed: batch.at,
            by: batch.by.clone(),
            nth: before + 1,
            place,
            value: change.value.as_deref(),
        };
        let octets = row.encode(key);
        self.keep(key, &row, &octets)?;
        if let Some(copied) = &mut self.copied {
            copied.rows.push((key.to_owned(), octets));
        }
        Ok(row.object(change.key.clone()))
    }

    /// Puts a row of this revision into the tables, and forgets the oldest of its key that is too much.
    fn keep(&mut self, key: &str, row: &Row<'_>, octets: &[u8]) -> Result<(), StoreError> {
        if row.value.is_some() {
            self.objects.insert(key, octets).map_err(told)?;
        } else {
            self.objects.remove(key).map_err(told)?;
        }
        let before = self.history.insert((key, row.revision), octets).map_err(told)?;
        self.octets = (self.octets + length(octets)).saturating_sub(before.map_or(0, |row| length(row.value())));
        self.log.insert((row.revision, row.place), key).map_err(told)?;
        self.forget_of(key, row.nth)
    }

    /// The number of the last entry of a key; 0 where nothing of it is remembered.
    fn last_entry(&self, key: &str) -> Result<u64, StoreError> {
        match self.history.range((key, 0)..=(key, u64::MAX)).map_err(told)?.next_back() {
            Some(last) => Ok(row(key, last.map_err(told)?.1.value())?.nth),
            None => Ok(0),
        }
    }

    /// Forgets the oldest entries of a key, of which there are this many, until there are as many as are remembered.
    fn forget_of(&mut self, key: &str, last: u64) -> Result<(), StoreError> {
        loop {
            let oldest = {
                let Some(first) = self.history.range((key, 0)..=(key, u64::MAX)).map_err(told)?.next() else {
                    return Ok(());
                };
                let row = first.map_err(told).and_then(|(_, octets)| {
                    let row = row(key, octets.value())?;
                    Ok((row.nth, row.revision, row.place))
                })?;
                // Entries go from the oldest on only, so the numbers of what is there have no gap.
                let (nth, ..) = row;
                if usize::try_from(last.saturating_sub(nth)).unwrap_or(usize::MAX) < self.remembered.0 {
                    return Ok(());
                }
                row
            };
            let (_, revision, place) = oldest;
            self.forget_entry(key, revision)?;
            self.log.remove((revision, place)).map_err(told)?;
            self.forgotten(revision)?;
        }
    }

    /// Forgets the oldest entries of all, until there are as many, and as long ones, as are remembered.
    fn forget(&mut self) -> Result<(), StoreError> {
        let most = u64::try_from(self.remembered.1).unwrap_or(u64::MAX);
        while self.log.len().map_err(told)? > most || self.octets > self.remembered.2 {
            let (revision, key) = {
                let Some((place, key)) = self.log.pop_first().map_err(told)? else { return Ok(()) };
                (place.value().0, key.value().to_owned())
            };
            self.forget_entry(&key, revision)?;
            self.forgotten(revision)?;
        }
        Ok(())
    }

    fn forget_entry(&mut self, key: &str, revision: u64) -> Result<(), StoreError> {
        let gone = self.history.remove((key, revision)).map_err(told)?;
        self.octets = self.octets.saturating_sub(gone.map_or(0, |row| length(row.value())));
        Ok(())
    }

    fn forgotten(&mut self, revision: u64) -> Result<(), StoreError> {
        self.oldest = self.oldest.max(revision);
        self.copied.as_mut().map_or(Ok(()), |copied| copied.forgotten(revision, &self.log))
    }
}

/// Refuses a batch that is over a bound or names a key twice.
pub(super) fn bounded(batch: &Batch) -> Result<(), StoreError> {
    let refused = |why: String| Err(StoreError::Refused(why));
    if batch.changes.len() > BATCH_MAX {
        return refused(format!("it has {} changes, and {BATCH_MAX} are the most", batch.changes.len()));
    }
    for (what, text, most) in [("who", &batch.by.who, AUTHOR_MAX.0), ("why", &batch.by.why, AUTHOR_MAX.1)] {
        if text.len() > most {
            return refused(format!("{what} has {} octets, and {most} are the most", text.len()));
        }
    }
    let (mut seen, mut octets) = (HashSet::with_capacity(batch.changes.len()), 0);
    for change in &batch.changes {
        let length = change.value.as_ref().map_or(0, Vec::len);
        if length > VALUE_MAX {
            return refused(format!("{} says {length} octets, and {VALUE_MAX} are the most", change.key));
        }
        octets += length;
        if octets > BATCH_OCTETS_MAX {
            return refused(format!("its objects say over {BATCH_OCTETS_MAX} octets together; make several of it"));
        }
        if !seen.insert(&change.key) {
            return refused(format!("it names {} twice", change.key));
        }
    }
    Ok(())
}
