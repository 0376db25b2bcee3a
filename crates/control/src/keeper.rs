//! Writes state files beside everything else: the disk may be slow, full or gone, and the answers go on.

use std::{future::Future, io, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use fairway_health::TargetState;
use fairway_zones::give_back_memory;
use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    time::Instant,
};

use super::shared::Shared;
use fairway_store::{DataFolder, SavedBalance, SavedOverride};

/// Writes what must survive a restart, if there is a data folder.
#[derive(Debug, Default)]
pub struct Keeper {
    folder: Option<Arc<DataFolder>>,
    /// Whether verdicts changed since they were last written.
    is_due: bool,
    /// What balancing has learnt since that was last written.
    balance: Option<SavedBalance>,
    /// The write that runs now.
    writing: Option<oneshot::Receiver<Written>>,
    /// Not before: writing may take a twentieth of the time at most.
    rest_until: Option<Instant>,
    /// Whether the last write failed: a failure is told when it begins and when it ends.
    is_failing: bool,
}

/// How long a write took, and what came of it.
type Written = (Duration, io::Result<()>);

impl Keeper {
    /// Keeps state in this folder; without one, it forgets.
    pub fn new(folder: Option<Arc<DataFolder>>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Keeps state in this folder from now on.
    pub fn adopt(&mut self, folder: Arc<DataFolder>) {
        self.folder = Some(folder);
        self.is_due = true;
    }

    /// Notes that verdicts changed.
    pub fn health_changed(&mut self) {
        self.is_due = true;
    }

    /// Notes what balancing has learnt.
    pub fn balance_changed(&mut self, kept: SavedBalance) {
        self.balance = Some(kept);
    }

    /// Looks after the write that runs, and starts another where one is due.
    pub fn tick(&mut self, shared: &Arc<Shared>) {
        match self.writing.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return,
            Some(Ok((took, outcome))) => {
                self.rest_until = Some(Instant::now() + took * REST);
                self.is_due |= outcome.is_err();
                self.note(shared, &outcome);
            }
            // The write was lost with its thread.
            Some(Err(TryRecvError::Closed)) => self.is_due = true,
            None => {}
        }
        self.writing = None;
        let rests = self.rest_until.is_some_and(|until| Instant::now() < until);
        let is_due = self.is_due || self.balance.is_some();
        let Some(folder) = self.folder.clone().filter(|_| is_due && !rests) else { return };
        let (statuses, balance) = (std::mem::take(&mut self.is_due), self.balance.take());
        let (reply, written) = oneshot::channel();
        self.writing = Some(written);
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let states = if statuses { Some(shared.checker.states().await) } else { None };
            let begun = Instant::now();
            let outcome = on_disk(move || {
                let outcome = write(&folder, states.as_deref(), balance.as_ref());
                // The text of many targets takes more than what is known of them.
                if states.is_some_and(|states| states.len() > TARGETS_MANY) {
                    give_back_memory();
                }
                outcome
            })
            .await;
            // The control task may have ended: then it has written a newer state itself.
            let _ = reply.send((begun.elapsed(), outcome));
        });
    }

    /// Writes verdicts and what balancing has learnt for the last time, after the write that may run still.
    pub async fn write_last(&mut self, shared: &Shared, states: Vec<TargetState>, balance: Option<SavedBalance>) {
        if let Some(running) = self.writing.take() {
            // Its outcome does not matter: this write takes its place.
            let _ = running.await;
        }
        let Some(folder) = self.folder.clone() else { return };
        let outcome = on_disk(move || write(&folder, Some(&states), balance.as_ref())).await;
        self.note(shared, &outcome);
    }

    /// Writes overrides; when this returns well, they survive a power cut. Without a data folder they last as long as the
    /// process does, and that is well too.
    pub fn write_overrides(&self, kept: Vec<SavedOverride>) -> impl Future<Output = io::Result<()>> + use<> {
        let folder = self.folder.clone();
        async move {
            match folder {
                Some(folder) => on_disk(move || folder.write_overrides(&kept)).await,
                None => Ok(()),
            }
        }
    }

    /// Tells of a write on change: once when it begins to fail, once when it works again.
    pub fn note(&mut self, shared: &Shared, outcome: &io::Result<()>) {
        if let Err(error) = outcome {
            shared.counts.write_failures.fetch_add(1, Relaxed);
            if !self.is_failing {
                tracing::error!(%error, "state file not written; a restart would begin from the last one");
            }
        } else if self.is_failing {
            tracing::info!("state file written again");
        }
        self.is_failing = outcome.is_err();
    }
}

/// Writes what is given; the one that fails does not keep the other from being written.
fn write(folder: &DataFolder, states: Option<&[TargetState]>, balance: Option<&SavedBalance>) -> io::Result<()> {
    let states = states.map_or(Ok(()), |states| folder.write_health(states));
    let balance = balance.map_or(Ok(()), |kept| folder.write_balance(kept));
    states.and(balance)
}

/// Does disk work where it may block.
async fn on_disk(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// A write is followed by so many times its own length of rest.
const REST: u32 = 20;
/// Targets whose text is worth a look for memory to give back.
const TARGETS_MANY: usize = 1_000;
