//! The thread that writes. Batches that wait share a transaction; each is acknowledged once the disk has it, after watchers got it.
//!
//! While the disk syncs, batches queue up; those that wait then share the next sync. A rejected batch does not affect the others of its
//! transaction. A disk failure fails all of them, and the file is opened again.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use redb::WriteTransaction;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{
    super::{Batch, Committed, Event, HistoryLimits, StoreError, WATCH_MAX},
    commit::{CommitError, Outcome, TableWriter},
    copy,
    database::{SharedDatabase, catch_panic},
    tables::{REVISION, Tables, store_error},
    upstream::{Appended, Fetched, LogEntry, LogHead, NewEntry, Upstream},
};

/// A job for the thread.
pub(super) enum Job {
    /// Closes the file and ends the thread.
    Close(oneshot::Sender<()>),
    /// Commits a batch.
    Commit(PendingBatch),
    /// Brings the copy of a shared store up to date.
    Fetch(oneshot::Sender<Result<(), StoreError>>),
    /// Opens the file again after this generation of it failed.
    Reopen(u64, oneshot::Sender<()>),
    /// Adds a watcher.
    Watch(oneshot::Sender<Result<Subscription, StoreError>>),
}

/// A batch, and the channel for its result.
pub(super) struct PendingBatch {
    pub(super) batch: Batch,
    pub(super) result: oneshot::Sender<Result<Committed, StoreError>>,
}

/// Every batch after a revision.
pub(super) struct Subscription {
    pub(super) after: u64,
    pub(super) live: mpsc::Receiver<Arc<[Event]>>,
}

/// State of the thread.
pub(super) struct Writer {
    database: Arc<SharedDatabase>,
    limits: HistoryLimits,
    /// Last revision that was sent to watchers.
    revision: u64,
    watchers: Vec<mpsc::Sender<Arc<[Event]>>>,
    /// The shared store, if the file is a copy of one.
    upstream: Option<Box<dyn Upstream>>,
    /// `revision`, for readers on other threads.
    published_revision: Arc<AtomicU64>,
}

impl Writer {
    pub(super) fn new(
        database: Arc<SharedDatabase>,
        limits: HistoryLimits,
        mut upstream: Option<Box<dyn Upstream>>,
        published_revision: Arc<AtomicU64>,
    ) -> Result<Self, StoreError> {
        let revision = catch_panic(|| revision(&database)).flatten()?;
        published_revision.store(revision, Ordering::Relaxed);
        if let (Some(upstream), Some(head)) = (&mut upstream, catch_panic(|| copied_head(&database)).flatten()?) {
            upstream.copied(head);
        }
        Ok(Self { database, limits, revision, watchers: Vec::new(), upstream, published_revision })
    }

