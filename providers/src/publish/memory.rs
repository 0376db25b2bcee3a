//! A provider in memory whose failures tests control.

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

/// A failure of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Each call returns an error.
    Unavailable,
    /// It never answers.
    Hang,
    /// It applies the first half of a batch and returns an error.
    Half,
    /// It reports success and applies nothing.
    Lie,
    /// It reads no sets.
    ReadsEmpty,
}

#[derive(Debug, Default)]
struct State {
    sets: BTreeMap<RecordSetKey, ProviderRecordSet>,
    refused: BTreeSet<Name>,
    dropped: BTreeSet<Name>,
    /// Number of successful calls of `apply` before the failure.
    failure: Option<(usize, Failure)>,
    applies: usize,
}

impl Memory {
    /// Returns a provider with this limit of a batch.
    pub(super) fn with_batches_of(sets: usize) -> Self {
        Self { batch_max: Some(sets), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all sets.
    pub(super) fn sets(&self) -> Vec<ProviderRecordSet> {
        self.state().sets.values().cloned().collect()
    }

    /// Adds a set, as another client would.
    pub(super) fn put(&self, set: ProviderRecordSet) {
        self.state().sets.insert(set.key(), set);
    }

    /// Removes a set, as another client would.
    pub(super) fn take(&self, key: &RecordSetKey) {
        self.state().sets.remove(key);
    }

    /// Rejects batches with these names.
    pub(super) fn refuse(&self, names: impl IntoIterator<Item = Name>) {
        self.state().refused = names.into_iter().collect();
    }

    /// Omits these names in `adjust`.
    pub(super) fn omit(&self, names: impl IntoIterator<Item = Name>) {
        self.state().dropped = names.into_iter().collect();
    }

    /// Fails after a number of successful calls of `apply`. Failures of reading apply to reads.
    pub(super) fn fail_after(&self, applies: usize, failure: Failure) {
        self.state().failure = Some((applies, failure));
    }

    /// Ends the failure.
    pub(super) fn recover(&self) {
        self.state().failure = None;
    }

    /// Ends a failure of reading alone.
    pub(super) fn see_all(&self) {
        self.state().failure.take_if(|(_, failure)| *failure == Failure::ReadsEmpty);
    }

    /// Returns the number of calls of `apply`.
    pub(super) fn applies(&self) -> usize {
        self.state().applies
    }

    /// Counts a call and returns its failure.
    fn due(&self) -> Option<Failure> {
        let mut state = self.state();
        state.applies += 1;
        let (left, failure) = state.failure.as_mut()?;
        let is_due = *left == 0;
        *left = left.saturating_sub(1);
        is_due.then_some(*failure)
    }
}

#[async_trait]
impl Provider for Memory {
    fn limits(&self) -> Limits {
        let batch_max = self.batch_max.unwrap_or(1_000);
        Limits {
            batch_max,
            is_conditional: false,
            types: None,
            weights: Some(Weights::Aws),
            timeout: Duration::from_secs(10),
        }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let failure = self.state().failure;
        match failure {
            Some((0, Failure::ReadsEmpty)) => Ok(Vec::new()),
            Some((0, Failure::Hang)) => std::future::pending().await,
            _ => Ok(self.sets()),
        }
    }

    async fn adjust(&self, mut wanted: Vec<ProviderRecordSet>) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        wanted.retain(|set| !self.state().dropped.contains(&set.set.name));
        Ok(wanted)
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let failure = self.due();
        match failure {
            Some(Failure::Hang) => std::future::pending().await,
            Some(Failure::Unavailable) => return Err(ProviderError::Unavailable("status 500".to_owned())),
            Some(Failure::Lie) => return Ok(()),
            Some(Failure::Half | Failure::ReadsEmpty) | None => {}
        }
        let mut state = self.state();
        let puts = changes.puts();
        if let Some(set) = puts.clone().find(|set| state.refused.contains(&set.set.name)) {
            return Err(ProviderError::Refused(format!("{} is rejected", set.set.name)));
        }
        let half = failure.map(|_| changes.len() / 2).filter(|_| failure == Some(Failure::Half));
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
