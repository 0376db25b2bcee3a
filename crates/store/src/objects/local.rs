//! The store in the data folder: one file, one thread that writes, any number of readers.
//!
//! ```text
//! commit ─► queue ─► writer ─► transaction, synced twice ─► acknowledged
//!                                                        └─► progress ─► each watcher reads the new changes in the log
//! read, list, history ─► a read transaction, on a thread that may wait for the disk
//! ```
//!
//! Not here: the lock of the folder, and when the store is opened and handed over.

mod commit;
mod copy;
mod database;
#[cfg(test)]
mod disk;
mod file;
mod rewrite;
mod tables;
#[cfg(test)]
mod tests;
pub(super) mod upstream;
#[cfg(test)]
mod values_tests;
mod writer;

use std::{path::Path, sync::Arc, thread};

use async_trait::async_trait;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    task::spawn_blocking,
};

pub(super) use self::commit::TableWriter;
pub use self::file::{StoreFile, Verified};
use self::{
    database::{Opener, SharedDatabase, panic_error},
    tables::{MIGRATIONS, REVISION, Tables},
    writer::{Job, PendingBatch, Progress, Writer},
};
use super::{
    Batch, Committed, Entry, Event, HISTORY_LIMITS, HistoryLimits, Key, Listing, Object, ObjectStore, Prefix,
    StoreError, StoreKind, StoreStatus, ValueOptions, WATCH_MAX, Watch, etcd::EtcdLog,
};

/// File of a store in a data folder.
const FILE: &str = "objects.redb";
/// File of a copy of a shared store in a data folder.
const COPY_FILE: &str = "objects-copy.redb";

/// Objects in a file of the data folder. Dropping it closes the file, as [`Self::close`] does.
pub struct LocalStore {
    handle: Handle,
    /// Keeps the writer running.
    jobs: mpsc::Sender<Job>,
    progress: watch::Receiver<Progress>,
    /// One permit for each watcher.
    watchers: Arc<Semaphore>,
    writer: Option<thread::JoinHandle<()>>,
}

impl LocalStore {
    /// Opens the store of a data folder whose lock is held, or creates it (mode 0600). If its values are not encrypted with the first key, or
    /// the file may have secrets of former values, it is written anew first.
    pub fn open(folder: &Path, values: ValueOptions) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        rewrite::prepare(&path, &values)?;
        let opener = Box::new(move || tables::open(tables::file(&path)?, MIGRATIONS));
        Self::open_with(opener, HISTORY_LIMITS, values, None)
    }

    /// Opens the copy of a shared store. Without a folder or a usable file, an empty copy is made in memory: the shared store has
    /// everything that belongs into it.
    pub(super) fn copy_of(folder: Option<&Path>, values: ValueOptions, log: EtcdLog) -> Result<Self, StoreError> {
        let path = folder.map(|folder| folder.join(COPY_FILE));
        // A copy that is unusable for another reason is made anew.
        if let Some(Err(error @ StoreError::Keys(_))) = path.as_ref().map(|path| rewrite::prepare(path, &values)) {
            return Err(error);
        }
        Self::open_with(copy::opener(path), HISTORY_LIMITS, values, Some(log))
    }

    /// Returns a handle of the store that does not keep it open.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    fn open_with(
        opener: Opener,
        limits: HistoryLimits,
        values: ValueOptions,
        log: Option<EtcdLog>,
    ) -> Result<Self, StoreError> {
        let database = Arc::new(SharedDatabase::new(opener, values)?);
        let (writer, progress) = Writer::new(database.clone(), limits, log)?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let thread = thread::Builder::new().name("store".to_owned()).spawn(|| writer.run(queue));
        let thread = thread.map_err(|e| StoreError::Unavailable(format!("cannot start a thread: {e}")))?;
        let handle = Handle { database, jobs: jobs.downgrade() };
        let watchers = Arc::new(Semaphore::new(WATCHERS_MAX));
        Ok(Self { handle, jobs, progress, watchers, writer: Some(thread) })
    }
}

/// Reads the file, and sends jobs to the writer. Does not keep the store open; clones share it.
#[derive(Clone)]
pub(super) struct Handle {
    database: Arc<SharedDatabase>,
    jobs: mpsc::WeakSender<Job>,
}

impl Handle {
    /// Makes a copy fetch what other servers added to the shared store. Returns once the copy is current.
    pub(super) async fn fetch(&self) -> Result<(), StoreError> {
        self.run_job(Job::Fetch).await?
    }

