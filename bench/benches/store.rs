//! The object store on this machine's disk: `cargo bench -p fairway-bench --features store --bench store`. Flushes of the disk
//! are measured as well: they limit how fast a store can acknowledge a write, but not the number of concurrent writes.
//!
//! The files are in the working folder, since a temporary folder may be in memory.

use std::{fs::File, io::Write, path::Path, sync::Arc};

use divan::{Bencher, counter::ItemsCount};
use fairway_model::Timestamp;
use fairway_store::objects::{Author, Batch, Change, Expect, Key, Kind, LocalStore, ObjectStore, Prefix, ValueOptions};
use tempfile::TempDir;
use tokio::{runtime::Runtime, task::JoinSet};

fn main() {
    divan::main();
}

const WRITERS: usize = 64;
/// Writes per writer and round.
const EACH: usize = 50;
const OBJECTS: usize = 100_000;

fn folder() -> TempDir {
    tempfile::tempdir_in(".").expect("the working folder can be written to")
}

fn runtime() -> Runtime {
    Runtime::new().expect("threads can be started")
}

fn change(name: &str, value: Vec<u8>) -> Change {
    let key = Key::new(Kind::Inbound, &["p", "app", "v1", "group", "set", name]).expect("a name");
    Change { key, expect: Expect::Anything, value: Some(value) }
}

fn batch(changes: Vec<Change>) -> Batch {
    let by = Author::new("bench", "a figure");
    Batch { changes, by, at: Timestamp::from_secs(1) }
}

/// Returns a value of 1 kB that is different for each number.
fn value(number: usize) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[b'x'; 1_016]].concat()
}

#[divan::bench(sample_count = 20, sample_size = 20)]
fn flush_of_the_disk(bencher: Bencher<'_, '_>) {
    let folder = folder();
    let mut file = File::create(folder.path().join("flushed")).expect("a file");
    bencher.counter(ItemsCount::new(1_usize)).bench_local(|| {
        file.write_all(&[1; 1_024]).and_then(|()| file.sync_data()).expect("the disk takes it");
    });
}

#[divan::bench(sample_count = 9, sample_size = 1)]
fn durable_writes_of_64_writers(bencher: Bencher<'_, '_>) {
    let (folder, runtime) = (folder(), runtime());
    let store = Arc::new(LocalStore::open(folder.path(), ValueOptions::default()).expect("a store"));
    let mut round = 0;
    bencher.counter(ItemsCount::new(WRITERS * EACH)).bench_local(|| {
        round += 1;
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let store = store.clone();
            writers.spawn_on(
                async move {
                    for turn in 0..EACH {
                        let name = format!("w{writer}-{turn}");
                        store
                            .commit(batch(vec![change(&name, value(round * EACH + turn))]))
                            .await
                            .expect("it is written");
                    }
                },
                runtime.handle(),
            );
        }
        runtime.block_on(writers.join_all())
    });
}

#[divan::bench(sample_count = 9, sample_size = 1)]
fn start_with_100_000_objects(bencher: Bencher<'_, '_>) {
    let (folder, runtime) = (folder(), runtime());
    fill(folder.path(), &runtime);
    bencher.counter(ItemsCount::new(OBJECTS)).bench_local(|| {
        let store = LocalStore::open(folder.path(), ValueOptions::default()).expect("it opens");
        let listing = runtime.block_on(store.list(&Prefix::everything(), None, usize::MAX)).expect("it is read");
        assert_eq!(listing.objects.len(), OBJECTS);
    });
}

/// Writes the objects.
fn fill(folder: &Path, runtime: &Runtime) {
    let store = LocalStore::open(folder, ValueOptions::default()).expect("a store");
    for part in 0..OBJECTS / 5_000 {
        let numbers = part * 5_000..(part + 1) * 5_000;
        let changes = numbers.map(|number| change(&format!("i{number:06}"), value(number))).collect();
        runtime.block_on(store.commit(batch(changes))).expect("it is written");
    }
}
