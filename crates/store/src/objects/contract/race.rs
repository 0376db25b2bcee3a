//! Contract test of races: the results of many writers on few objects must be linearizable.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::task::JoinSet;

use super::{
    super::{Change, Expect, ObjectStore, StoreError},
    batch, key,
    linear::{Did, Operation, is_linearizable},
};

/// Enough for hundreds of conflicts, few enough for the search of `linear`.
const WRITERS: u64 = 64;
const OBJECTS: u64 = 8;
const OPERATIONS: u64 = 30;

pub(in super::super) async fn racing_writers_are_linearizable(store: Arc<dyn ObjectStore>) {
    let clock = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(work(writer, store.clone(), clock.clone()));
    }
    let mut histories: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
    let mut written = Vec::new();
    for (name, operation) in writers.join_all().await.into_iter().flatten() {
        if let Did::Wrote(_, revision) | Did::Deleted(_, revision) = operation.did {
            written.push((operation.called, operation.returned, revision));
        }
        histories.entry(name).or_default().push(operation);
    }
    for (name, history) in &histories {
        assert!(is_linearizable(history), "{name}: not linearizable: {history:#?}");
    }
    let conflicts =
        histories.values().flatten().filter(|operation| matches!(operation.did, Did::Conflicted(..))).count();
    assert!(conflicts > 50 && written.len() > 200, "too few races: {conflicts} conflicts, {} writes", written.len());
    // Across objects: a write that began after another one returned has the higher revision.
    written.sort_by_key(|(called, ..)| *called);
    for (at, (_, returned, revision)) in written.iter().enumerate() {
        let later = written[at + 1..].iter().find(|(called, _, other)| called > returned && other <= revision);
        assert_eq!(later, None, "a later write has a lower revision than {revision}");
    }
}

/// Runs the operations of one writer: reads, writes that expect the revision that it read last, unconditional writes and deletions.
async fn work(writer: u64, store: Arc<dyn ObjectStore>, clock: Arc<AtomicU64>) -> Vec<(String, Operation)> {
    let mut operations = Vec::new();
    let mut draw = writer + 1;
    let mut known = None;
    for turn in 0..OPERATIONS {
        // Xorshift (Marsaglia 2003): the same draws in each run.
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        let name = format!("p{}", writer % OBJECTS);
        let called = clock.fetch_add(1, Ordering::SeqCst);
        let value = format!("{writer} {turn}").into_bytes();
        let did = match draw % 8 {
            0..=2 => {
                known = store.read(&key(&name)).await.unwrap().map(|object| object.revision);
                Did::Read(known)
            }
            3..=5 => change(&*store, &name, known.map_or(Expect::Absent, Expect::Revision), Some(value)).await,
            6 => change(&*store, &name, Expect::Anything, Some(value)).await,
            _ => change(&*store, &name, Expect::Present, None).await,
        };
        let returned = clock.fetch_add(1, Ordering::SeqCst);
        if let Did::Conflicted(_, found) = did {
            known = found;
        }
        operations.push((name, Operation { called, returned, did }));
    }
    operations
}

async fn change(store: &dyn ObjectStore, name: &str, expect: Expect, value: Option<Vec<u8>>) -> Did {
    let is_deletion = value.is_none();
    match store.commit(batch(1, vec![Change { key: key(name), expect, value }])).await {
        Ok(committed) if is_deletion => Did::Deleted(expect, committed.revision),
        Ok(committed) => Did::Wrote(expect, committed.revision),
        Err(StoreError::Conflict { found, .. }) => Did::Conflicted(expect, found),
        Err(e) => panic!("{e}"),
    }
}
