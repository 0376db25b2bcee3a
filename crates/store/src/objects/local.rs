//! The store in the data folder: one file, one thread that writes, any number of readers.
//!
//! ```text
//! commit ─► queue ─► writer ─► transaction, flushed twice ─► watchers ─► acknowledged
//! read, list, history ─► a read of its own, on a thread that may wait for the disk
//! watch ─► what the log holds after a revision, then what the writer tells
//! ```
//!
//! Left out: who may use the folder, which its lock says, and when the store is opened and handed over.

mod commit;
mod copy;
#[cfg(test)]
mod disk;
mod keep;
mod opened;
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

pub use self::keep::{StoreFile, Verified};
use self::{
    opened::{Opened, Opener, damaged},
    tables::{REVISION, STEPS, Tables},
    upstream::Upstream,
    writer::{Job, Subscribed, Wanted, Writer},
};
use super::{
    Batch, Committed, Entry, Event, HISTORY_MAX, Key, Listing, Object, ObjectStore, Prefix, Standing, StoreError, Watch,
};

/// The file of the store in a data folder.
const FILE: &str = "objects.redb";
/// The file of a data folder that is a copy of what several servers share.
const COPY: &str = "objects-copy.redb";

/// Objects in a file of the data folder. Dropping it closes the file, as [`Self::close`] does.
pub struct LocalStore {
    opened: Arc<Opened>,
    jobs: mpsc::Sender<Job>,
    /// The last revision that watchers were told.
    revision: Arc<AtomicU64>,
    writer: Option<thread::JoinHandle<()>>,
}

impl LocalStore {
    /// Opens the store of a data folder whose lock is held, or makes it (mode 0600).
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        Self::open_with(Box::new(move || tables::open(tables::file(&path)?, STEPS)), HISTORY_MAX, None)
    }

    /// Opens the copy of a store elsewhere. Where there is no folder for it, or its file is not fit, it is made anew in memory:
    /// nothing is in it that the other one has not.
    pub(super) fn copy_of(folder: Option<&Path>, upstream: Box<dyn Upstream>) -> Result<Self, StoreError> {
        Self::open_with(copy::opener(folder.map(|folder| folder.join(COPY))), HISTORY_MAX, Some(upstream))
    }

    /// What has the copy take what others added. It does not keep the store open.
    pub(super) fn fetcher(&self) -> Fetcher {
        Fetcher(self.jobs.downgrade())
    }

    fn open_with(
        opener: Opener,
        remembered: (usize, usize, u64),
        upstream: Option<Box<dyn Upstream>>,
    ) -> Result<Self, StoreError> {
        let opened = Arc::new(Opened::new(opener)?);
        let revision = Arc::<AtomicU64>::default();
        let writer = Writer::new(opened.clone(), remembered, upstream, revision.clone())?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let thread = thread::Builder::new().name("store".to_owned()).spawn(|| writer.run(queue));
        let thread = thread.map_err(|e| StoreError::Unavailable(format!("no thread can be started: {e}")))?;
        Ok(Self { opened, jobs, revision, writer: Some(thread) })
    }

    /// Asks the writer, and waits for what it says.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, StoreError> {
        let closed = || StoreError::Unavailable("it is closed".to_owned());
        let (answer, answered) = oneshot::channel();
        self.jobs.send(job(answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())
    }

    /// Reads on a thread that may wait for the disk: those of the runtime also carry probes, and a page may be anywhere. Where
    /// the file had a fault it is opened anew, and read once more.
    async fn reading<T, W>(&self, what: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Tables) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        match read_once(self.opened.clone(), what.clone()).await {
            (times, Err(StoreError::Unavailable(_))) => {
                self.ask(|done| Job::Reopen(times, done)).await?;
                read_once(self.opened.clone(), what).await.1
            }
            (_, said) => said,
        }
    }
}

