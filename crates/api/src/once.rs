//! Writes that may be sent again: the header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
//!
//! ```text
//! key ─► under way here? 409 ─► receipt there? ─► of another request: 422
//!                                   │         └─► of this one: its answer, and nothing is written
//!                                   └ none ─► tried as ever ─► one batch: the objects, and the receipt if there is none still
//! ```
//! The receipt is an object of the store. So it is there if and only if the write is, whichever store and whichever server: what a
//! kill leaves between the batch and the answer is answered when it is asked again. Whoever was slower with the same key finds the
//! receipt of the faster one. What was refused leaves none, and is looked at anew.

mod receipt_wire;

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};
use fairway_model::Timestamp;
use ring::digest::{Context, SHA256};

use self::receipt_wire::Receipt;
pub(crate) use self::receipt_wire::{Done, Same};
use crate::problem::problem;
use fairway_store::objects::{
    Author, Batch, Change, Expect, Key, Kind, Object, ObjectStore, Prefix, StoreError, VALUE_MAX,
};

/// An answer that is a problem.
pub(crate) type Refusal = Box<Response>;

/// What keys are under way on this server.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay {
    keys: Arc<Mutex<HashSet<Key>>>,
    /// Writes since receipts were last cleared away.
    since: Arc<AtomicU32>,
}

/// The key of a request, and what the request is.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    receipt: Key,
    asked: String,
}

/// A request that is under way: no other with its key is, as long as this lives.
#[derive(Debug)]
pub(crate) struct Once {
    given: Given,
    expect: Expect,
    keys: Arc<Mutex<HashSet<Key>>>,
}

/// What a request with a key is.
pub(crate) enum Begun {
    /// It was carried out before: what was done, and the receipt.
    Before(Box<(Done, Object)>),
    /// It is to be carried out.
    Now(Option<Once>),
}

impl Given {
    /// The key of the headers, for whoever asks so; none where none is given.
    pub(crate) fn read(headers: &HeaderMap, by: &Author, asked: &[&[u8]]) -> Result<Option<Self>, Refusal> {
        let mut given = headers.get_all(HEADER).iter();
        let Some(first) = given.next() else { return Ok(None) };
        let text = first.to_str().ok().filter(|_| given.next().is_none()).map(str::trim).and_then(unquoted);
        let Some(text) = text else {
            let what =
                format!("{HEADER}: give one text of 1 to {KEY_MAX} printable characters, like \"8e03978e-40d5\"");
            return Err(problem(StatusCode::BAD_REQUEST, what).into());
        };
        // Nobody is told what others did.
        let name = sum(&[by.who.as_bytes(), text.as_bytes()]);
        let receipt = Key::new(Kind::Receipt, &[&name]).expect("hexadecimal digits are a name");
        Ok(Some(Self { receipt, asked: sum(asked) }))
    }

    /// An id for what the request makes: the first part follows from who asks and the key, the second from what is asked.
    pub(crate) fn id(&self) -> String {
        format!("{}-{}", &self.receipt.name()[..ID_DIGITS], &self.asked[..ID_DIGITS])
    }
}

impl UnderWay {
    /// Begins a write; refused where its key is of another one, or is under way.
    pub(crate) async fn begin(&self, given: Option<&Given>, store: &dyn ObjectStore) -> Result<Begun, Refusal> {
        let Some(given) = given else { return Ok(Begun::Now(None)) };
        if !self.lock().insert(given.receipt.clone()) {
            let what =
                format!("a request with this {HEADER} is in progress; wait for its response, or try again later");
            return Err(problem(StatusCode::CONFLICT, what).into());
        }
        let mut once = Once { given: given.clone(), expect: Expect::Absent, keys: Arc::clone(&self.keys) };
        let read = store.read(&given.receipt).await;
        let unread = |error: StoreError| problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
        let Some(found) = read.map_err(unread)? else { return Ok(Begun::Now(Some(once))) };
        if is_over(found.changed, SystemTime::now().into()) {
            once.expect = Expect::Revision(found.revision);
            return Ok(Begun::Now(Some(once)));
        }
        let receipt: Option<Receipt> = serde_json::from_slice(&found.value).ok();
        match receipt {
            Some(receipt) if receipt.asked == given.asked => Ok(Begun::Before(Box::new((receipt.done, found)))),
            Some(_) => {
                let what = format!("this {HEADER} was used with another request; give each request a key of its own");
                Err(problem(StatusCode::UNPROCESSABLE_ENTITY, what).into())
            }
            // A newer program wrote it.
            None => Err(problem(
                StatusCode::CONFLICT,
                format!("the record of this {HEADER} cannot be read, since a newer version wrote it"),
            )
            .into()),
        }
    }

