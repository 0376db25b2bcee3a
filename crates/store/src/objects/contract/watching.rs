//! Rules of watching.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::timeout};

use super::{
    super::{Event, Expect, HISTORY_MAX, ObjectStore, StoreError, WATCH_MAX, Watch},
    batch, done, key, put, take,
};

/// The next batch; none where the watch has ended.
async fn next(watch: &mut Watch) -> Option<Arc<[Event]>> {
    timeout(LIMIT, watch.events.recv()).await.expect("nothing came")
}

/// Revisions of the batches up to one, which must come.
async fn until(watch: &mut Watch, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        seen.push(next(watch).await.expect("it goes on")[0].revision);
    }
    seen
}

pub(in super::super) async fn a_watch_tells_batches_whole_and_in_order(store: Arc<dyn ObjectStore>) {
    let mut watch = store.watch(0).await.unwrap();
    let changes = vec![put("b", Expect::Absent, b"1"), take("none", Expect::Absent), put("a", Expect::Absent, b"1")];
    let first = store.commit(batch(1, changes)).await.unwrap();
    store.commit(batch(1, vec![put("a", Expect::Absent, b"2")])).await.unwrap_err();
    done(&*store, put("a", Expect::Present, b"1")).await;
    let second = done(&*store, take("b", Expect::Present)).await;
    let told = next(&mut watch).await.unwrap();
    let seen: Vec<_> = told.iter().map(|event| (event.revision, event.object.clone())).collect();
    let expected = [0, 2].map(|at: usize| (first.revision, first.objects[at].clone()));
    assert_eq!(seen, expected, "without what changed nothing");
    let told = next(&mut watch).await.unwrap();
    assert_eq!(*told, [Event { revision: second, key: key("b"), object: None }], "without what was refused");
    assert!(watch.events.try_recv().is_err(), "there is no more");
}

pub(in super::super) async fn a_watch_resumes_after_what_was_seen_last(store: Arc<dyn ObjectStore>) {
    let mut revisions = Vec::new();
    for turn in 0..20 {
        revisions.push(done(&*store, put(&format!("p{}", turn % 5), Expect::Anything, &[turn])).await);
    }
    revisions.push(done(&*store, take("p0", Expect::Present)).await);
    let mut live = store.watch(*revisions.last().unwrap()).await.unwrap();
    for seen in 0..revisions.len() - 1 {
        let mut watch = store.watch(revisions[seen]).await.unwrap();
        assert_eq!(until(&mut watch, revisions[20]).await, revisions[seen + 1..]);
    }
    let mut early = store.watch(0).await.unwrap();
    let made = next(&mut early).await.unwrap()[0].object.clone().unwrap();
    assert_eq!((made.key, &*made.value, made.generation), (key("p0"), &[0][..], 1), "as it was then");
    let more = done(&*store, put("p0", Expect::Absent, b"anew")).await;
    assert_eq!(until(&mut live, more).await, [more]);
    assert_eq!(until(&mut early, more).await.len(), 21, "what is new follows what was replayed");
}

pub(in super::super) async fn a_revision_that_is_forgotten_or_never_was_cannot_be_watched_from(
    store: Arc<dyn ObjectStore>,
) {
    let first = done(&*store, put("a", Expect::Absent, b"first")).await;
    let mut last = first;
    for turn in 0..=HISTORY_MAX.0 {
        last = done(&*store, put("a", Expect::Present, turn.to_string().as_bytes())).await;
    }
    let Err(StoreError::Compacted { asked, oldest }) = store.watch(first).await else { panic!("it must be forgotten") };
    assert!(asked == first && first < oldest && oldest < last, "{first} {oldest} {last}");
    let mut watch = store.watch(oldest).await.unwrap();
    assert_eq!(until(&mut watch, last).await.len(), HISTORY_MAX.0);
    assert!(matches!(store.watch(last + 1).await, Err(StoreError::Compacted { .. })), "nobody was there yet");
}

pub(in super::super) async fn a_reader_that_is_too_slow_is_closed_and_misses_nothing_when_it_resumes(
    store: Arc<dyn ObjectStore>,
) {
    let mut slow = store.watch(0).await.unwrap();
    let mut writers = JoinSet::new();
    for number in 0..WATCH_MAX + 50 {
        let store = store.clone();
        writers.spawn(async move { done(&*store, put(&format!("p{number}"), Expect::Absent, b"1")).await });
    }
    let mut written = writers.join_all().await;
    written.sort_unstable();
    // Where several servers are asked in turn, each of them has heard of all by its answer.
    for _ in 0..2 {
        store.read(&key("p0")).await.unwrap();
    }
    let mut seen = Vec::new();
    while let Some(told) = next(&mut slow).await {
        seen.push(told[0].revision);
    }
    assert!(seen.len() >= WATCH_MAX && seen.len() < written.len(), "{} were told", seen.len());
    let mut again = store.watch(*seen.last().unwrap()).await.unwrap();
    seen.extend(until(&mut again, *written.last().unwrap()).await);
    assert_eq!(seen, written);
}

pub(in super::super) async fn watches_that_begin_among_writes_miss_nothing(store: Arc<dyn ObjectStore>) {
    const EACH: u64 = 40;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            for turn in 0..EACH {
                done(&*store, put(&format!("w{writer}"), Expect::Anything, &turn.to_be_bytes())).await;
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

/// Far longer than any of it takes.
const LIMIT: Duration = Duration::from_secs(60);
