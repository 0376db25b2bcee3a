//! The store in the data folder: one file, one thread that writes, any number of readers.
//!
//! ```text
//! commit ─► queue ─► writer ─► transaction, synced twice ─► watchers ─► acknowledged
//! read, list, history ─► a read transaction, on a thread that may wait for the disk
//! watch ─► changes in the log after a revision, then those that the writer sends
//! ```
//!
//! Not here: the lock of the folder, and when the store is opened and handed over.

mod commit;
mod copy;
mod database;
#[cfg(test)]
mod disk;
mod file;
mod tables;
#[cfg(test)]
mod tests;
pub(super) mod upstream;
mod writer;

use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use async_trait::async_trait;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
};

pub use self::file::{StoreFile, Verified};
use self::{
    database::{Opener, SharedDatabase, panic_error},
    tables::{MIGRATIONS, REVISION, Tables},
    upstream::Upstream,
    writer::{Job, PendingBatch, Subscription, Writer},
};
use super::{
    Batch, Committed, Entry, Event, HISTORY_LIMITS, HistoryLimits, Key, Listing, Object, ObjectStore, Prefix,
    StoreError, StoreKind, StoreStatus, Watch,
};

/// File of a store in a data folder.
const FILE: &str = "objects.redb";
/// File of a copy of a shared store in a data folder.
const COPY_FILE: &str = "objects-copy.redb";

/// Objects in a file of the data folder. Dropping it closes the file, as [`Self::close`] does.
pub struct LocalStore {
    database: Arc<SharedDatabase>,
    jobs: mpsc::Sender<Job>,
    /// Last revision that was sent to watchers.
    revision: Arc<AtomicU64>,
    writer: Option<thread::JoinHandle<()>>,
}

impl LocalStore {
    /// Opens the store of a data folder whose lock is held, or creates it (mode 0600).
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        Self::open_with(Box::new(move || tables::open(tables::file(&path)?, MIGRATIONS)), HISTORY_LIMITS, None)
    }

    /// Opens the copy of a shared store. Without a folder or a usable file, an empty copy is made in memory: the shared store has
    /// everything that belongs into it.
    pub(super) fn copy_of(folder: Option<&Path>, upstream: Box<dyn Upstream>) -> Result<Self, StoreError> {
        let path = folder.map(|folder| folder.join(COPY_FILE));
        Self::open_with(copy::opener(path), HISTORY_LIMITS, Some(upstream))
    }

    /// Returns a handle that fetches from the shared store. It does not keep the store open.
    pub(super) fn fetcher(&self) -> Fetcher {
        Fetcher(self.jobs.downgrade())
    }

    fn open_with(
        opener: Opener,
        limits: HistoryLimits,
        upstream: Option<Box<dyn Upstream>>,
    ) -> Result<Self, StoreError> {
        let database = Arc::new(SharedDatabase::new(opener)?);
        let revision = Arc::<AtomicU64>::default();
        let writer = Writer::new(database.clone(), limits, upstream, revision.clone())?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let thread = thread::Builder::new().name("store".to_owned()).spawn(|| writer.run(queue));
        let thread = thread.map_err(|e| StoreError::Unavailable(format!("cannot start a thread: {e}")))?;
        Ok(Self { database, jobs, revision, writer: Some(thread) })
    }

    /// Sends a job to the writer and waits for its result.
    async fn run_job<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, StoreError> {
        let (result, received) = oneshot::channel();
        self.jobs.send(job(result)).await.map_err(|_| closed())?;
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
        (generation, reading.and_then(|reading| read(&Tables::open(&reading)?)))
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
        let _ = self.run_job(Job::Close).await;
    }

    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        let key = key.clone();
        self.read_tables(move |tables| tables.object(&key)).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, max: usize) -> Result<Listing, StoreError> {
        let (under, after) = (under.clone(), after.cloned());
        self.read_tables(move |tables| tables.list(&under, after.as_ref(), max)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        commit::check_bounds(&batch)?;
        self.run_job(|result| Job::Commit(PendingBatch { batch, result })).await?
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        // Subscribed first, so that no change between the log and the live channel is missed.
        let Subscription { after: until, live } = self.run_job(Job::Watch).await??;
        let (oldest, latest) =
            self.read_tables(|tables| Ok((tables.number(tables::OLDEST)?, tables.number(REVISION)?))).await?;
        if after < oldest || after > until.max(latest) {
            return Err(StoreError::Compacted { asked: after, oldest });
        }
        if after == until {
            return Ok(Watch { events: live });
        }
        let (out, events) = mpsc::channel(1);
        tokio::spawn(replay(self.database.clone(), after, until, live, out));
        Ok(Watch { events })
    }

    async fn history(&self, key: &Key, before: Option<u64>, max: usize) -> Result<Vec<Entry>, StoreError> {
        let key = key.clone();
        self.read_tables(move |tables| tables.history(&key, before, max)).await
    }

    fn status(&self) -> StoreStatus {
        let revision = self.revision.load(Ordering::Relaxed);
        StoreStatus { kind: StoreKind::Embedded, endpoint: None, revision, latest: revision, outage: None }
    }
}

/// Sends the changes in the log after one revision and up to another, then the live ones. The log is read a page at a time: a slow
/// reader must not keep old pages of the file alive. Ends when the reader is gone, or so slow that the log has lost its next change.
async fn replay(
    database: Arc<SharedDatabase>,
    mut sent: u64,
    until: u64,
    mut live: mpsc::Receiver<Arc<[Event]>>,
    out: mpsc::Sender<Arc<[Event]>>,
) {
    while sent < until {
        let (_, page) = read_once(database.clone(), move |tables| tables.events(sent, until)).await;
        let page = match page {
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
    while let Some(events) = live.recv().await {
        let is_new = events.first().is_some_and(|event| event.revision > sent);
        if is_new && out.send(events).await.is_err() {
            return;
        }
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

/// Makes a copy fetch what other servers added to the shared store.
#[derive(Clone)]
pub(super) struct Fetcher(mpsc::WeakSender<Job>);

impl Fetcher {
    /// Returns once the copy is current.
    pub(super) async fn fetch(&self) -> Result<(), StoreError> {
        let (result, received) = oneshot::channel();
        self.0.upgrade().ok_or_else(closed)?.send(Job::Fetch(result)).await.map_err(|_| closed())?;
        received.await.map_err(|_| closed())?
    }

    /// True if the store is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.0.upgrade().is_none_or(|jobs| jobs.is_closed())
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").finish_non_exhaustive()
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore").finish_non_exhaustive()
    }
}

/// Batches that wait for the writer. Later callers wait until the queue has space.
const QUEUE_MAX: usize = 1_024;