    /// Works until a job closes it, or all senders are gone.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut next = None;
        let mut close_requested = None;
        while let Some(job) = next.take().or_else(|| jobs.blocking_recv()) {
            match job {
                Job::Close(done) => {
                    close_requested = Some(done);
                    break;
                }
                Job::Commit(first) => {
                    let group;
                    (group, next) = gather(first, &mut jobs);
                    self.commit(group);
                }
                Job::Fetch(done) => {
                    let _ = done.send(self.fetch());
                }
                Job::Reopen(failed, done) => {
                    self.reopen(failed);
                    let _ = done.send(());
                }
                Job::Watch(result) => {
                    let _ = result.send(self.subscribe());
                }
            }
        }
        self.database.close(StoreError::Unavailable("it is closed".to_owned()));
        drop(jobs);
        if let Some(done) = close_requested {
            // The receiver may be gone.
            let _ = done.send(());
        }
    }

    fn commit(&mut self, mut group: Vec<PendingBatch>) {
        // A caller that is gone would never learn the result; nothing was acknowledged to it.
        group.retain(|pending| !pending.result.is_closed());
        if group.is_empty() {
            return;
        }
        let generation = self.database.generation();
        let error = match catch_panic(|| self.transact(&group)) {
            Ok(Ok(outcomes)) => return self.acknowledge(group, outcomes),
            Ok(Err(CommitError::Upstream(error))) => error,
            Ok(Err(CommitError::Batch(error) | CommitError::Transaction(error))) => {
                self.reopen(generation);
                error
            }
            Err(error) => {
                tracing::error!(%error, "store closed: its file is damaged");
                self.database.close(error.clone());
                error
            }
        };
        if group.len() > 1 && matches!(error, StoreError::Damaged(_)) {
            // The damage may concern one of the batches only.
            return group.into_iter().for_each(|pending| self.commit(vec![pending]));
        }
        tracing::warn!(batches = group.len(), %error, "store batches failed");
        for pending in group {
            let _ = pending.result.send(Err(error.clone()));
        }
    }

    /// Returns the result of each batch. Batches that changed something are on disk.
    fn transact(&mut self, group: &[PendingBatch]) -> Result<Vec<Result<Outcome, StoreError>>, CommitError> {
        for _ in 0..RACES_MAX {
            if let Some(outcomes) = self.attempt(group)? {
                return Ok(outcomes);
            }
            self.fetch().map_err(CommitError::Upstream)?;
        }
        let reason = format!("other servers were faster {RACES_MAX} times");
        Err(CommitError::Upstream(StoreError::Unavailable(reason)))
    }

    /// Runs one transaction. Returns `None`, and changes nothing, if other servers appended to the shared store first.
    fn attempt(&mut self, group: &[PendingBatch]) -> Result<Option<Vec<Result<Outcome, StoreError>>>, CommitError> {
        let writing = self.begin().map_err(CommitError::Transaction)?;
        let mut tables =
            TableWriter::open(&writing, self.limits, self.upstream.is_some()).map_err(CommitError::Transaction)?;
        let (before, _) = tables.revisions();
        let mut outcomes = Vec::with_capacity(group.len());
        for pending in group {
            match tables.apply(&pending.batch) {
                Ok(outcome) => outcomes.push(Ok(outcome)),
                Err(CommitError::Batch(error)) => outcomes.push(Err(error)),
                Err(error) => return Err(error),
            }
        }
        let mut new_head = None;
        if let Some(upstream) = &mut self.upstream {
            let head = catch_panic(|| copied_head(&self.database)).flatten().map_err(CommitError::Transaction)?;
            let Some(head) = head else { return Ok(None) };
            match append(&mut **upstream, head, before, &mut tables)? {
                Appended::Behind => return Ok(None),
                Appended::Done(head) => new_head = Some(head),
            }
        }
        if outcomes.iter().flatten().any(|outcome| !outcome.events.is_empty()) {
            tables.close().map_err(CommitError::Transaction)?;
            writing.commit().map_err(|e| CommitError::Transaction(store_error(e)))?;
        }
        // After the commit, since readers that see the new head read the file.
        if let (Some(head), Some(upstream)) = (new_head, &mut self.upstream) {
            upstream.copied(head);
        }
        Ok(Some(outcomes))
    }

    fn begin(&self) -> Result<WriteTransaction, StoreError> {
        match self.database.write() {
            Err(StoreError::Unavailable(_)) => {
                self.database.reopen(self.database.generation())?;
                self.database.write()
            }
            result => result,
        }
    }

    /// Brings the copy of a shared store up to date, and sends the changes to watchers.
    fn fetch(&mut self) -> Result<(), StoreError> {
        let Some(mut upstream) = self.upstream.take() else { return Ok(()) };
        let fetched = catch_panic(|| self.fetch_from(&mut *upstream)).flatten();
        if let Ok(Some(head)) = fetched {
            upstream.copied(head);
        }
        self.upstream = Some(upstream);
        if let Err(error @ StoreError::Damaged(_)) = &fetched {
            tracing::error!(%error, "changes of other servers not applied");
        }
        fetched.map(|_| ())
    }

    /// Returns the new head, if there is one.
    fn fetch_from(&mut self, upstream: &mut dyn Upstream) -> Result<Option<LogHead>, StoreError> {
        let before = copied_head(&self.database)?;
        let writing = self.begin()?;
        let mut tables = TableWriter::open(&writing, self.limits, true)?;
        let mut is_restart = false;
        let mut new_head = None;
        upstream.fetch(before, &mut |fetched| {
            match fetched {
                Fetched::Restart => {
                    (is_restart, new_head) = (true, None);
                    return tables.clear();
                }
                Fetched::Entry(entry) => return tables.apply_entry(&entry),
                Fetched::End { head, oldest } => {
                    // Watchers of the former content must not go on in the new one.
                    let oldest = if is_restart && before.is_some() { head.revision } else { oldest };
                    tables.set_revisions(head.revision, oldest);
                    new_head = Some(head);
                }
            }
            Ok(())
        })?;
        let Some(head) = new_head else { return Ok(None) };
        if let Some(copy) = &mut tables.copy {
            copy.nonce = Some(head.nonce);
        }
        tables.close()?;
        writing.commit().map_err(store_error)?;
        if is_restart {
            self.watchers.clear();
            self.set_revision(head.revision);
        }
        self.catch_up()?;
        Ok(Some(head))
    }

    fn acknowledge(&mut self, group: Vec<PendingBatch>, outcomes: Vec<Result<Outcome, StoreError>>) {
        for (pending, outcome) in group.into_iter().zip(outcomes) {
            let result = outcome.map(|outcome| {
                self.broadcast(outcome.events);
                outcome.committed
            });
            let _ = pending.result.send(result);
        }
    }

    fn broadcast(&mut self, events: Arc<[Event]>) {
        let Some(first) = events.first() else { return };
        self.set_revision(first.revision);
        // A watcher that is too far behind is closed: it watches again from the last revision that it got.
        self.watchers.retain(|watcher| match watcher.try_send(events.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
        });
    }

    fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
        self.published_revision.store(revision, Ordering::Relaxed);
    }

    fn subscribe(&mut self) -> Result<Subscription, StoreError> {
        // After a failure the log may have more than was sent.
        let result = match catch_panic(|| self.catch_up()).flatten() {
            Err(StoreError::Unavailable(_)) => {
                self.reopen(self.database.generation());
                catch_panic(|| self.catch_up()).flatten()
            }
            result => result,
        };
        result?;
        self.watchers.retain(|watcher| !watcher.is_closed());
        if self.watchers.len() >= WATCHERS_MAX {
            return Err(StoreError::Unavailable(format!("it has {WATCHERS_MAX} watchers, which is the limit")));
        }
        let (watcher, live) = mpsc::channel(WATCH_MAX);
        self.watchers.push(watcher);
        Ok(Subscription { after: self.revision, live })
    }

    /// Opens the file again, and sends changes that are in it although their sync was reported as failed.
    fn reopen(&mut self, failed: u64) {
        match self.database.reopen(failed) {
            Ok(()) => tracing::info!("store file reopened"),
            Err(error) => return tracing::error!(%error, "store file not reopened"),
        }
        if let Err(error) = catch_panic(|| self.catch_up()).flatten() {
            tracing::error!(%error, "missed changes not readable: watches closed");
            self.watchers.clear();
        }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        let until = revision(&self.database)?;
        while self.revision < until {
            let tables = Tables::open(&self.database.read().1?)?;
            let page = tables.events(self.revision, until)?;
            if page.is_empty() {
                self.revision = until;
            }
            page.into_iter().for_each(|events| self.broadcast(events));
        }
        Ok(())
    }
}

