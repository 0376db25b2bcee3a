//! A provider in memory with faults that can be ordered: what tests publish to where the real ones would be too kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fairway_model::{Changes, Name, ProviderRecordSet, RecordSetKey};

use super::provider::{Limits, Provider, ProviderError, Weights};

/// Record sets in memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    state: Mutex<State>,
    batch_max: Option<usize>,
}

/// What a provider does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It answers that it cannot.
    Unavailable,
    /// It never answers.
    Hang,
    /// It carries out the first half of a batch and breaks off.
    Half,
    /// It says that it carried everything out, and did nothing.
    Lie,
    /// It reads as if nothing were there.
    ReadsEmpty,
}

#[derive(Debug, Default)]
struct State {
    sets: BTreeMap<RecordSetKey, ProviderRecordSet>,
    refused: BTreeSet<Name>,
    dropped: BTreeSet<Name>,
    /// After so many good calls of `apply`, this.
    fault: Option<(usize, Fault)>,
    applies: usize,
}

impl Memory {
    /// One that takes so many sets a call.
    pub(super) fn with_batches_of(sets: usize) -> Self {
        Self { batch_max: Some(sets), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there.
    pub(super) fn sets(&self) -> Vec<ProviderRecordSet> {
        self.state().sets.values().cloned().collect()
    }

    /// Puts a set there, as somebody else would.
    pub(super) fn put(&self, set: ProviderRecordSet) {
        self.state().sets.insert(set.key(), set);
    }

    /// Takes a set away, as somebody else would.
    pub(super) fn take(&self, key: &RecordSetKey) {
        self.state().sets.remove(key);
    }

    /// Refuses batches with these names.
    pub(super) fn refuse(&self, names: impl IntoIterator<Item = Name>) {
        self.state().refused = names.into_iter().collect();
    }

    /// Leaves these names out where it is asked what it will keep.
    pub(super) fn leave_out(&self, names: impl IntoIterator<Item = Name>) {
        self.state().dropped = names.into_iter().collect();
    }

    /// After so many more good calls of `apply`, each is faulty; reads, too, for faults of reading.
    pub(super) fn fail_after(&self, applies: usize, fault: Fault) {
        self.state().fault = Some((applies, fault));
    }

    /// Does as it is told again.
    pub(super) fn heal(&self) {
        self.state().fault = None;
    }

    /// How often `apply` was called.
    pub(super) fn applies(&self) -> usize {
        self.state().applies
    }

    /// The fault that is due now; counts the call.
    fn due(&self) -> Option<Fault> {
        let mut state = self.state();
        state.applies += 1;
        let (left, fault) = state.fault.as_mut()?;
        let is_due = *left == 0;
        *left = left.saturating_sub(1);
        is_due.then_some(*fault)
    }
}

#[async_trait]
impl Provider for Memory {
    fn limits(&self) -> Limits {
        let batch_max = self.batch_max.unwrap_or(1_000);
        Limits { batch_max, types: None, weights: Some(Weights::Aws), timeout: Duration::from_secs(10) }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let fault = self.state().fault;
        match fault {
            Some((0, Fault::ReadsEmpty)) => Ok(Vec::new()),
            Some((0, Fault::Hang)) => std::future::pending().await,
            _ => Ok(self.sets()),
        }
    }

    async fn adjust(&self, mut wanted: Vec<ProviderRecordSet>) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        wanted.retain(|set| !self.state().dropped.contains(&set.set.name));
        Ok(wanted)
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let fault = self.due();
        match fault {
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Unavailable) => return Err(ProviderError::Unavailable("status 500".to_owned())),
            Some(Fault::Lie) => return Ok(()),
            Some(Fault::Half | Fault::ReadsEmpty) | None => {}
        }
        let mut state = self.state();
        let puts = changes.create.iter().chain(changes.update.iter().map(|update| &update.to));
        if let Some(set) = puts.clone().find(|set| state.refused.contains(&set.set.name)) {
            return Err(ProviderError::Refused(format!("{} is not to my taste", set.set.name)));
        }
        let half = fault.map(|_| changes.len() / 2).filter(|_| fault == Some(Fault::Half));
        let most = half.unwrap_or(usize::MAX);
        for set in changes.delete.iter().take(most) {
            state.sets.remove(&set.key());
        }
        for set in puts.take(most.saturating_sub(changes.delete.len())) {
            state.sets.insert(set.key(), set.clone());
        }
        if half.is_some() { Err(ProviderError::Unavailable("connection closed".to_owned())) } else { Ok(()) }
    }
}
