//! A store whose writes are within the limits of all declared objects, keep the names that they take from tenants, and appear in traces.

use std::{
    sync::{Arc, Weak},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use fairway_telemetry::traces::Traces;

use super::{configured::Configured, declared::Declared, limits::Limiter, shared::Shared};
use fairway_store::{
    Election,
    objects::{Batch, Committed, Entry, Key, Listing, Object, ObjectStore, Prefix, StoreError, StoreStatus, Watch},
};

/// A store with the limits and the traces of its writes. Every write goes through it.
pub(crate) struct GuardedStore {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The objects after all received events.
    pub(crate) declared: Arc<ArcSwap<Declared>>,
    /// The state with the configuration in force.
    pub(crate) in_force: Weak<Shared>,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) traces: Traces,
}

impl GuardedStore {
    /// Returns the configuration in force, if it has access rules: tenants may claim only names that are granted to them.
    fn with_rules(&self) -> Option<Arc<Configured>> {
        let configured = Arc::clone(&self.in_force.upgrade()?.serving.published().configured);
        configured.settings.access.names.is_enforced.then_some(configured)
    }

    async fn commit_traced(&self, batch: Batch) -> Result<Committed, StoreError> {
        let Some(work) = self.traces.below("write") else { return self.store.commit(batch).await };
        let since = SystemTime::now();
        work.say("fairway.store.kind", self.store.status().kind.to_string());
        work.number("fairway.batch.changes", batch.changes.len());
        let outcome = self.store.commit(batch).await;
        match &outcome {
            Ok(committed) => {
                work.number("fairway.revision", committed.revision);
                // A store returns from a commit once it is durable.
                work.say("fairway.batch.durable", true);
                self.traces.wrote(committed.revision, since, &work);
            }
            Err(error) => work.fail(error.to_string()),
        }
        outcome
    }
}

#[async_trait]
impl ObjectStore for GuardedStore {
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let with_rules = self.with_rules();
        let served = with_rules.as_ref().map(|configured| &configured.merged);
        let batch = self.declared.load().with_removed_names(batch, served);
        let reservation = self.limiter.reserve(&batch)?;
        let outcome = self.commit_traced(batch).await;
        if let Ok(committed) = &outcome {
            reservation.committed(committed.revision);
        }
        outcome
    }

    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.store.read(key).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, most: usize) -> Result<Listing, StoreError> {
        self.store.list(under, after, most).await
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        self.store.watch(after).await
    }

    async fn history(&self, key: &Key, before: Option<u64>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.store.history(key, before, most).await
    }

    async fn close(&self) {
        self.store.close().await;
    }

    fn status(&self) -> StoreStatus {
        self.store.status()
    }

    fn election(&self) -> Option<Election> {
        self.store.election()
    }
}
