//! The object store when its process is killed: acknowledged changes remain, and no batch is incomplete.
//!
//! The killed process is this test program itself, started to run the one test that commits. Number of kills: FAIRWAY_KILLS,
//! else 50. The system keeps its memory after a kill, so this does not cover a power cut: that the disk has flushed before a
//! commit is acknowledged is tested by a test of the store, and on the real binary by `daemon/flush.rs`.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use fairway_model::Timestamp;
use fairway_store::{
    DataFolder,
    objects::{
        Author, Batch, Change, Expect, Key, Kind, LocalStore, ObjectStore, Prefix, StoreFile, StoreKeys, ValueOptions,
    },
};
use tempfile::TempDir;

/// Concurrent writers, and objects that each changes in one batch.
const WRITERS: usize = 8;
const OBJECTS: usize = 3;
/// Variable with the data folder of the killed process.
const FOLDER: &str = "FAIRWAY_KILLED_FOLDER";
const SEED: u64 = 0x5eed_0006;

/// Numbers of the last started and the last acknowledged batch of a writer.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    begun: u64,
    acknowledged: u64,
}

#[test]
fn acknowledged_changes_survive_a_kill_at_any_moment() {
    let kills: u32 = env::var("FAIRWAY_KILLS").map_or(50, |text| text.parse().expect("FAIRWAY_KILLS is a number"));
    let folder = TempDir::new().expect("a temporary folder");
    let (mut draw, mut known, mut inside) = (SEED, [Known::default(); WRITERS], 0);
    for kill in 1..=kills {
        // Marsaglia's xorshift generator: the same moments in each run, as far as a clock allows.
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        let moment = Duration::from_micros(draw % 40_000);
        killed_after(moment, folder.path(), &mut known);
        inside += u32::from(known.iter().any(|writer| writer.begun > writer.acknowledged));
        assert_whole(folder.path(), &mut known, kill);
    }
    let batches: u64 = known.iter().map(|writer| writer.acknowledged).sum();
    println!(
        "{kills} kills (seed {SEED:#x}), {inside} of them inside a write; {batches} batches, none lost, none by half"
    );
    assert!(inside * 10 >= kills * 3, "only {inside} of {kills} kills fell inside a write");
    assert!(batches > u64::from(kills), "only {batches} batches were written");
}

/// Starts a process that commits, kills it this long after its first acknowledged batch, and records its output.
fn killed_after(moment: Duration, folder: &Path, known: &mut [Known; WRITERS]) {
    let mut process = Command::new(env::current_exe().expect("this program has a path"))
        .args(["commits_until_it_is_killed", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be called again");
    let said = lines(&mut process);
    let mut end = None;
    loop {
        let left = end.map_or(Duration::from_secs(60), |end: Instant| end.saturating_duration_since(Instant::now()));
        match said.recv_timeout(left) {
            Ok(line) if take_down(&line, known) => end = end.or_else(|| Some(Instant::now() + moment)),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if end.is_some() => break,
            Err(why) => panic!("it commits nothing: {why}"),
        }
    }
    process.kill().expect("it still runs");
    process.wait().expect("it has ended");
    said.iter().for_each(|line| {
        take_down(&line, known);
    });
}

/// Reads the output of a process line by line until its end.
fn lines(process: &mut Child) -> Receiver<String> {
    let (out, lines) = channel();
    let stdout = process.stdout.take().expect("it is piped");
    thread::spawn(move || {
        // A line truncated by the kill has no line break and is ignored.
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        while stdout.read_line(&mut line).is_ok_and(|octets| octets > 0) {
            if line.ends_with('\n') && out.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}

/// Records `begun WRITER NUMBER` or `acknowledged WRITER NUMBER`; returns true for the latter.
fn take_down(line: &str, known: &mut [Known; WRITERS]) -> bool {
    let words: Vec<_> = line.split_whitespace().collect();
    let [what @ ("begun" | "acknowledged"), writer, number] = words[..] else { return false };
    let known = &mut known[writer.parse::<usize>().expect("a writer")];
    let number = number.parse().expect("a number");
    match what {
        "begun" => known.begun = number,
        _ => known.acknowledged = number,
    }
    what == "acknowledged"
}

fn assert_whole(folder: &Path, known: &mut [Known; WRITERS], kill: u32) {
    if kill.is_multiple_of(10) {
        let held = DataFolder::open(folder).expect("the lock ended with the process");
        StoreFile::repair(&held, &StoreFile::path_in(folder)).expect("its pages are in order, or are brought in order");
    }
    let store = LocalStore::open(folder, ValueOptions::default()).expect("it opens after a kill");
    let listing = wait(store.list(&Prefix::everything(), None, usize::MAX)).expect("it can be read");
    for (writer, known) in known.iter_mut().enumerate() {
        let numbers: Vec<u64> = (0..OBJECTS)
            .map(|object| {
                let key = key(writer, object);
                let found = listing.objects.iter().find(|found| found.key == key);
                found.map_or(0, |found| number_of(&found.value))
            })
            .collect();
        assert!(numbers.iter().all(|number| *number == numbers[0]), "half a batch after kill {kill}: {numbers:?}");
        let allowed = known.acknowledged..=known.begun.max(known.acknowledged);
        assert!(allowed.contains(&numbers[0]), "kill {kill}: writer {writer} has {}, not {allowed:?}", numbers[0]);
        *known = Known { begun: numbers[0], acknowledged: numbers[0] };
    }
    drop(store);
    let file = fs::canonicalize(StoreFile::path_in(folder)).expect("it is there");
    StoreFile::open(&file, &StoreKeys::default()).and_then(|file| file.verify()).expect("every row is in order");
}

/// Not a separate test: the process that the other test kills.
#[test]
#[ignore = "is run, and killed, by the test of kills"]
fn commits_until_it_is_killed() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    // The test runner has printed an incomplete line.
    say("\n");
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    runtime.block_on(async {
        let store = std::sync::Arc::new(
            LocalStore::open(Path::new(&folder), ValueOptions::default()).expect("it opens after a kill"),
        );
        let writers = (0..WRITERS).map(|writer| tokio::spawn(commit_on_and_on(store.clone(), writer)));
        for writer in writers.collect::<Vec<_>>() {
            writer.await.expect("it goes on until the process ends");
        }
    });
}

async fn commit_on_and_on(store: std::sync::Arc<LocalStore>, writer: usize) {
    let last = store.read(&key(writer, 0)).await.expect("it can be read");
    for number in last.map_or(0, |object| number_of(&object.value)) + 1.. {
        say(&format!("begun {writer} {number}\n"));
        let value = [&number.to_be_bytes()[..], &[b'x'; 1_000]].concat();
        let change = |object| Change { key: key(writer, object), expect: Expect::Anything, value: Some(value.clone()) };
        let changes = (0..OBJECTS).map(change).collect();
        let batch = Batch { changes, by: Author::default(), at: Timestamp::from_secs(number) };
        store.commit(batch).await.expect("it is written");
        say(&format!("acknowledged {writer} {number}\n"));
    }
}

/// Writes with one call, so that lines of several threads do not mix, and nothing stays buffered in this process.
fn say(line: &str) {
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

fn key(writer: usize, object: usize) -> Key {
    Key::new(Kind::Pool, &[&format!("w{writer}-{object}")]).expect("a name")
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(*value.first_chunk().expect("it begins with its number"))
}

fn wait<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("threads can be started").block_on(task)
}
