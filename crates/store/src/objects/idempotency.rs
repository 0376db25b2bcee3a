//! Writes that a client may send again with the same key (draft-ietf-httpapi-idempotency-key-header).
//!
//! ```text
//! key ─► in progress on this server? error ─► record in the store? ─► of another request: error
//!                                                │                └─► of this request: its outcome, nothing is written
//!                                                └ none ─► handled ─► one batch: the objects, and a record unless there is one
//! ```
//! A record is an object of the store, written in the batch of the objects that it is about. So it exists if and only if the write was
//! made, on every server of the store, also after a kill between the batch and the response. Of two servers that handle the same key,
//! the slower one finds the record of the faster one. A rejected request leaves no record and is handled again.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use fairway_model::Timestamp;
use ring::digest::{Context, SHA256};
use serde_json::Value;

use super::{
    Author, Batch, Change, Expect, Key, Kind, Object, ObjectStore, Prefix, StoreError, VALUE_MAX,
    idempotency_wire::Record,
};

/// A request that a client may send again.
#[derive(Clone, Debug)]
pub struct IdempotentRequest {
    /// Key of its record in the store.
    record: Key,
    /// SHA-256 of what is requested, in hexadecimal.
    digest: String,
}

impl IdempotentRequest {
    /// Identifies a request by the caller, the idempotency key that the caller chose, and everything that makes two requests equal.
    ///
    /// The caller is part of the record's name, so that nobody is answered with the outcome of somebody else's request.
    pub fn new(caller: &str, key: &str, request: &[&[u8]]) -> Self {
        let name = digest(&[caller.as_bytes(), key.as_bytes()]);
        let record = Key::new(Kind::IdempotencyRecord, &[&name]).expect("hexadecimal digits are a name");
        Self { record, digest: digest(request) }
    }

    /// Returns an id for the object that the request creates: `KEY-REQUEST`, where the first part depends on caller and key, and the
    /// second on what is requested.
    pub fn id(&self) -> String {
        format!("{}-{}", &self.record.name()[..ID_DIGITS], &self.digest[..ID_DIGITS])
    }
}

/// Requests with idempotency keys that this server handles now.
#[derive(Clone, Debug, Default)]
pub struct RequestsInProgress {
    records: Arc<Mutex<HashSet<Key>>>,
    /// Writes since expired records were last removed.
    writes: Arc<AtomicU32>,
}

/// Next step of a request with an idempotency key.
#[derive(Debug)]
pub enum Begun {
    /// It was handled before: the outcome, and the object that records it.
    Done(Value, Box<Object>),
    /// It has to be handled.
    New(RequestInProgress),
}

/// A request that is being handled; while this exists, requests with the same key are rejected.
#[derive(Debug)]
pub struct RequestInProgress {
    request: IdempotentRequest,
    /// State of the record in the store: none, or an expired one.
    expect: Expect,
    records: Arc<Mutex<HashSet<Key>>>,
}

/// Reason why a request with an idempotency key is not handled.
#[derive(Debug, thiserror::Error)]
pub enum IdempotencyError {
    /// A request with the key is being handled.
    #[error("a request with this Idempotency-Key is in progress; wait for its response, or try again later")]
    InProgress,
    /// The key was used with a request that asked for something else.
    #[error("this Idempotency-Key was used with another request; give each request a key of its own")]
    OtherRequest,
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The outcome of the request is too large for a record.
    #[error("the record for its Idempotency-Key is larger than {RECORD_MAX} bytes; apply it in parts")]
    TooLarge,
    /// The record has a format that this version does not know.
    #[error("the record of this Idempotency-Key cannot be read, since a newer version wrote it")]
    Unreadable,
}

impl RequestsInProgress {
    /// Begins to handle a request, unless it was handled before.
    ///
    /// # Errors
    /// The key is in progress or was used with another request, or the store cannot be read.
    pub async fn begin(&self, request: &IdempotentRequest, store: &dyn ObjectStore) -> Result<Begun, IdempotencyError> {
        if !lock(&self.records).insert(request.record.clone()) {
            return Err(IdempotencyError::InProgress);
        }
        let mut begun =
            RequestInProgress { request: request.clone(), expect: Expect::Absent, records: Arc::clone(&self.records) };
        let Some(found) = store.read(&request.record).await? else { return Ok(Begun::New(begun)) };
        if is_expired(&found, SystemTime::now().into()) {
            begun.expect = Expect::Revision(found.revision);
            return Ok(Begun::New(begun));
        }
        match serde_json::from_slice::<Record>(&found.value) {
            Ok(record) if record.request == request.digest => Ok(Begun::Done(record.outcome, Box::new(found))),
            Ok(_) => Err(IdempotencyError::OtherRequest),
            Err(_) => Err(IdempotencyError::Unreadable),
        }
    }

    /// Removes expired records and the oldest of too many. Does so at every 64th call, since it reads all records.
    pub async fn remove_expired(&self, store: &dyn ObjectStore) {
        if !self.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(REMOVE_EVERY) {
            return;
        }
        let now = Timestamp::from(SystemTime::now());
        let all = Prefix::new(Kind::IdempotencyRecord, &[]).expect("a record has one name");
        // A failure is made good by a later call.
        let Ok(listing) = store.list(&all, None, LISTED_MAX).await else { return };
        let mut records = listing.objects;
        records.sort_by_key(|record| record.revision);
        let excess = records.len().saturating_sub(RECORDS_MAX);
        let removed = records.into_iter().enumerate().filter(|(at, record)| *at < excess || is_expired(record, now));
        let changes: Vec<Change> =
            removed.map(|(_, record)| Change { key: record.key, expect: Expect::Anything, value: None }).collect();
        if !changes.is_empty() {
            let by = Author::new("fairway", "expired idempotency records");
            _ = store.commit(Batch { changes, by, at: now }).await;
        }
    }
}

