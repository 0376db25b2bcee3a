//! The thread that writes. Batches that wait share a transaction; each is acknowledged once the disk has it.
//!
//! While the disk syncs, batches queue up; those that wait then share the next sync. A rejected batch does not affect the others of its
//! transaction. A disk failure fails all of them, and the file is opened again.

use std::sync::Arc;

use redb::WriteTransaction;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    super::{Batch, Committed, HistoryLimits, StoreError, etcd::EtcdLog},
    commit::TableWriter,
    copy,
    database::{SharedDatabase, catch_panic},
    tables::REVISION,
    upstream::{LogEntry, LogHead},
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
}

/// A batch, and the channel for its result.
pub(super) struct PendingBatch {
    pub(super) batch: Batch,
    pub(super) result: oneshot::Sender<Result<Committed, StoreError>>,
}

/// Progress of the file, for watchers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Revision of the last batch.
    pub(super) revision: u64,
    /// Changes when all watches have to end.
    pub(super) epoch: u64,
}

/// State of the thread.
pub(super) struct Writer {
    database: Arc<SharedDatabase>,
    limits: HistoryLimits,
    /// The shared log, if the file is a copy of one.
    log: Option<EtcdLog>,
    progress: watch::Sender<Progress>,
}

/// Error of a transaction.
enum TransactionError {
    /// The file failed: a part of the transaction may be written.
    File(StoreError),
    /// The shared log did not accept the entry.
    Log(StoreError),
}

impl<E: Into<StoreError>> From<E> for TransactionError {
    fn from(error: E) -> Self {
        Self::File(error.into())
    }
}

impl Writer {
    pub(super) fn new(
        database: Arc<SharedDatabase>,
        limits: HistoryLimits,
        log: Option<EtcdLog>,
    ) -> Result<(Self, watch::Receiver<Progress>), StoreError> {
        let revision = catch_panic(|| revision(&database))?;
        if let (Some(log), Some(head)) = (&log, catch_panic(|| copied_head(&database))?) {
            log.status.copied(head);
        }
        let (progress, receiver) = watch::channel(Progress { revision, epoch: 0 });
        Ok((Self { database, limits, log, progress }, receiver))
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
        let error = match catch_panic(|| Ok(self.transact(&group))) {
            Ok(Ok(results)) => {
                for (pending, result) in group.into_iter().zip(results) {
                    let _ = pending.result.send(result);
                }
                return;
            }
            Ok(Err(TransactionError::Log(error))) => error,
            Ok(Err(TransactionError::File(error))) => {
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
    fn transact(&mut self, group: &[PendingBatch]) -> Result<Vec<Result<Committed, StoreError>>, TransactionError> {
        for _ in 0..RACES_MAX {
            if let Some(results) = self.attempt(group)? {
                return Ok(results);
            }
            self.fetch().map_err(TransactionError::Log)?;
        }
        let reason = format!("other servers were faster {RACES_MAX} times");
        Err(TransactionError::Log(StoreError::Unavailable(reason)))
    }

    /// Runs one transaction. Returns `None`, and changes nothing, if other servers appended to the shared log first.
    fn attempt(
        &mut self,
        group: &[PendingBatch],
    ) -> Result<Option<Vec<Result<Committed, StoreError>>>, TransactionError> {
        let writing = self.begin()?;
        let mut tables = TableWriter::open(&writing, self.limits, &self.database.values, self.log.is_some())?;
        let before = tables.revision;
        let mut results = Vec::with_capacity(group.len());
        for pending in group {
            results.push(tables.apply(&pending.batch)?);
        }
        let revision = tables.revision;
        let mut new_head = None;
        if let Some(log) = &mut self.log {
            let Some(head) = copied_head(&self.database)? else { return Ok(None) };
            new_head = append(log, head, before, &mut tables)?;
            if new_head.is_none() {
                return Ok(None);
            }
        }
        if revision != before {
            tables.close()?;
            writing.commit()?;
        }
        // After the commit, since those who see the new head or revision read the file.
        if let (Some(head), Some(log)) = (new_head, &self.log) {
            log.status.copied(head);
        }
        self.publish(revision);
        Ok(Some(results))
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

    /// Brings the copy of a shared log up to date.
    fn fetch(&mut self) -> Result<(), StoreError> {
        catch_panic(|| self.fetch_entries())
    }

    fn fetch_entries(&mut self) -> Result<(), StoreError> {
        let before = copied_head(&self.database)?;
        let writing = self.begin()?;
        let Some(log) = &mut self.log else { return Ok(()) };
        let mut tables = TableWriter::open(&writing, self.limits, &self.database.values, true)?;
        let Some(fetched) = log.fetch(before, &mut tables)? else { return Ok(()) };
        let head = fetched.head;
        // Watchers of the former content must not go on in the new one.
        let oldest = if fetched.is_restart && before.is_some() { head.revision } else { fetched.oldest };
        tables.set_head(head, oldest);
        tables.close()?;
        writing.commit()?;
        if fetched.is_restart {
            self.progress.send_modify(|progress| progress.epoch += 1);
        }
        self.publish(head.revision);
        if let Some(log) = &self.log {
            log.status.copied(head);
        }
        Ok(())
    }

    /// Makes watchers read the changes up to a revision.
    fn publish(&self, revision: u64) {
        self.progress.send_if_modified(|progress| {
            let is_new = progress.revision != revision;
            progress.revision = revision;
            is_new
        });
    }

    /// Opens the file again. Watchers then get changes that are in it although their sync was reported as failed.
    fn reopen(&self, failed: u64) {
        match self.database.reopen(failed) {
            Ok(()) => tracing::info!("store file reopened"),
            Err(error) => return tracing::error!(%error, "store file not reopened"),
        }
        match catch_panic(|| revision(&self.database)) {
            Ok(revision) => self.publish(revision),
            Err(error) => {
                tracing::error!(%error, "missed changes not readable: watches closed");
                self.progress.send_modify(|progress| progress.epoch += 1);
            }
        }
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

/// Appends the rows of a transaction to the shared log, and returns its new head. Without rows, checks that the results of the batches
/// still hold there. Returns `None` if another server appended first.
fn append(
    log: &mut EtcdLog,
    head: LogHead,
    before: u64,
    tables: &mut TableWriter<'_>,
) -> Result<Option<LogHead>, TransactionError> {
    let (last_revision, oldest) = (tables.revision, tables.oldest);
    let Some(copy) = &mut tables.copy else { return Ok(Some(head)) };
    let rows = std::mem::take(&mut copy.rows);
    let entry = LogEntry { first_revision: before + 1, last_revision, rows };
    if !entry.rows.is_empty() {
        copy.add(entry.first_revision, entry.last_revision)?;
    }
    let appended = log.append(head, &entry, oldest, &copy.expired).map_err(TransactionError::Log)?;
    copy.nonce = appended.map(|head| head.nonce);
    Ok(appended)
}

fn copied_head(database: &SharedDatabase) -> Result<Option<LogHead>, StoreError> {
    copy::head(&database.tables()?)
}

fn revision(database: &SharedDatabase) -> Result<u64, StoreError> {
    database.tables()?.number(REVISION)
}

/// Maximum number of batches of a transaction, and the bytes at which it is full. Both bound the time until the first batch is
/// acknowledged: 8 MiB are written in about 0.1 s.
const GROUP_MAX: usize = 256;
const GROUP_BYTES: usize = 8 << 20;
/// Maximum number of attempts at a transaction while other servers are faster.
const RACES_MAX: usize = 64;
