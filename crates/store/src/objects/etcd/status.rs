//! State of the connection to etcd, as status and metrics show it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use fairway_model::Timestamp;

use super::super::{Outage, StoreError, local::upstream::LogHead};

/// Updated by every task that calls etcd.
#[derive(Debug, Default)]
pub(in super::super) struct SyncStatus(Mutex<SyncState>);

/// Progress of the copy.
#[derive(Clone, Debug, Default)]
pub(super) struct SyncState {
    /// Head that the copy has reached. `None` until the copy is complete.
    pub(super) copied: Option<LogHead>,
    /// Last revision that was seen in etcd.
    pub(super) latest: u64,
    /// Set while etcd is unavailable.
    pub(super) outage: Option<Outage>,
}

impl SyncStatus {
    pub(super) fn get(&self) -> SyncState {
        self.lock().clone()
    }

    pub(in super::super) fn copied(&self, head: LogHead) {
        let mut state = self.lock();
        state.copied = Some(head);
        state.latest = state.latest.max(head.revision);
    }

    /// Records an answer of etcd, and the last revision in it.
    pub(super) fn answered(&self, latest: u64) {
        let mut state = self.lock();
        state.latest = latest;
        if let Some(outage) = state.outage.take() {
            drop(state);
            let seconds = Timestamp::from(SystemTime::now()).secs().saturating_sub(outage.since.secs());
            tracing::info!(seconds, revision = latest, "etcd store recovered");
        }
    }

    /// Records a failed call.
    pub(super) fn failed(&self, error: &StoreError) {
        let mut state = self.lock();
        let reason = match error {
            StoreError::Unavailable(reason) => reason.clone(),
            other => other.to_string(),
        };
        match &mut state.outage {
            Some(outage) => outage.reason = reason,
            None => {
                tracing::warn!(error = reason, "etcd store unavailable: writes fail, serving continues");
                state.outage = Some(Outage { since: SystemTime::now().into(), reason });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
