//! The way of declared objects: committed to the store, followed from there, served.
//!
//! ```text
//! API ── commit ──► store ── events ──► follow ──► Declared ── reading ──► view ──► `served`
//!        ▲                                                                             │
//!        └──────────────────── waits until its revision is in the answers ◄────────────┘
//! ```
//! What is served follows the store's events alone: a change that another server made comes the same way as one's own.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use fairway_model::Timestamp;
use fairway_zones::Snapshot;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use super::{
    Control, ControlError,
    command::{Command, Trigger},
    compile::Compiled,
    configured::{Configured, Previous, Reader, What},
    contributed::Strengths,
    declared::{Declared, Part},
    traced::TracedStore,
    trial::{Attempt, Tried},
};
use fairway_api_types::client::{Client, Reach};
use fairway_config::{Settings, StoreSettings};
use fairway_store::{
    DataFolder, Leadership,
    objects::{Batch, Committed, Entry, Key, Listing, LocalStore, ObjectStore, Prefix, StoreError, StoreFile},
};
use fairway_telemetry::traces::Traces;

/// The declared objects of a server, and where they are kept.
#[derive(Clone, Debug)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// As far as they were heard of; the next reading takes them.
    declared: Arc<ArcSwap<Declared>>,
    /// Their revision.
    heard: Arc<watch::Sender<u64>>,
}

impl Objects {
    /// Takes all objects of a store. One that cannot be asked now is followed all the same: what was there before stays until then.
    pub async fn load(store: Arc<dyn ObjectStore>, declared: Arc<ArcSwap<Declared>>) -> Result<Self, StoreError> {
        let objects = Self { store, declared, heard: Arc::default() };
        match objects.list().await {
            Err(StoreError::Unavailable(why)) if objects.store.status().outage.is_some() => {
                tracing::error!(why, "store unavailable; declared objects are served once it answers");
            }
            listed => listed?,
        }
        Ok(objects)
    }

    /// The same, with its writes in traces.
    fn traced(self, traces: &Traces) -> Self {
        let (store, traces) = (self.store, traces.clone());
        Self { store: Arc::new(TracedStore { store, traces }), ..self }
    }

    async fn list(&self) -> Result<(), StoreError> {
        let (begun, mut parts, mut revision, mut count) = (Instant::now(), Vec::new(), None, 0);
        let page = |after: Option<Key>| {
            let store = Arc::clone(&self.store);
            tokio::spawn(async move { store.list(&Prefix::everything(), after.as_ref(), PAGE).await })
        };
        let mut next = Some(page(None));
        while let Some(fetched) = next.take() {
            let fetched = fetched.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
            // What changes between two pages is heard of again.
            revision = revision.or(Some(fetched.revision));
            count += fetched.objects.len();
            // The next one is fetched while this one is read, on this thread: at a start it is the main one, to which memory comes cheapest.
            next = fetched.objects.last().filter(|_| fetched.more).map(|last| page(Some(last.key.clone())));
            parts.push(Part::read(fetched.objects));
        }
        let listed = Declared::of_parts(revision.unwrap_or_default(), parts);
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(objects = count, duration_ms, "declared objects loaded");
        self.hear(|before| listed.with_strengths(before.strengths().clone()));
        Ok(())
    }

    /// Takes what was heard of.
    fn hear(&self, change: impl Fn(&Declared) -> Declared) {
        self.declared.rcu(|declared| change(declared));
        self.heard.send_replace(self.declared.load().revision);
    }

    /// Says what is left of what silent clients of the webhook brought; the next reading takes it.
    pub fn set_strengths(&self, strengths: Strengths) {
        self.hear(|declared| declared.with_strengths(strengths.clone()));
    }

    /// Waits until a revision was heard of, at most `patience`; whether it was.
    pub async fn heard(&self, revision: u64, patience: Duration) -> bool {
        let mut heard = self.heard.subscribe();
        tokio::time::timeout(patience, heard.wait_for(|heard| *heard >= revision)).await.is_ok_and(|it| it.is_ok())
    }