    /// Clears old receipts away, now and then: those that are over, and the oldest of too many.
    pub(crate) async fn clear_away(&self, store: &dyn ObjectStore) {
        if !self.since.fetch_add(1, Ordering::Relaxed).is_multiple_of(CLEAR_EVERY) {
            return;
        }
        let now = Timestamp::from(SystemTime::now());
        let under = Prefix::new(Kind::Receipt, &[]).expect("a receipt has a name");
        let Ok(listing) = store.list(&under, None, LISTED_MAX).await else { return };
        let mut receipts: Vec<Object> = listing.objects;
        receipts.sort_by_key(|receipt| receipt.revision);
        let too_many = receipts.len().saturating_sub(RECEIPTS_MAX);
        let is_gone = |(at, receipt): &(usize, Object)| *at < too_many || is_over(receipt.changed, now);
        let gone = receipts.into_iter().enumerate().filter(is_gone);
        let changes: Vec<Change> =
            gone.map(|(_, receipt)| Change { expect: Expect::Anything, key: receipt.key, value: None }).collect();
        if !changes.is_empty() {
            let by = Author::new("fairway", "old receipts of writes");
            // The next time does what this one did not.
            _ = store.commit(Batch { changes, by, at: now }).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Once {
    /// The change that leaves a receipt; refused where it would be too long.
    pub(crate) fn receipt(&self, done: Done) -> Result<Change, Refusal> {
        let receipt = Receipt { asked: self.given.asked.clone(), done };
        let value = serde_json::to_vec(&receipt).expect("texts and numbers have a JSON form");
        if value.len() > RECEIPT_MAX {
            let what = format!("the record for its {HEADER} is larger than {RECEIPT_MAX} bytes; apply it in parts");
            return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, what).into());
        }
        Ok(Change { key: self.given.receipt.clone(), expect: self.expect, value: Some(value) })
    }

    /// Where the receipt is.
    pub(crate) fn key(&self) -> &Key {
        &self.given.receipt
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.given.receipt);
    }
}

/// The text of a header's value: an item of RFC 9651 (a string in quotes), or as many clients send it, without them.
fn unquoted(value: &str) -> Option<&str> {
    let text = value.strip_prefix('"').map_or(Some(value), |rest| rest.strip_suffix('"'))?;
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
    (is_plain && (1..=KEY_MAX).contains(&text.len())).then_some(text)
}

fn is_over(at: Timestamp, now: Timestamp) -> bool {
    at.plus(KEPT) < now
}

/// SHA-256 of several texts, each with its length before it.
fn sum(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_le_bytes());
        context.update(part);
    }
    context.finish().as_ref().iter().map(|octet| format!("{octet:02x}")).collect()
}

