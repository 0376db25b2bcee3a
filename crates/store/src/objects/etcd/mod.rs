//! A store that several servers share on etcd. Every server accepts writes; all servers have the same objects and revisions.
//!
//! ```text
//! commit ─► applied to the copy ─► one transaction in etcd, if no server was faster ─► committed to the copy ─► acknowledged
//!                                    │ the head changes, which every server watches
//!                                    ▼
//!           other servers: fetch the entries they lack ─► their copies ─► their watchers
//! ```
//! Each server has a copy of the whole store in its data folder, as a [`LocalStore`]. It reads from the copy once etcd has confirmed that
//! the copy is current. While etcd is unavailable it reads from the copy unconfirmed, and rejects writes. A start without etcd uses the
//! copy as it was.
//!
//! Not here: operating, backing up and compacting etcd.

mod candidate;
mod changes;
mod format;
mod log;
mod status;
#[cfg(test)]
#[cfg(feature = "real")]
mod tests;

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use fairway_etcd::{Client, Settings};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

pub(super) use self::log::EtcdLog;
use self::{
    candidate::Candidate,
    changes::{Changes, POLL_INTERVAL},
    format::Keys,
    log::{draw_nonce, read_head},
    status::SyncStatus,
};
use super::{
    Batch, Committed, Entry, Key, Listing, LocalStore, Object, ObjectStore, Prefix, StoreError, StoreKind, StoreStatus,
    ValueOptions, Watch, local::Handle,
};
use crate::{Election, Leadership};

/// Objects on an etcd.
pub struct EtcdStore {
    // Dropped first: its thread calls etcd on the runtime.
    local: LocalStore,
    sync: Arc<Sync>,
    election: Election,
    runtime: OwnRuntime,
}

/// Keeps the copy current.
struct Sync {
    client: Arc<Client>,
    keys: Keys,
    status: Arc<SyncStatus>,
    copy: Handle,
}

/// The runtime of the connections to etcd. They have one of their own, so that a busy main runtime does not let leases expire.
#[derive(Debug)]
struct OwnRuntime(Option<Runtime>);

impl EtcdStore {
    /// Opens the copy in a data folder whose lock is held, and follows etcd from then on, without waiting for etcd.
    ///
    /// All keys in etcd begin with `prefix`; servers with different prefixes share nothing. Without a folder the copy is in memory.
    pub fn open(
        settings: Settings,
        prefix: &str,
        values: ValueOptions,
        folder: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("etcd").enable_all().build();
        let runtime = runtime.map_err(|e| StoreError::Unavailable(format!("cannot start a thread: {e}")))?;
        let keys = Keys::new(prefix);
        let (client, status) = (Arc::new(Client::new(settings)), Arc::<SyncStatus>::default());
        let log = EtcdLog {
            client: Arc::clone(&client),
            keys: keys.clone(),
            status: Arc::clone(&status),
            runtime: runtime.handle().clone(),
            head: None,
            expired: Vec::new(),
        };
        let local = LocalStore::copy_of(folder, values, log)?;
        let sync = Arc::new(Sync { client, keys, status, copy: local.handle() });
        runtime.spawn(follow(Arc::clone(&sync)));
        let (election, backend) = Election::new();
        runtime.spawn(Candidate::new(Arc::clone(&sync.client), &sync.keys, backend, draw_nonce()?).run());
        Ok(Self { local, sync, election, runtime: OwnRuntime(Some(runtime)) })
    }

    /// Brings the copy up to date if etcd answers. Fails if the copy is incomplete.
    async fn refresh(&self) -> Result<(), StoreError> {
        if let (None, Some(runtime)) = (self.sync.status.get().outage, &self.runtime.0) {
            let sync = Arc::clone(&self.sync);
            let synced = runtime.spawn(async move { sync.run().await });
            let _ = timeout(self.sync.client.settings().call_timeout * 2, synced).await;
        }
        let state = self.sync.status.get();
        match (state.copied, state.outage) {
            (Some(_), _) => Ok(()),
            (None, Some(outage)) => Err(StoreError::Unavailable(outage.reason)),
            (None, None) => Err(StoreError::Unavailable("etcd was not read yet".to_owned())),
        }
    }
}

impl Sync {
    /// Reads the head, and fetches the entries that the copy lacks.
    async fn run(&self) {
        match read_head(&self.client, &self.keys).await {
            Ok((stored, _)) => {
                if self.status.get().copied == Some(stored.head) {
                    self.status.answered(stored.head.revision);
                } else if let Err(error) = self.copy.fetch().await {
                    self.status.failed(&error);
                }
            }
            Err(error) => self.status.failed(&error),
        }
    }
}

/// Keeps the copy current until the store is closed.
async fn follow(sync: Arc<Sync>) {
    let mut changes = Changes::new(Arc::clone(&sync.client), sync.keys.head());
    while !sync.copy.is_closed() {
        changes.start().await;
        sync.run().await;
        changes.wait().await;
    }
}

#[async_trait]
impl ObjectStore for EtcdStore {
    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.refresh().await?;
        self.local.read(key).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, max: usize) -> Result<Listing, StoreError> {
        self.refresh().await?;
        self.local.list(under, after, max).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        if let Some(outage) = self.sync.status.get().outage {
            return Err(StoreError::Unavailable(outage.reason));
        }
        // Chunks of long batches are written one by one.
        let bytes: usize = batch.changes.iter().map(|change| change.value.as_ref().map_or(0, Vec::len)).sum();
        let limit = self.sync.client.settings().call_timeout * 2
            + TIME_PER_MEBIBYTE * u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        let late = |_| StoreError::Unavailable(format!("etcd did not accept the batch within {} s", limit.as_secs()));
        timeout(limit, self.local.commit(batch)).await.map_err(late)?
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        self.refresh().await?;
        self.local.watch(after).await
    }

    async fn history(&self, key: &Key, before: Option<u64>, max: usize) -> Result<Vec<Entry>, StoreError> {
        self.refresh().await?;
        self.local.history(key, before, max).await
    }

    async fn close(&self) {
        // Gives up the lead, so that the next leader need not wait until the lease expires.
        self.election.set_decision(None);
        let mut leadership = self.election.leadership();
        let _ = timeout(POLL_INTERVAL, leadership.wait_for(|now| !matches!(now, Leadership::ThisServer(_)))).await;
        self.local.close().await;
    }

    fn election(&self) -> Option<Election> {
        Some(self.election.clone())
    }

    fn status(&self) -> StoreStatus {
        let state = self.sync.status.get();
        StoreStatus {
            kind: StoreKind::Etcd,
            endpoint: Some(self.sync.client.endpoint().origin().to_owned()),
            revision: state.copied.unwrap_or_default().revision,
            latest: state.latest,
            outage: state.outage,
        }
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // Dropping a runtime waits for its tasks, which panics on a thread of another runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl From<fairway_etcd::Error> for StoreError {
    fn from(error: fairway_etcd::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Time for each mebibyte of a batch, in addition to that of a call: a link of 10 Mbit/s.
const TIME_PER_MEBIBYTE: Duration = Duration::from_secs(1);