    /// Follows the store as long as the control task runs.
    pub async fn follow(self, commands: mpsc::Sender<Command>) {
        let mut is_told = false;
        while !commands.is_closed() {
            let revision = self.declared.load().revision;
            let watched = match self.store.watch(revision).await {
                Ok(watch) => Ok(watch.events),
                Err(StoreError::Compacted { .. }) => match self.list().await {
                    Ok(()) => {
                        ask(&commands).await;
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            let mut events = match watched {
                Ok(events) => events,
                Err(error) => {
                    if !is_told {
                        tracing::error!(%error, "store not readable; the loaded objects stay in use");
                    }
                    is_told = true;
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            is_told = false;
            while let Some(batch) = events.recv().await {
                let mut news = vec![batch];
                while let Ok(more) = events.try_recv() {
                    news.push(more);
                }
                self.hear(|before| {
                    let mut declared = before.clone();
                    news.iter().for_each(|batch| declared.apply(batch));
                    declared
                });
                ask(&commands).await;
            }
        }
    }

    /// Where they are kept.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// What is declared, as far as it was heard of.
    pub fn declared(&self) -> Arc<Declared> {
        self.declared.load_full()
    }

    /// Makes all changes of a batch, or none.
    pub async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.store.commit(batch).await
    }

    /// What was done to an object, the latest first.
    pub async fn history(&self, key: &Key, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.store.history(key, None, most).await
    }
}

/// Tells the control task what is on the board of those that share the store.
async fn heed(mut posted: watch::Receiver<Leadership>, commands: mpsc::Sender<Command>) {
    loop {
        let now = posted.borrow_and_update().clone();
        if commands.send(Command::Leadership(now)).await.is_err() || posted.changed().await.is_err() {
            return;
        }
    }
}

async fn ask(commands: &mpsc::Sender<Command>) {
    // A task that has ended serves nothing any more.
    let _ = commands.send(Command::Reload { what: What::Objects, asked_by: Trigger::Api, reply: None }).await;
}

/// Opens the store of a folder that this process alone writes to, or the one that several servers share. Where that fails, files and
/// what can be read are served all the same, and nothing can be declared.
pub async fn open(
    folder: &DataFolder,
    settings: &StoreSettings,
    declared: &Arc<ArcSwap<Declared>>,
) -> Result<Objects, String> {
    let (path, settings) = (folder.path().to_owned(), settings.clone());
    let (copy, is_shared) = (StoreFile::copy_in(&path), settings != StoreSettings::Embedded);
    let opened = tokio::task::spawn_blocking(move || opened(Some(&path), settings)).await;
    let loaded = match opened.map_err(|error| error.to_string()).flatten() {
        Ok(store) => Objects::load(store, Arc::clone(declared)).await.map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    if let Err(error) = &loaded {
        tracing::error!(error, "store not available: API writes are refused");
        peek(if is_shared { copy } else { StoreFile::path_in(folder.path()) }, declared).await;
    }
    loaded
}

fn opened(folder: Option<&Path>, settings: StoreSettings) -> Result<Arc<dyn ObjectStore>, String> {
    let told = |error: StoreError| error.to_string();
    match (settings, folder) {
        (StoreSettings::Embedded, Some(folder)) => {
            // `fairway store` must not take the copy of another store for this one.
            if let Some(aside) = StoreFile::move_copy_aside(folder).map_err(told)? {
                let aside = aside.display();
                tracing::warn!(%aside, "store changed from etcd to the data folder; copy of the etcd objects moved aside");
            }
            Ok(Arc::new(LocalStore::open(folder).map_err(told)?))
        }
        (StoreSettings::Embedded, None) => Err(NO_FOLDER.to_owned()),
        (StoreSettings::Etcd { prefix, etcd }, folder) => {
            Ok(Arc::new(fairway_store::objects::EtcdStore::open(etcd, &prefix, folder).map_err(told)?))
        }
    }
}

/// Reads what was declared without the store being opened: another process has it, or it cannot be written to.
async fn peek(path: PathBuf, declared: &ArcSwap<Declared>) {
    let read = move || if path.exists() { StoreFile::open(&path)?.list() } else { Ok(Listing::default()) };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(Listing { objects, revision, .. })) => declared.store(Arc::new(Declared::new(revision, objects))),
        Ok(Err(error)) => tracing::error!(%error, "declared objects not served"),
        Err(error) => tracing::error!(%error, "declared objects not served"),
    }
}

/// The objects at a start, or why there can be none: from the store. While the process that is replaced has the folder, as that one
/// tells them, and none yet to declare to.
pub async fn at_start(
    settings: &Settings,
    folder: Option<&DataFolder>,
    is_replacing: bool,
    declared: &Arc<ArcSwap<Declared>>,
) -> Option<Result<Objects, String>> {
    let is_shared = settings.store != StoreSettings::Embedded;
    let kept = |path| if is_shared { StoreFile::copy_in(path) } else { StoreFile::path_in(path) };
    match (settings.data_dir.as_deref(), folder) {
        (_, Some(folder)) => Some(open(folder, &settings.store, declared).await),
        (Some(path), None) if is_replacing => {
            match Client::new(Reach::of_data_dir(path)).objects().await {
                Ok(told) => declared.store(Arc::new(Declared::of_export(told))),
                Err(error) => {
                    tracing::warn!(%error, "the replaced process did not return its declared objects; its store file was read");
                    peek(kept(path), declared).await;
                }
            }
            None
        }
        (path, None) if is_shared => {
            // What is shared needs no disk of ours.
            if let Some(path) = path {
                peek(kept(path), declared).await;
            }
            Some(match opened(None, settings.store.clone()) {
                Ok(store) => Objects::load(store, Arc::clone(declared)).await.map_err(|error| error.to_string()),
                Err(error) => Err(error),
            })
        }
        (Some(path), None) => {
            peek(kept(path), declared).await;
            Some(Err(format!("the data folder {} cannot be written to", path.display())))
        }
        (None, None) => Some(Err(NO_FOLDER.to_owned())),
    }
}

/// The first configuration with the objects in it.
pub fn joined(reader: &Reader, configured: Configured, snapshot: Snapshot, now: Timestamp) -> (Configured, Snapshot) {
    if reader.declared.load().is_empty() {
        return (configured, snapshot);
    }
    let previous = Previous::new(Arc::new(configured), Arc::new(snapshot));
    let reading = reader.read_here(What::Objects, Some(&previous), now);
    match reading.outcome {
        Ok(Compiled { configured, snapshot, .. }) => (configured, snapshot),
        Err(faults) => {
            faults.iter().for_each(|fault| tracing::error!(error = %fault, "declared objects not served"));
            let Previous { configured, snapshot, .. } = previous;
            let own = "nobody else has it yet";
            (Arc::into_inner(configured).expect(own), Arc::into_inner(snapshot).expect(own))
        }
    }
}

impl Control {
    /// Takes objects to declare to, or why there can be none; the task that follows them.
    pub fn keep_objects(&self, objects: Result<Objects, String>) -> Option<JoinHandle<()>> {
        let objects = objects.map(|objects| objects.traced(&self.shared.traces));
        let following = objects.as_ref().ok().map(|objects| {
            let board = objects.store.election().map(|election| heed(election.leadership(), self.commands.clone()));
            let objects = objects.clone().follow(self.commands.clone());
            let heeding = async {
                if let Some(board) = board {
                    board.await;
                }
            };
            tokio::spawn(async { _ = tokio::join!(objects, heeding) })
        });
        // Set once: at the start, or when the process before has let go.
        let _ = self.shared.objects.set(objects);
        following
    }

    /// Lets go of the store.
    pub async fn close_objects(&self) {
        if let Ok(objects) = self.objects() {
            objects.store.close().await;
        }
    }

    /// The declared objects, where they are kept.
    pub fn objects(&self) -> Result<&Objects, ControlError> {
        match self.shared.objects.get() {
            Some(Ok(objects)) => Ok(objects),
            Some(Err(why)) => Err(ControlError::NoStore(why.clone())),
            None => {
                let what = "the process that ran before has the data folder still; try again in a moment";
                Err(ControlError::NoStore(what.to_owned()))
            }
        }
    }

    /// Waits until the objects of a revision are in the answers, at most `patience`; whether they are.
    pub async fn served(&self, revision: u64, patience: Duration) -> bool {
        let mut served = self.shared.served.subscribe();
        tokio::time::timeout(patience, served.wait_for(|served| *served >= revision)).await.is_ok_and(|it| it.is_ok())
    }

    /// What would become of these objects, were they the declared ones; nothing changes.
    pub async fn try_objects(&self, attempt: Attempt) -> Result<Tried, ControlError> {
        let asking = self.ask(|reply| Command::TryObjects(Box::new(attempt), reply));
        let Some(work) = self.shared.traces.below("try") else { return asking.await };
        let tried = asking.await;
        match &tried {
            Ok(tried) => {
                work.count("fairway.try.left_out", tried.left_out.len());
                work.count("fairway.try.faults", tried.faults.len());
            }
            Err(error) => work.fail(error.to_string()),
        }
        tried
    }
}

const NO_FOLDER: &str = "there is no data folder; start fairway with one (--data-dir)";
/// Objects read at once.
const PAGE: usize = 10_000;
/// Rest before a store that cannot be followed is tried again.
const REST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_copy_of_a_store_that_is_shared_no_more_is_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(StoreFile::copy_in(folder.path()), "all that is left").unwrap();
        for _ in 0..2 {
            drop(opened(Some(folder.path()), StoreSettings::Embedded).unwrap());
            assert!(!StoreFile::copy_in(folder.path()).exists());
            let aside = folder.path().join("objects-copy.redb.aside");
            assert_eq!(fs::read_to_string(aside).unwrap(), "all that is left");
        }
    }
}