pub(crate) const HEADER: &str = "Idempotency-Key";
/// What is told to whoever was slower with a key.
pub(crate) const FASTER: &str = "another server has just handled a request with this Idempotency-Key; try again";
/// Hexadecimal digits of each part of an id: 40 bits.
const ID_DIGITS: usize = 10;
/// Most characters of a key.
const KEY_MAX: usize = 255;
/// How long a receipt counts.
const KEPT: Duration = Duration::from_hours(24);
/// Receipts that are kept, the latest; there may be [`CLEAR_EVERY`] more for each server.
const RECEIPTS_MAX: usize = 1_000;
const CLEAR_EVERY: u32 = 64;
/// Receipts that are looked at when they are cleared away: those of a hundred servers.
const LISTED_MAX: usize = 8_000;
/// Most octets of a receipt: lists of a thousand objects.
const RECEIPT_MAX: usize = 64 << 10;
const _: () = assert!(RECEIPT_MAX < VALUE_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_store::objects::LocalStore;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (HEADER.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn given(who: &str, key: &str, asked: &str) -> Given {
        let by = Author::new(who, "");
        Given::read(&headers(&[key]), &by, &[asked.as_bytes()]).unwrap().unwrap()
    }

    async fn commit(store: &dyn ObjectStore, changes: Vec<Change>, at: Timestamp) {
        store.commit(Batch { changes, by: Author::default(), at }).await.unwrap();
    }

    async fn status(under_way: &UnderWay, given: &Given, store: &dyn ObjectStore) -> u16 {
        match under_way.begin(Some(given), store).await {
            Ok(Begun::Before(..)) => 200,
            Ok(Begun::Now(_)) => 0,
            Err(refusal) => refusal.status().as_u16(),
        }
    }

    #[test]
    fn a_key_is_one_plain_text_with_quotes_or_without() {
        let by = Author::default();
        assert_eq!(given("a", "k", "x").receipt, given("a", "\"k\"", "x").receipt);
        assert_ne!(given("a", "k", "x").receipt, given("b", "k", "x").receipt, "each has keys of his own");
        assert!(Given::read(&HeaderMap::new(), &by, &[]).unwrap().is_none());
        let long = "k".repeat(KEY_MAX + 1);
        for bad in [&[""][..], &["\"\""], &["\"k"], &["a b"], &["k\"k"], &["a", "b"], &[&long]] {
            assert!(Given::read(&headers(bad), &by, &[]).is_err(), "{bad:?}");
        }
        assert!(Given::read(&headers(&[&long[1..]]), &by, &[]).is_ok());
    }

    #[tokio::test]
    async fn a_key_is_for_one_request_at_a_time_and_for_one_request_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (store, under_way) = (LocalStore::open(folder.path()).unwrap(), UnderWay::default());
        let mine = given("ann", "k", "put a");
        let Ok(Begun::Now(Some(once))) = under_way.begin(Some(&mine), &store).await else { panic!("it is new") };
        assert_eq!(status(&under_way, &mine, &store).await, 409, "it is under way");
        let now = SystemTime::now().into();
        commit(&store, vec![once.receipt(Done::Deleted).unwrap()], now).await;
        drop(once);
        assert_eq!(status(&under_way, &mine, &store).await, 200);
        assert_eq!(status(&under_way, &given("ann", "k", "put b"), &store).await, 422);
        assert_eq!(status(&under_way, &given("bob", "k", "put b"), &store).await, 0);
    }

    #[tokio::test]
    async fn a_receipt_is_forgotten_after_a_day_and_the_oldest_of_too_many_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let (store, under_way) = (LocalStore::open(folder.path()).unwrap(), UnderWay::default());
        let now = Timestamp::from(SystemTime::now());
        let leave = |key: &str, at: Timestamp| {
            let given = given("ann", key, "x");
            let once = Once { given, expect: Expect::Absent, keys: Arc::default() };
            (vec![once.receipt(Done::Deleted).unwrap()], at)
        };
        let (changes, _) = leave("old", now);
        let long_ago = Timestamp::from(SystemTime::now() - KEPT - Duration::from_secs(60));
        commit(&store, changes, long_ago).await;
        assert_eq!(status(&under_way, &given("ann", "old", "y"), &store).await, 0, "it may be another request by now");
        let many: Vec<Change> = (0..RECEIPTS_MAX + 3).flat_map(|n| leave(&format!("k{n}"), now).0).collect();
        let (first, rest) = many.split_at(2);
        commit(&store, first.to_vec(), now).await;
        commit(&store, rest.to_vec(), now).await;
        under_way.clear_away(&store).await;
        let under = Prefix::new(Kind::Receipt, &[]).unwrap();
        let left = store.list(&under, None, LISTED_MAX).await.unwrap().objects;
        assert_eq!(left.len(), RECEIPTS_MAX);
        assert!(first.iter().all(|change| left.iter().all(|of| of.key != change.key)), "the oldest are gone");
    }
}
