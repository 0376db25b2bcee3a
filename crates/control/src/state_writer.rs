//! Writes state files. The disk may be slow, full or gone, and the answers go on.

use std::{
    future::Future,
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use fairway_health::TargetState;
use fairway_hosts::SavedHost;
use fairway_store::{DataFolder, SavedBalance, SavedOverride, ZoneSizes};
use fairway_zones::give_back_memory;
use tokio::{task::JoinHandle, time::Instant};

use super::shared::Shared;

/// Writes what must survive a restart, if there is a data folder.
#[derive(Debug, Default)]
pub(crate) struct StateWriter {
    folder: Option<Arc<DataFolder>>,
    /// True if health statuses changed since they were last written.
    pub(crate) is_health_due: bool,
    /// True if addresses of host names changed since they were last written.
    pub(crate) is_hosts_due: bool,
    /// True if what was found in Kubernetes clusters changed since it was last written.
    pub(crate) is_found_due: bool,
    /// State of balancing that was not written yet.
    pub(crate) balance: Option<SavedBalance>,
    /// Numbers of records of each zone that were not written yet.
    pub(crate) zones: Option<ZoneSizes>,
    /// The running write, with its duration and result.
    writing: Option<JoinHandle<(Duration, io::Result<()>)>>,
    /// Earliest time of the next write.
    paused_until: Option<Instant>,
    /// True if the last write failed. Only the first failure in a row, and the end of the failures, are logged.
    is_failing: bool,
}

impl StateWriter {
    /// Writes to this folder; without one, writes nothing.
    pub(crate) fn new(folder: Option<Arc<DataFolder>>, zones: ZoneSizes) -> Self {
        Self { folder, zones: Some(zones), ..Self::default() }
    }

    /// Writes to this folder from now on.
    pub(crate) fn adopt(&mut self, folder: Arc<DataFolder>) {
        self.folder = Some(folder);
        self.is_health_due = true;
    }

    /// Takes the result of the running write, and begins another one if it is due.
    pub(crate) async fn tick(&mut self, shared: &Arc<Shared>) {
        if let Some(writing) = self.writing.take_if(|writing| writing.is_finished()) {
            match writing.await {
                Ok((took, result)) => {
                    self.paused_until = Some(Instant::now() + took * PAUSE_FACTOR);
                    self.is_health_due |= result.is_err();
                    self.is_hosts_due |= result.is_err();
                    self.is_found_due |= result.is_err();
                    self.note(shared, &result);
                }
                // The write was lost with its thread.
                Err(_) => self.is_health_due = true,
            }
        }
        if self.writing.is_some() {
            return;
        }
        let is_paused = self.paused_until.is_some_and(|until| Instant::now() < until);
        let is_due = self.is_health_due
            || self.is_hosts_due
            || self.is_found_due
            || self.balance.is_some()
            || self.zones.is_some();
        let Some(folder) = self.folder.clone().filter(|_| is_due && !is_paused) else { return };
        let is_health_due = std::mem::take(&mut self.is_health_due);
        let hosts = std::mem::take(&mut self.is_hosts_due).then(|| shared.probes.hosts.saved());
        let is_found_due = std::mem::take(&mut self.is_found_due);
        let (balance, zones) = (self.balance.take(), self.zones.take());
        let shared = Arc::clone(shared);
        // If the control task has ended, it has written a newer state itself.
        self.writing = Some(tokio::spawn(async move {
            let states = if is_health_due { Some(shared.probes.checker.states().await) } else { None };
            let begun = Instant::now();
            let result = on_disk(move || {
                let found = is_found_due.then(|| shared.probes.sources.saved());
                let (hosts, found) = (hosts.as_deref(), found.as_deref());
                let result = write(&folder, states.as_deref(), balance.as_ref(), zones.as_ref(), (hosts, found));
                // The text of many targets takes more memory than their states.
                if states.is_some_and(|states| states.len() > MANY_TARGETS) {
                    give_back_memory();
                }
                result
            })
            .await;
            (begun.elapsed(), result)
        }));
    }

    /// Writes health statuses and the state of balancing for the last time, after the running write.
    pub(crate) async fn write_last(
        &mut self,
        shared: &Shared,
        states: Vec<TargetState>,
        balance: Option<SavedBalance>,
    ) {
        if let Some(running) = self.writing.take() {
            // This write replaces it, whatever its result is.
            let _ = running.await;
        }
        let Some(folder) = self.folder.clone() else { return };
        let (zones, hosts, found) = (self.zones.take(), shared.probes.hosts.saved(), shared.probes.sources.saved());
        let write =
            move || write(&folder, Some(&states), balance.as_ref(), zones.as_ref(), (Some(&hosts), Some(&found)));
        let result = on_disk(write).await;
        self.note(shared, &result);
    }

    /// Writes overrides. Once this returns `Ok`, they survive a power cut. Without a data folder they last as long as the process, which
    /// is no error.
    pub(crate) fn write_overrides(&self, kept: Vec<SavedOverride>) -> impl Future<Output = io::Result<()>> + use<> {
        let folder = self.folder.clone();
        async move {
            match folder {
                Some(folder) => on_disk(move || folder.write_overrides(&kept)).await,
                None => Ok(()),
            }
        }
    }

    /// Counts failed writes, and logs the first of several failures and their end.
    pub(crate) fn note(&mut self, shared: &Shared, result: &io::Result<()>) {
        if let Err(error) = result {
            shared.counts.write_failures.fetch_add(1, Relaxed);
            if !self.is_failing {
                tracing::error!(%error, "state file not written; a restart would begin from the last one");
            }
        } else if self.is_failing {
            tracing::info!("state file written again");
        }
        self.is_failing = result.is_err();
    }
}

/// Writes the files. An error of one does not keep the others from being written.
fn write(
    folder: &DataFolder,
    states: Option<&[TargetState]>,
    balance: Option<&SavedBalance>,
    zones: Option<&ZoneSizes>,
    (hosts, found): (Option<&[SavedHost]>, Option<&[u8]>),
) -> io::Result<()> {
    let states = states.map_or(Ok(()), |states| folder.write_health(states));
    let balance = balance.map_or(Ok(()), |kept| folder.write_balance(kept));
    let zones = zones.map_or(Ok(()), |zones| folder.write_zones(zones));
    let hosts = hosts.map_or(Ok(()), |hosts| folder.write_hosts(hosts));
    let found = found.map_or(Ok(()), |found| folder.write_found(found));
    states.and(balance).and(zones).and(hosts).and(found)
}

/// Runs work that may block on the disk.
async fn on_disk(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Pause after a write, as a multiple of its duration: writing takes a twentieth of the time at most.
const PAUSE_FACTOR: u32 = 20;
/// Targets whose text, some hundred bytes each, is worth a search for memory to give back.
const MANY_TARGETS: usize = 1_000;
