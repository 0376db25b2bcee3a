//! A store in memory, for tests of the routes.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use tokio::sync::mpsc;

use fairway_store::objects::{
    Batch, Change, Committed, Entry, Key, Listing, Object, ObjectStore, Prefix, StoreError, StoreKind, StoreStatus,
    Watch,
};

/// Objects by their keys.
#[derive(Debug, Default)]
pub(super) struct MemoryStore {
    kept: Mutex<(u64, BTreeMap<Key, Object>)>,
    /// True if writes fail, as with a full disk.
    pub(super) full: AtomicBool,
}

#[async_trait]
impl ObjectStore for MemoryStore {
    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        Ok(self.kept.lock().unwrap().1.get(key).cloned())
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, most: usize) -> Result<Listing, StoreError> {
        let (revision, kept) = &*self.kept.lock().unwrap();
        let mut found = kept.values().filter(|of| under.holds(&of.key) && after.is_none_or(|after| of.key > *after));
        let objects = found.by_ref().take(most).cloned().collect();
        Ok(Listing { objects, revision: *revision, more: found.next().is_some() })
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("the disk is full".to_owned()));
        }
        let (revision, kept) = &mut *self.kept.lock().unwrap();
        for Change { key, expect, .. } in &batch.changes {
            let found = kept.get(key).map(|object| object.revision);
            expect.check(key, found)?;
        }
        *revision += 1;
        let mut objects = Vec::new();
        for Change { key, value, .. } in batch.changes {
            let before = kept.remove(&key);
            let object = value.map(|value| Object {
                key: key.clone(),
                value: value.into(),
                revision: *revision,
                generation: before.as_ref().map_or(1, |before| before.generation + 1),
                created: before.map_or(batch.at, |before| before.created),
                changed: batch.at,
                by: batch.by.clone(),
            });
            kept.extend(object.clone().map(|object| (key, object)));
            objects.push(object);
        }
        Ok(Committed { revision: *revision, objects })
    }

    async fn watch(&self, _: u64) -> Result<Watch, StoreError> {
        Ok(Watch { events: mpsc::channel(1).1 })
    }

    async fn history(&self, _: &Key, _: Option<u64>, _: usize) -> Result<Vec<Entry>, StoreError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}

    fn status(&self) -> StoreStatus {
        let revision = self.kept.lock().unwrap().0;
        StoreStatus { kind: StoreKind::Embedded, endpoint: None, revision, latest: revision, outage: None }
    }
}
