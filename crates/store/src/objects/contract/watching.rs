//! Contract tests of watches.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::timeout};

use super::{
    super::{Event, Expect, HISTORY_LIMITS, ObjectStore, StoreError, WATCH_MAX, Watch},
    batch, commit_one, delete, key, put,
};

/// Returns the next batch; `None` if the watch has ended.
async fn next(watch: &mut Watch) -> Option<Arc<[Event]>> {
    timeout(LIMIT, watch.events.recv()).await.expect("no event within the limit")
}

/// Returns the revisions of the batches up to one.
async fn until(watch: &mut Watch, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        seen.push(next(watch).await.expect("the watch is open")[0].revision);
    }
    seen
}

pub(in super::super) async fn watch_sends_complete_batches_in_order(store: Arc<dyn ObjectStore>) {
    let mut watch = store.watch(0).await.unwrap();
    let changes = vec![put("b", Expect::Absent, b"1"), delete("none", Expect::Absent), put("a", Expect::Absent, b"1")];
    let first = store.commit(batch(1, changes)).await.unwrap();
    store.commit(batch(1, vec![put("a", Expect::Absent, b"2")])).await.unwrap_err();
    commit_one(&*store, put("a", Expect::Present, b"1")).await;
    let second = commit_one(&*store, delete("b", Expect::Present)).await;
    let batch = next(&mut watch).await.unwrap();
    let seen: Vec<_> = batch.iter().map(|event| (event.revision, event.object.clone())).collect();
    let expected = [0, 2].map(|at: usize| (first.revision, first.objects[at].clone()));
    assert_eq!(seen, expected, "a change without effect sends no event");
    let batch = next(&mut watch).await.unwrap();
    assert_eq!(*batch, [Event { revision: second, key: key("b"), object: None }], "a rejected batch sends no event");
    assert!(watch.events.try_recv().is_err(), "no more events are expected");
}

pub(in super::super) async fn watch_resumes_after_the_last_seen_revision(store: Arc<dyn ObjectStore>) {
    let mut revisions = Vec::new();
    for turn in 0..20 {
        revisions.push(commit_one(&*store, put(&format!("p{}", turn % 5), Expect::Anything, &[turn])).await);
    }
    revisions.push(commit_one(&*store, delete("p0", Expect::Present)).await);
    let mut live = store.watch(*revisions.last().unwrap()).await.unwrap();
    for seen in 0..revisions.len() - 1 {
        let mut watch = store.watch(revisions[seen]).await.unwrap();
        assert_eq!(until(&mut watch, revisions[20]).await, revisions[seen + 1..]);
    }
    let mut early = store.watch(0).await.unwrap();
    let made = next(&mut early).await.unwrap()[0].object.clone().unwrap();
    assert_eq!(
        (made.key, &*made.value, made.generation),
        (key("p0"), &[0][..], 1),
        "the first event has the object of that revision"
    );
    let more = commit_one(&*store, put("p0", Expect::Absent, b"anew")).await;
    assert_eq!(until(&mut live, more).await, [more]);
    assert_eq!(until(&mut early, more).await.len(), 21, "live events follow the replayed ones");
}

pub(in super::super) async fn watch_from_an_expired_or_future_revision_is_rejected(store: Arc<dyn ObjectStore>) {
    let first = commit_one(&*store, put("a", Expect::Absent, b"first")).await;
    let mut last = first;
    for turn in 0..=HISTORY_LIMITS.per_key {
        last = commit_one(&*store, put("a", Expect::Present, turn.to_string().as_bytes())).await;
    }
    let Err(StoreError::Compacted { asked, oldest }) = store.watch(first).await else {
        panic!("the revision must have expired")
    };
    assert!(asked == first && first < oldest && oldest < last, "{first} {oldest} {last}");
    let mut watch = store.watch(oldest).await.unwrap();
    assert_eq!(until(&mut watch, last).await.len(), HISTORY_LIMITS.per_key);
    assert!(matches!(store.watch(last + 1).await, Err(StoreError::Compacted { .. })), "a future revision is rejected");
}

pub(in super::super) async fn slow_watch_gets_every_batch_in_order(store: Arc<dyn ObjectStore>) {
    let mut slow = store.watch(0).await.unwrap();
    let mut writers = JoinSet::new();
    for number in 0..WATCH_MAX + 50 {
        let store = store.clone();
        writers.spawn(async move { commit_one(&*store, put(&format!("p{number}"), Expect::Absent, b"1")).await });
    }
    let mut written = writers.join_all().await;
    written.sort_unstable();
    // On two servers in turn, a read brings each of them up to date.
    for _ in 0..2 {
        store.read(&key("p0")).await.unwrap();
    }
    assert_eq!(until(&mut slow, *written.last().unwrap()).await, written);
}

/// The history of an object is shorter than what a watch may have in its channel, so the log loses changes that were not sent.
pub(in super::super) async fn watch_that_is_slower_than_the_history_ends(store: Arc<dyn ObjectStore>) {
    let mut slow = store.watch(0).await.unwrap();
    let mut writers = JoinSet::new();
    for turn in 0..WATCH_MAX + 4 * HISTORY_LIMITS.per_key {
        let store = store.clone();
        writers
            .spawn(async move { commit_one(&*store, put("a", Expect::Anything, turn.to_string().as_bytes())).await });
    }
    let last = writers.join_all().await.into_iter().max().unwrap();
    for _ in 0..2 {
        store.read(&key("a")).await.unwrap();
    }
    let mut seen = 0;
    while let Some(batch) = next(&mut slow).await {
        assert_eq!(batch[0].revision, seen + 1, "no gap");
        seen += 1;
    }
    assert!(seen < last, "the watch ends before {last}");
    assert!(matches!(store.watch(seen).await, Err(StoreError::Compacted { .. })));
}

pub(in super::super) async fn watch_started_during_writes_has_no_gap(store: Arc<dyn ObjectStore>) {
    const EACH: u64 = 40;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            for turn in 0..EACH {
                commit_one(&*store, put(&format!("w{writer}"), Expect::Anything, &turn.to_be_bytes())).await;
            }
        });
    }
    let mut readers = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        readers.spawn(async move {
            let listed = store.list(&super::super::Prefix::everything(), None, 100).await.unwrap();
            let mut watch = store.watch(listed.revision).await.unwrap();
            let expected: Vec<_> = (listed.revision + 1..=8 * EACH).collect();
            let seen = if expected.is_empty() { Vec::new() } else { until(&mut watch, 8 * EACH).await };
            assert_eq!(seen, expected);
        });
    }
    writers.join_all().await;
    readers.join_all().await;
}

/// Limit of each step; all take far less on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);