    /// True if the store is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.jobs.upgrade().is_none_or(|jobs| jobs.is_closed())
    }

    /// Sends a job to the writer and waits for its result.
    async fn run_job<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, StoreError> {
        let (result, received) = oneshot::channel();
        let jobs = self.jobs.upgrade().ok_or_else(closed)?;
        jobs.send(job(result)).await.map_err(|_| closed())?;
        drop(jobs);
        received.await.map_err(|_| closed())
    }

    /// Reads on a thread that may wait for the disk: the threads of the runtime also run probes. After a failure of the file it is
    /// opened again and read once more.
    async fn read_tables<T, R>(&self, read: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: Fn(&Tables) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        match read_once(self.database.clone(), read.clone()).await {
            (generation, Err(StoreError::Unavailable(_))) => {
                self.run_job(|done| Job::Reopen(generation, done)).await?;
                read_once(self.database.clone(), read).await.1
            }
            (_, result) => result,
        }
    }

    /// Sends the changes after a revision, as the file gets them. The log is read a page at a time: a slow reader must not keep old pages
    /// of the file alive. Ends when the reader is gone, or so slow that the log has lost its next change, or when watches have to end.
    async fn send_events(
        self,
        mut sent: u64,
        mut progress: watch::Receiver<Progress>,
        out: mpsc::Sender<Arc<[Event]>>,
        _permit: OwnedSemaphorePermit,
    ) {
        let epoch = progress.borrow().epoch;
        loop {
            let Progress { revision: until, epoch: now } = *progress.borrow_and_update();
            if now != epoch {
                return;
            }
            while sent < until {
                let page = match self.read_tables(move |tables| tables.events(sent, until)).await {
                    Ok(page) => page,
                    Err(e) => return tracing::debug!(error = %e, seen = sent, "watch closed"),
                };
                if page.is_empty() {
                    sent = until;
                }
                for events in page {
                    sent = events.first().map_or(sent, |event| event.revision);
                    if out.send(events).await.is_err() {
                        return;
                    }
                }
            }
            tokio::select! {
                changed = progress.changed() => if changed.is_err() { return },
                () = out.closed() => return,
            }
        }
    }
}

/// The error of calls to a closed store.
fn closed() -> StoreError {
    StoreError::Unavailable("it is closed".to_owned())
}

/// Returns the result of one read, and the generation of the database that was read.
async fn read_once<T: Send + 'static>(
    database: Arc<SharedDatabase>,
    read: impl Fn(&Tables) -> Result<T, StoreError> + Send + 'static,
) -> (u64, Result<T, StoreError>) {
    let read = move || {
        let (generation, reading) = database.read();
        (generation, reading.and_then(|reading| read(&Tables::open(&reading, &database.values.keys)?)))
    };
    match spawn_blocking(read).await {
        Ok(result) => result,
        // Generation 0 never was: a damaged file is not opened again, nor is one of a process that ends.
        Err(ended) if ended.is_panic() => (0, Err(panic_error(&*ended.into_panic()))),
        Err(_) => (0, Err(StoreError::Unavailable("this process is stopping".to_owned()))),
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    /// Another process may open the file when this returns; watches end.
    async fn close(&self) {
        let _ = self.handle.run_job(Job::Close).await;
    }

    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        let key = key.clone();
        self.handle.read_tables(move |tables| tables.object(&key)).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, max: usize) -> Result<Listing, StoreError> {
        let (under, after) = (under.clone(), after.cloned());
        self.handle.read_tables(move |tables| tables.list(&under, after.as_ref(), max)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        commit::check_bounds(&batch)?;
        self.handle.run_job(|result| Job::Commit(PendingBatch { batch, result })).await?
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        let permit = self.watchers.clone().try_acquire_owned();
        let permit = permit
            .map_err(|_| StoreError::Unavailable(format!("it has {WATCHERS_MAX} watchers, which is the limit")))?;
        // Before the file is read, so that a restart of a copy after it ends the watch.
        let progress = self.progress.clone();
        let (oldest, latest) =
            self.handle.read_tables(|tables| Ok((tables.number(tables::OLDEST)?, tables.number(REVISION)?))).await?;
        if after < oldest || after > latest {
            return Err(StoreError::Compacted { asked: after, oldest });
        }
        let (out, events) = mpsc::channel(WATCH_MAX);
        tokio::spawn(self.handle().send_events(after, progress, out, permit));
        Ok(Watch { events })
    }

    async fn history(&self, key: &Key, before: Option<u64>, max: usize) -> Result<Vec<Entry>, StoreError> {
        let key = key.clone();
        self.handle.read_tables(move |tables| tables.history(&key, before, max)).await
    }

    fn status(&self) -> StoreStatus {
        let revision = self.progress.borrow().revision;
        StoreStatus { kind: StoreKind::Embedded, endpoint: None, revision, latest: revision, outage: None }
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        // Without a sender the writer finishes the queue, closes the file and ends.
        (self.jobs, _) = mpsc::channel(1);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Maximum number of batches that wait for the writer. Later callers wait until the queue has space.
const QUEUE_MAX: usize = 1_024;
/// Maximum number of watchers.
const WATCHERS_MAX: usize = 1_024;
