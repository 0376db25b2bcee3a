//! The declared objects of a server: committed to the store, and followed from there.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use fairway_contributions::LeaseWeights;
use fairway_store::objects::{Batch, Committed, Entry, Key, ObjectStore, Prefix, StoreError};
use tokio::sync::{mpsc, watch};

use super::{
    command::Command,
    declared::{Declared, ParsedObjects},
    guarded_store::GuardedStore,
    limits::Limiter,
    reloads::{ReloadScope, Trigger},
    shared::Shared,
};

/// The declared objects of a server, with their store.
///
/// ```text
/// API ── commit ──► store ── events ──► follow ──► Declared ── reload ──► serving state ──► `served`
///        ▲                                                                                    │
///        └──────────────────── waits until its revision is in the answers ◄───────────────────┘
/// ```
/// Only events of the store change what is declared, so a change by another server takes the same path as one by this server.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// The objects after all received events. The next reload uses them.
    declared: Arc<ArcSwap<Declared>>,
    /// Their revision.
    received: Arc<watch::Sender<u64>>,
    /// Limits of all objects together.
    limiter: Arc<Limiter>,
}

impl Objects {
    /// Loads all objects of a store. If the store is unavailable, it is followed nevertheless, and the previous objects stay until it
    /// answers.
    pub async fn load(store: Arc<dyn ObjectStore>, declared: Arc<ArcSwap<Declared>>) -> Result<Self, StoreError> {
        let limiter = Arc::new(Limiter::new(Arc::clone(&declared)));
        let objects = Self { store, declared, received: Arc::default(), limiter };
        match objects.list().await {
            Err(StoreError::Unavailable(why)) if objects.store.status().outage.is_some() => {
                tracing::error!(why, "store unavailable; declared objects are served once it answers");
            }
            listed => listed?,
        }
        Ok(objects)
    }

    /// Returns the same objects, whose writes are within the limits of the configuration and appear in traces.
    pub(crate) fn guarded(self, shared: &Arc<Shared>) -> Self {
        let in_force = Arc::downgrade(shared);
        let of_limiter = in_force.clone();
        self.limiter.configure(move || {
            let shared = of_limiter.upgrade();
            shared.map(|shared| shared.serving.published().configured.settings.limits).unwrap_or_default()
        });
        let (store, limiter, traces) = (self.store, Arc::clone(&self.limiter), shared.traces.clone());
        let declared = Arc::clone(&self.declared);
        Self { store: Arc::new(GuardedStore { store, declared, in_force, limiter, traces }), ..self }
    }

    /// Returns the limits of all objects together.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
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
            // Changes between two pages are received as events.
            revision = revision.or(Some(fetched.revision));
            count += fetched.objects.len();
            // The next page is fetched while this one is parsed. Parsing stays on this thread: at a start it is the main thread, whose
            // memory costs the fewest system calls.
            next = fetched.objects.last().filter(|_| fetched.more).map(|last| page(Some(last.key.clone())));
            parts.push(ParsedObjects::new(fetched.objects));
        }
        let listed = Declared::of_parts(revision.unwrap_or_default(), parts);
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(objects = count, duration_ms, "declared objects loaded");
        self.update(|before| listed.with_lease_weights(LeaseWeights::clone(&before.lease_weights)));
        self.limiter.listed();
        Ok(())
    }

    fn update(&self, change: impl Fn(&Declared) -> Declared) {
        self.declared.rcu(|declared| change(declared));
        self.received.send_replace(self.declared.load().revision);
        self.limiter.note();
    }

    /// Replaces the lease weights of webhook clients. The next reload takes them.
    pub fn set_lease_weights(&self, weights: LeaseWeights) {
        self.update(|declared| declared.with_lease_weights(weights.clone()));
    }

    /// Waits at most `limit` until the events of a revision are received. Returns true if they were.
    pub async fn received(&self, revision: u64, limit: Duration) -> bool {
        let mut received = self.received.subscribe();
        let wait = received.wait_for(|received| *received >= revision);
        tokio::time::timeout(limit, wait).await.is_ok_and(|wait| wait.is_ok())
    }

    /// Follows the store as long as the control task runs.
    pub(crate) async fn follow(self, commands: mpsc::Sender<Command>) {
        let mut is_failing = false;
        while !commands.is_closed() {
            let revision = self.declared.load().revision;
            let watched = match self.store.watch(revision).await {
                Err(StoreError::Compacted { .. }) => match self.list().await {
                    Ok(()) => {
                        request_reload(&commands).await;
                        continue;
                    }
                    Err(error) => Err(error),
                },
                watched => watched,
            };
            let mut events = match watched {
                Ok(watch) => watch.events,
                Err(error) => {
                    if !is_failing {
                        tracing::error!(%error, "store not readable; the loaded objects stay in use");
                    }
                    is_failing = true;
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            is_failing = false;
            while let Some(batch) = events.recv().await {
                let mut batches = vec![batch];
                while let Ok(more) = events.try_recv() {
                    batches.push(more);
                }
                self.update(|before| {
                    let mut declared = before.clone();
                    batches.iter().for_each(|batch| declared.apply(batch));
                    declared
                });
                request_reload(&commands).await;
            }
        }
    }

    /// Returns the store.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// Returns the objects after all received events.
    pub fn declared(&self) -> Arc<Declared> {
        self.declared.load_full()
    }

    /// Commits all changes of a batch, or none.
    pub async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.store.commit(batch).await
    }

    /// Returns the last `limit` changes of an object, the latest first.
    pub async fn history(&self, key: &Key, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.store.history(key, None, limit).await
    }
}

async fn request_reload(commands: &mpsc::Sender<Command>) {
    // A task that has ended serves nothing any more.
    let reload =
        Command::Reload { scope: ReloadScope::Objects, trigger: Trigger::Api, allow_removals: false, reply: None };
    let _ = commands.send(reload).await;
}

/// Objects of one page: parsing one takes as long as fetching the next.
const PAGE: usize = 10_000;
/// Pause before a store that cannot be followed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