impl RequestInProgress {
    /// Returns the change that records the outcome. It belongs into the batch that makes the request's own changes.
    ///
    /// # Errors
    /// [`IdempotencyError::TooLarge`] if the record would be over 64 KiB.
    pub fn record(&self, outcome: Value) -> Result<Change, IdempotencyError> {
        let record = Record { request: self.request.digest.clone(), outcome };
        let value = serde_json::to_vec(&record).expect("texts and numbers have a JSON form");
        if value.len() > RECORD_MAX {
            return Err(IdempotencyError::TooLarge);
        }
        Ok(Change { key: self.record_key().clone(), expect: self.expect, value: Some(value) })
    }

    /// Returns the key of the record in the store.
    pub fn record_key(&self) -> &Key {
        &self.request.record
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        lock(&self.records).remove(&self.request.record);
    }
}

/// A panic while the lock is held leaves a set that is complete, so a poisoned lock is used.
fn lock(records: &Mutex<HashSet<Key>>) -> MutexGuard<'_, HashSet<Key>> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_expired(record: &Object, now: Timestamp) -> bool {
    record.changed.plus(LIFETIME) < now
}

/// Returns the SHA-256 of several texts in hexadecimal. Each has its length before it, so that no two lists give the same input.
fn digest(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_le_bytes());
        context.update(part);
    }
    data_encoding::HEXLOWER.encode(context.finish().as_ref())
}

/// Hexadecimal digits of each part of an id: 40 bits, so that two of 256 overrides share one with a probability under 1e-7.
const ID_DIGITS: usize = 10;
/// Lifetime of a record.
const LIFETIME: Duration = Duration::from_hours(24);
/// Number of records that are kept, the latest ones; there may be [`REMOVE_EVERY`] more for each server.
const RECORDS_MAX: usize = 1_000;
const REMOVE_EVERY: u32 = 64;
/// Maximum number of records that are read when expired ones are removed: 1,000, and 64 of each of a hundred servers.
const LISTED_MAX: usize = 8_000;
/// Largest record, in bytes: lists of a thousand objects.
const RECORD_MAX: usize = 64 << 10;
const _: () = assert!(RECORD_MAX < VALUE_MAX);

#[cfg(test)]
mod tests {
    use super::super::ValueOptions;
    use super::*;
    use crate::objects::LocalStore;

    fn request(caller: &str, key: &str, request: &str) -> IdempotentRequest {
        IdempotentRequest::new(caller, key, &[request.as_bytes()])
    }

    fn record(request: IdempotentRequest) -> Change {
        let begun = RequestInProgress { request, expect: Expect::Absent, records: Arc::default() };
        begun.record(Value::Null).unwrap()
    }

    async fn commit(store: &dyn ObjectStore, changes: Vec<Change>, at: Timestamp) {
        store.commit(Batch { changes, by: Author::default(), at }).await.unwrap();
    }

    #[tokio::test]
    async fn key_is_for_one_request_of_one_caller_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (store, requests) =
            (LocalStore::open(folder.path(), ValueOptions::default()).unwrap(), RequestsInProgress::default());
        let mine = request("ann", "k", "put a");
        let begun = requests.begin(&mine, &store).await.unwrap();
        assert!(matches!(begun, Begun::New(_)), "a new key is handled: {begun:?}");
        let second = requests.begin(&mine, &store).await;
        assert!(matches!(second, Err(IdempotencyError::InProgress)), "{second:?}");
        commit(&store, vec![record(mine.clone())], SystemTime::now().into()).await;
        drop(begun);
        assert!(matches!(requests.begin(&mine, &store).await, Ok(Begun::Done(..))));
        let other = requests.begin(&request("ann", "k", "put b"), &store).await;
        assert!(matches!(other, Err(IdempotencyError::OtherRequest)), "{other:?}");
        assert!(matches!(requests.begin(&request("bob", "k", "put b"), &store).await, Ok(Begun::New(_))));
    }

    #[tokio::test]
    async fn record_expires_after_a_day_and_the_oldest_of_too_many_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, requests) =
            (LocalStore::open(folder.path(), ValueOptions::default()).unwrap(), RequestsInProgress::default());
        let now = Timestamp::from(SystemTime::now());
        let long_ago = Timestamp::from(SystemTime::now() - LIFETIME - Duration::from_secs(60));
        commit(&store, vec![record(request("ann", "old", "x"))], long_ago).await;
        let reused = requests.begin(&request("ann", "old", "y"), &store).await;
        assert!(matches!(reused, Ok(Begun::New(_))), "an expired key may be used for another request: {reused:?}");
        let many: Vec<Change> = (0..RECORDS_MAX + 3).map(|n| record(request("ann", &format!("k{n}"), "x"))).collect();
        let (first, rest) = many.split_at(2);
        commit(&store, first.to_vec(), now).await;
        commit(&store, rest.to_vec(), now).await;
        requests.remove_expired(&store).await;
        let all = Prefix::new(Kind::IdempotencyRecord, &[]).unwrap();
        let left = store.list(&all, None, LISTED_MAX).await.unwrap().objects;
        assert_eq!(left.len(), RECORDS_MAX);
        assert!(first.iter().all(|change| left.iter().all(|of| of.key != change.key)), "the oldest are removed");
    }
}
