//! A store that several servers share on etcd: any of them takes writes, all have the same, in the same order.
//!
//! ```text
//! commit ─► carried out on the copy ─► one transaction in etcd, if nobody was faster ─► kept in the copy ─► acknowledged
//!                                        │ the head changed: every other server hears of it
//!                                        ▼
//!           others: fetch the records after those they have ─► their copies ─► their watchers
//! ```
//! Each server has a copy of everything in its data folder, in the form of [`LocalStore`]. It reads there, after it has asked
//! etcd whether the copy is the latest; while etcd is away it reads there without asking, and writes nothing. With etcd away at its
//! start, it begins with the copy as it was.
//!
//! Left out: how etcd is run, backed up and compacted.

mod board;
mod record;
mod sequence;
mod standing;
#[cfg(test)]
#[cfg(feature = "real")]
mod tests;

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use fairway_etcd::{Client, Settings};
use tokio::{
    runtime::{Builder, Runtime},
    time::{MissedTickBehavior, interval, timeout},
};

use self::{
    board::Poster,
    record::Keys,
    sequence::{Sequence, draw, read},
    standing::Shared,
};
use super::{
    Batch, Committed, Entry, Key, Listing, LocalStore, Object, ObjectStore, Prefix, Standing, StoreError, Watch,
    local::Fetcher,
};
use crate::{Board, Posted};

/// Objects on an etcd.
#[derive(Debug)]
pub struct EtcdStore {
    // Dropped first: its thread talks to etcd on the runtime.
    local: LocalStore,
    asking: Arc<Asking>,
    board: Board,
    runtime: Own,
}

/// Asks etcd whether the copy is the latest.
#[derive(Debug)]
struct Asking {
    client: Arc<Client>,
    keys: Keys,
    shared: Arc<Shared>,
    fetcher: Fetcher,
}

/// A runtime that connections to etcd live on, apart from everything that must not wait for them.
#[derive(Debug)]
struct Own(Option<Runtime>);

impl EtcdStore {
    /// Opens the copy in a data folder whose lock is held, and follows etcd from now on. Does not wait for etcd.
    ///
    /// All keys in etcd have the prefix; servers with different prefixes share nothing.
    pub fn open(settings: Settings, prefix: &str, folder: Option<&Path>) -> Result<Self, StoreError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("etcd").enable_all().build();
        let runtime = runtime.map_err(|e| StoreError::Unavailable(format!("no thread can be started: {e}")))?;
        let keys = Keys::new(prefix);
        let (client, shared) = (Arc::new(Client::new(settings)), Arc::<Shared>::default());
        let sequence = Sequence {
            client: Arc::clone(&client),
            keys: keys.clone(),
            shared: Arc::clone(&shared),
            runtime: runtime.handle().clone(),
            head: None,
            emptied: Vec::new(),
        };
        let local = LocalStore::copy_of(folder, Box::new(sequence))?;
        let asking = Arc::new(Asking { client, keys, shared, fetcher: local.fetcher() });
        runtime.spawn(follow(Arc::clone(&asking)));
        let (board, desk) = Board::new();
        runtime.spawn(Poster::new(Arc::clone(&asking.client), asking.keys.board(), desk, draw()?).work());
        Ok(Self { local, asking, board, runtime: Own(Some(runtime)) })
    }

    /// Has the copy be the latest where etcd answers. Where it does not, the copy has to do, if it is whole.
    async fn freshen(&self) -> Result<(), StoreError> {
        if let (None, Some(runtime)) = (self.asking.shared.known().away, &self.runtime.0) {
            let asking = Arc::clone(&self.asking);
            let asked = runtime.spawn(async move { asking.ask().await });
            let _ = timeout(self.asking.client.settings().call_timeout * 2, asked).await;
        }
        let known = self.asking.shared.known();
        match (known.holds, known.away) {
            (Some(_), _) => Ok(()),
            (None, Some((_, why))) => Err(StoreError::Unavailable(why)),
            (None, None) => Err(StoreError::Unavailable("etcd was not read yet".to_owned())),
        }
    }
}

impl Asking {
    /// Asks for the head, and fetches what is new.
    async fn ask(&self) {
        match read(&self.client, &self.keys).await {
            Ok((head, _)) => {
                if self.shared.known().holds == Some(head.tip) {
                    self.shared.saw(head.tip.revision);
                } else if let Err(error) = self.fetcher.fetch().await {
                    self.shared.missed(&error);
                }
            }
            Err(error) => self.shared.missed(&error),
        }
    }
}

/// Follows etcd until the store is closed: at every change of the head, and now and then, since a silent connection tells of none.
async fn follow(asking: Arc<Asking>) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changes = None;
    while !asking.fetcher.is_closed() {
        if changes.is_none() {
            changes = asking.client.watch(&asking.keys.head()).await.ok();
        }
        asking.ask().await;
        let Some(stream) = &mut changes else {
            beats.tick().await;
            continue;
        };
        tokio::select! {
            _ = beats.tick() => {}
            goes_on = stream.changed() => {
                if !goes_on {
                    changes = None;
                    beats.tick().await;
                }
            }
        }
    }
}

#[async_trait]
impl ObjectStore for EtcdStore {
    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.freshen().await?;
        self.local.read(key).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, most: usize) -> Result<Listing, StoreError> {
        self.freshen().await?;
        self.local.list(under, after, most).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        if let Some((_, why)) = self.asking.shared.known().away {
            return Err(StoreError::Unavailable(why));
        }
        // Long batches go to etcd in pieces.
        let octets: usize = batch.changes.iter().map(|change| change.value.as_ref().map_or(0, Vec::len)).sum();
        let most = self.asking.client.settings().call_timeout * 2
            + PER_MEBIBYTE * u32::try_from(octets >> 20).unwrap_or(u32::MAX);
        let late = |_| StoreError::Unavailable(format!("etcd did not take it in {} s", most.as_secs()));
        timeout(most, self.local.commit(batch)).await.map_err(late)?
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        self.freshen().await?;
        self.local.watch(after).await
    }

    async fn history(&self, key: &Key, before: Option<u64>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.freshen().await?;
        self.local.history(key, before, most).await
    }

    async fn close(&self) {
        // The next one need not wait for the lease to run out.
        self.board.offer(None);
        let mut posted = self.board.posted();
        let _ = timeout(BEAT, posted.wait_for(|posted| *posted != Posted::Own)).await;
        self.local.close().await;
    }

    fn board(&self) -> Option<Board> {
        Some(self.board.clone())
    }

    fn standing(&self) -> Standing {
        let known = self.asking.shared.known();
        Standing {
            kind: "etcd",
            endpoint: Some(self.asking.client.endpoint().origin().to_owned()),
            revision: known.holds.unwrap_or_default().revision,
            latest: known.latest,
            away: known.away.map(|(since, why)| (since.into(), why)),
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Waiting for its tasks is not allowed on a thread of another runtime.
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

/// How often etcd is asked where nothing was heard of it.
const BEAT: Duration = Duration::from_secs(1);
/// Time that each mebibyte of a batch may take, beside that of a call.
const PER_MEBIBYTE: Duration = Duration::from_secs(1);
