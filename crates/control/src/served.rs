//! The current state: what queries are answered from, with what is published about it.

use std::{ops::Deref, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use fairway_history::History;
use fairway_model::Timestamp;
use fairway_zones::{ServingState, give_back_memory};

use super::{configured::Configured, fence::DeniedTargets, overrides::OverrideTable, reloads::ReloadOutcome};

/// The serving state with what is published about it. Both change in one swap, so a reader sees a pair that belongs together.
#[derive(Debug)]
pub struct CurrentState {
    /// State that queries are answered from.
    pub serving: ServingState,
    /// State that status, metrics and the API show.
    pub published: Arc<Published>,
}

impl AsRef<ServingState> for CurrentState {
    fn as_ref(&self) -> &ServingState {
        &self.serving
    }
}

impl Deref for CurrentState {
    type Target = ServingState;

    fn deref(&self) -> &ServingState {
        &self.serving
    }
}

/// State that is published along with the serving state.
#[derive(Clone, Debug)]
pub struct Published {
    /// The configuration in force.
    pub configured: Arc<Configured>,
    /// Number of accepted configurations, from 1.
    pub number: u64,
    /// Time when the configuration was accepted.
    pub loaded_at: Timestamp,
    /// True if a newer configuration was rejected.
    pub stale: bool,
    /// Outcome of the last reload of the files; `None` before the first.
    pub last_reload: Option<ReloadOutcome>,
    /// The overrides in force.
    pub overrides: OverrideTable,
    /// Targets that are not probed and not answered, since this server may not connect to them.
    pub denied: Arc<DeniedTargets>,
}

impl Published {
    /// Returns what is published about the first configuration.
    pub(crate) fn first(
        configured: Configured,
        overrides: OverrideTable,
        denied: DeniedTargets,
        now: Timestamp,
    ) -> Self {
        let configured = Arc::new(configured);
        Self {
            configured,
            number: 1,
            loaded_at: now,
            stale: false,
            last_reload: None,
            overrides,
            denied: Arc::new(denied),
        }
    }
}

/// The owner of the current state. Only the control task swaps it. Each state goes to the change log.
#[derive(Clone, Debug)]
pub struct Served {
    current: Arc<ArcSwap<CurrentState>>,
    history: History,
}

impl Served {
    /// Begins with this state.
    pub fn new(serving: ServingState, published: Published, history: History) -> Self {
        let current = Arc::new(ArcSwap::from_pointee(CurrentState { serving, published: Arc::new(published) }));
        Self { current, history }
    }

    /// Returns the change log.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Adds the current state to the change log, which was opened just now.
    pub fn record(&self) {
        let state = self.load();
        self.history.add_state(SystemTime::now().into(), &state.published.configured.merged.desired, &state.serving);
    }

    /// Returns the current state.
    pub fn load(&self) -> Arc<CurrentState> {
        self.current.load_full()
    }

    /// Returns what is published about the current state.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.current.load().published)
    }

    /// Returns the pointer that the DNS listeners follow.
    pub fn pointer(&self) -> Arc<ArcSwap<CurrentState>> {
        Arc::clone(&self.current)
    }

    /// Replaces the state. Returns the previous one, which listeners may still read.
    #[must_use = "the last owner of a large state takes long to free it"]
    pub fn swap(&self, serving: ServingState, published: Arc<Published>) -> Arc<CurrentState> {
        let before = self.current.swap(Arc::new(CurrentState { serving, published }));
        self.record();
        before
    }
}

/// Replaced states, kept until nothing else reads them.
///
/// A worker that moves on to a newer state drops its reference to the old one. If that were the last reference, the worker would free a
/// snapshot of a million names between two queries. So the control task keeps one and frees the state itself.
#[derive(Debug, Default)]
pub(crate) struct DeferredDrops(Vec<Arc<CurrentState>>);

impl DeferredDrops {
    /// Keeps a state that was just replaced. Frees unused ones if many are kept.
    pub(crate) fn push(&mut self, old: Arc<CurrentState>) {
        self.0.push(old);
        if self.0.len() > DEFERRED_MAX {
            self.free_unused();
        }
    }

    /// Frees the states that nothing else reads.
    pub(crate) fn free_unused(&mut self) {
        let unused = self.take_unused();
        // The last reference to a large snapshot takes long to free, so not on a thread that health transitions wait for.
        if unused.iter().any(|state| Arc::strong_count(&state.snapshot) == 1) {
            tokio::task::spawn_blocking(move || {
                drop(unused);
                give_back_memory();
            });
        }
    }

    /// Removes and returns the states that nothing else reads.
    ///
    /// No new reference to a replaced state can appear: the pointer to it is gone, and references are taken from the pointer only.
    fn take_unused(&mut self) -> Vec<Arc<CurrentState>> {
        self.0.extract_if(.., |state| Arc::strong_count(state) == 1).collect()
    }
}

/// Maximum number of replaced states kept until [`DeferredDrops::push`] looks for unused ones: a storm of health transitions makes
/// thousands a second.
const DEFERRED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Scene, silent};

    #[tokio::test]
    async fn replaced_state_is_freed_by_the_control_task_once_nothing_reads_it() {
        let (control, _actor) = Scene::new(&silent()).actor().await;
        let serving = &control.shared.serving;
        let (mut deferred, reader) = (DeferredDrops::default(), serving.load());
        deferred.push(serving.swap(reader.serving.clone(), Arc::clone(&reader.published)));
        assert_eq!(deferred.take_unused().len(), 0, "a worker still reads the state");
        let freed = Arc::downgrade(&reader);
        drop(reader);
        assert!(freed.upgrade().is_some(), "the worker that drops its reference does not free the state");
        drop(deferred.take_unused());
        assert!(freed.upgrade().is_none() && deferred.0.is_empty(), "the control task freed the state");
    }
}