async fn read_once<T: Send + 'static>(
    opened: Arc<Opened>,
    what: impl Fn(&Tables) -> Result<T, StoreError> + Send + 'static,
) -> (u64, Result<T, StoreError>) {
    let read = move || {
        let (times, reading) = opened.read();
        (times, reading.and_then(|reading| what(&Tables::open(&reading)?)))
    };
    match spawn_blocking(read).await {
        Ok(said) => said,
        // Nothing to open anew, of no opening: the file is damaged, or this process ends.
        Err(ended) if ended.is_panic() => (0, Err(damaged(&*ended.into_panic()))),
        Err(_) => (0, Err(StoreError::Unavailable("this process is ending".to_owned()))),
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    /// Another process may open the file when this returns; watches end.
    async fn close(&self) {
        let _ = self.ask(Job::Close).await;
    }

    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        let key = key.clone();
        self.reading(move |tables| tables.object(&key)).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, most: usize) -> Result<Listing, StoreError> {
        let (under, after) = (under.clone(), after.cloned());
        self.reading(move |tables| tables.list(&under, after.as_ref(), most)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        commit::bounded(&batch)?;
        self.ask(|answer| Job::Commit(Wanted { batch, answer })).await?
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        // From here on nothing is missed; what was before is in the log.
        let Subscribed { after: until, live } = self.ask(Job::Watch).await??;
        let oldest = self.reading(|tables| Ok((tables.number(tables::OLDEST)?, tables.number(REVISION)?))).await?;
        if after < oldest.0 || after > until.max(oldest.1) {
            return Err(StoreError::Compacted { asked: after, oldest: oldest.0 });
        }
        if after == until {
            return Ok(Watch { events: live });
        }
        let (out, events) = mpsc::channel(1);
        tokio::spawn(replay(self.opened.clone(), after, until, live, out));
        Ok(Watch { events })
    }

    async fn history(&self, key: &Key, before: Option<u64>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let key = key.clone();
        self.reading(move |tables| tables.history(&key, before, most)).await
    }

    fn standing(&self) -> Standing {
        let revision = self.revision.load(Ordering::Relaxed);
        Standing { kind: "embedded", endpoint: None, revision, latest: revision, away: None }
    }
}

/// Sends what the log holds after one revision and up to another, a page at a time, so that a slow reader keeps no old page of
/// the file; then what is told live. Ends when the reader goes, or is so slow that the log no longer holds what comes next.
async fn replay(
    opened: Arc<Opened>,
    mut seen: u64,
    until: u64,
    mut live: mpsc::Receiver<Arc<[Event]>>,
    out: mpsc::Sender<Arc<[Event]>>,
) {
    while seen < until {
        let (_, page) = read_once(opened.clone(), move |tables| tables.events(seen, until)).await;
        let page = match page {
            Ok(page) => page,
            Err(e) => return tracing::debug!(error = %e, seen, "watch closed"),
        };
        if page.is_empty() {
            seen = until;
        }
        for events in page {
            seen = events.first().map_or(seen, |event| event.revision);
            if out.send(events).await.is_err() {
                return;
            }
        }
    }
    while let Some(events) = live.recv().await {
        let is_news = events.first().is_some_and(|event| event.revision > seen);
        if is_news && out.send(events).await.is_err() {
            return;
        }
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        // Without a sender the writer ends, once what waits is carried out; it closes the file.
        (self.jobs, _) = mpsc::channel(1);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Has a copy take what others added to the store that it is one of.
#[derive(Clone)]
pub(super) struct Fetcher(mpsc::WeakSender<Job>);

impl Fetcher {
    /// Returns when the copy has it.
    pub(super) async fn fetch(&self) -> Result<(), StoreError> {
        let closed = || StoreError::Unavailable("it is closed".to_owned());
        let (answer, answered) = oneshot::channel();
        self.0.upgrade().ok_or_else(closed)?.send(Job::Fetch(answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    /// Whether the store is closed.
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

/// Batches that wait for the writer; who comes after them waits to be let in.
const QUEUE_MAX: usize = 1_024;