/// Returns the batches of one transaction, which are those that wait by now, within bounds; and the job after them.
fn gather(first: PendingBatch, jobs: &mut mpsc::Receiver<Job>) -> (Vec<PendingBatch>, Option<Job>) {
    let mut bytes = size(&first.batch);
    let mut group = vec![first];
    while group.len() < GROUP_MAX && bytes < GROUP_BYTES {
        match jobs.try_recv() {
            Ok(Job::Commit(more)) => {
                bytes += size(&more.batch);
                group.push(more);
            }
            Ok(other) => return (group, Some(other)),
            Err(_) => break,
        }
    }
    (group, None)
}

/// Returns the approximate bytes of the rows of a batch: a row has some 256 bytes besides its value.
fn size(batch: &Batch) -> usize {
    batch.changes.iter().map(|change| 256 + change.value.as_ref().map_or(0, Vec::len)).sum()
}

/// Appends the rows of a transaction to the shared store. Without rows, checks that the results of the batches still hold there.
fn append(
    upstream: &mut dyn Upstream,
    head: LogHead,
    before: u64,
    tables: &mut TableWriter<'_>,
) -> Result<Appended, CommitError> {
    let (revision, oldest) = tables.revisions();
    let Some(copy) = &mut tables.copy else { return Ok(Appended::Done(head)) };
    let rows = std::mem::take(&mut copy.rows);
    let entry = LogEntry { first_revision: before + 1, last_revision: revision, rows };
    if !entry.rows.is_empty() {
        copy.add(entry.first_revision, entry.last_revision).map_err(CommitError::Transaction)?;
    }
    let new = NewEntry { entry: &entry, oldest, expired: &copy.expired };
    let appended = upstream.append(head, &new).map_err(CommitError::Upstream)?;
    if let Appended::Done(head) = appended {
        copy.nonce = Some(head.nonce);
    }
    Ok(appended)
}

fn copied_head(database: &SharedDatabase) -> Result<Option<LogHead>, StoreError> {
    copy::head(&Tables::open(&database.read().1?)?)
}

fn revision(database: &SharedDatabase) -> Result<u64, StoreError> {
    Tables::open(&database.read().1?)?.number(REVISION)
}

/// Maximum number of batches of a transaction, and the bytes at which it is full. Both bound the time until the first batch is
/// acknowledged: 8 MiB are written in about 0.1 s.
const GROUP_MAX: usize = 256;
const GROUP_BYTES: usize = 8 << 20;
/// Attempts at a transaction while other servers are faster.
const RACES_MAX: usize = 64;
/// Maximum number of watchers.
pub(super) const WATCHERS_MAX: usize = 1_024;
