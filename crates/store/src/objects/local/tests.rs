use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use fairway_model::SplitMix;
use redb::{ReadableDatabase, ReadableTable};
use tempfile::TempDir;

use super::{
    super::{
        Committed, Expect, HISTORY_MAX, LocalStore, ObjectStore, Prefix, StoreError, StoreFile,
        contract::{batch, done, keeps_the_contract, key, put},
    },
    FILE,
    disk::{Disk, Does},
    tables::{self, META, OBJECTS, STEPS, Step},
};
use crate::DataFolder;

fn fresh() -> (TempDir, Arc<dyn ObjectStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::open(folder.path()).unwrap());
    (folder, store)
}

keeps_the_contract!(fresh());

/// A store on a disk that can be made to fail.
fn on_disk(remembered: (usize, usize, u64)) -> (TempDir, Arc<Disk>, Arc<LocalStore>) {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Arc::<Disk>::default());
    let store = LocalStore::open_with(disk.opener(folder.path().join(FILE)), remembered, None).unwrap();
    (folder, disk, Arc::new(store))
}

async fn commit(store: &LocalStore, name: &str, octets: usize) -> Result<Committed, StoreError> {
    store.commit(batch(1, vec![put(name, Expect::Anything, &vec![b'x'; octets])])).await
}

async fn names(store: &dyn ObjectStore) -> Vec<String> {
    let listing = store.list(&Prefix::everything(), None, usize::MAX).await.unwrap();
    listing.objects.iter().map(|object| object.key.name().to_owned()).collect()
}

#[tokio::test]
async fn what_was_committed_is_there_after_it_is_opened_again() {
    let (folder, store) = fresh();
    done(&*store, put("a", Expect::Absent, b"1")).await;
    let revision = done(&*store, put("a", Expect::Present, b"2")).await;
    let (before, history) = (store.read(&key("a")).await, store.history(&key("a"), None, 9).await);
    drop(store);
    let store = LocalStore::open(folder.path()).unwrap();
    assert_eq!((store.read(&key("a")).await, store.history(&key("a"), None, 9).await), (before, history));
    assert_eq!(done(&store, put("b", Expect::Absent, b"1")).await, revision + 1);
    let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_closed_store_lets_go_of_its_file_and_refuses_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path()).unwrap();
    let taken = LocalStore::open(folder.path()).unwrap_err();
    assert!(taken.to_string().contains("another process has it open"), "{taken}");
    let mut watch = store.watch(0).await.unwrap();
    store.close().await;
    let next = LocalStore::open(folder.path()).unwrap();
    assert_eq!(watch.events.recv().await, None);
    assert!(matches!(commit(&store, "a", 1).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.read(&key("a")).await, Err(StoreError::Unavailable(_))));
    commit(&next, "a", 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_acknowledged_seen_and_told_only_once_the_disk_has_flushed() {
    let (_folder, disk, store) = on_disk(HISTORY_MAX);
    let mut watch = store.watch(0).await.unwrap();
    disk.will(Does::Waits);
    let writer = tokio::spawn({
        let store = store.clone();
        async move { commit(&store, "a", 1).await }
    });
    tokio::task::spawn_blocking({
        let disk = disk.clone();
        move || disk.is_asked()
    })
    .await
    .unwrap();
    assert!(!writer.is_finished() && watch.events.try_recv().is_err());
    assert_eq!(store.read(&key("a")).await, Ok(None));
    disk.will(Does::Works);
    let revision = writer.await.unwrap().unwrap().revision;
    assert_eq!(watch.events.recv().await.unwrap()[0].revision, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_batch_leaves_those_it_shares_a_flush_with_alone() {
    let (_folder, disk, store) = on_disk(HISTORY_MAX);
    disk.will(Does::Waits);
    let changes = ["first", "a", "a", "b", "a"].map(|name| put(name, Expect::Absent, b"1"));
    let batches = changes.map(|change| store.commit(batch(1, vec![change])));
    let [first, a, again, b, third] = batches;
    let go_on = async {
        let waiting = disk.clone();
        // All five are asked for before the first one's flush ends.
        tokio::task::spawn_blocking(move || waiting.is_asked()).await.unwrap();
        disk.will(Does::Works);
    };
    let (first, a, again, b, third, ()) = tokio::join!(first, a, again, b, third, go_on);
    let [first, a, b] = [first, a, b].map(|taken| taken.unwrap().revision);
    assert_eq!((a, b), (first + 1, first + 2), "a refusal takes no revision");
    for refused in [again, third] {
        let found = Some(a);
        assert_eq!(refused, Err(StoreError::Conflict { key: key("a"), expect: Expect::Absent, found }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_nothing_is_acknowledged_and_writing_goes_on_when_there_is_room() {
    let (_folder, disk, store) = on_disk(HISTORY_MAX);
    commit(&store, "before", 1).await.unwrap();
    disk.will(Does::IsFull);
    let mut taken = vec!["before".to_owned()];
    let refused = loop {
        let name = format!("large{:03}", taken.len());
        match commit(&store, &name, 500_000).await {
            Ok(_) => taken.push(name),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert_eq!(names(&*store).await, taken, "what was acknowledged is there, and nothing else");
    commit(&store, "large000", 1_000_000).await.unwrap_err();
    disk.will(Does::Works);
    commit(&store, "after", 1_000_000).await.unwrap();
    assert_eq!(names(&*store).await.len(), taken.len() + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_flush_that_failed_watchers_are_told_what_is_there_and_nothing_else() {
    for does in [Does::FailsToFlush, Does::Fails] {
        let (_folder, disk, store) = on_disk(HISTORY_MAX);
        let before = commit(&store, "before", 1).await.unwrap().revision;
        let mut watch = store.watch(before).await.unwrap();
        disk.will(does);
        for _ in 0..3 {
            let told = commit(&store, "lost", 1).await.unwrap_err();
            assert!(matches!(told, StoreError::Unavailable(_)), "{told}");
        }
        disk.will(Does::Works);
        let mut told = Vec::new();
        commit(&store, "after", 1).await.unwrap();
        while told.last().is_none_or(|name| name != "after") {
            told.push(watch.events.recv().await.unwrap()[0].key.name().to_owned());
        }
        told.push("before".to_owned());
        told.sort_unstable();
        assert_eq!(names(&*store).await, told, "{does:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_bounded_in_octets_and_no_object_goes_with_them() {
    let (folder, _disk, store) = on_disk((100, 1_000, 50_000));
    for turn in 0..200 {
        commit(&store, &format!("p{}", turn % 7), 2_000 + turn).await.unwrap();
    }
    assert_eq!(names(&*store).await.len(), 7);
    let mut kept = 0;
    for of in 0..7 {
        kept += store.history(&key(&format!("p{of}")), None, 200).await.unwrap().len();
    }
    // A row of some 2,100 octets and its head.
    assert!((15..=24).contains(&kept), "{kept} entries");
    assert!(matches!(store.watch(1).await, Err(StoreError::Compacted { .. })), "who is far behind lists anew");
    store.close().await;
    let (file, scratch) = (StoreFile::open(&folder.path().join(FILE)).unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(file.verify().unwrap().objects, 7);
    let backup = scratch.path().join("backup.redb");
    file.back_up(&backup).unwrap();
    assert_eq!(StoreFile::open(&backup).unwrap().verify(), file.verify(), "a backup knows how long they are");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_entries_of_all_are_forgotten_and_no_object_is() {
    let (folder, _disk, store) = on_disk((100, 10, u64::MAX));
    for number in 10..40 {
        commit(&store, &format!("p{number}"), 1).await.unwrap();
    }
    assert_eq!(names(&*store).await.len(), 30);
    assert_eq!(store.history(&key("p29"), None, 9).await.unwrap(), []);
    assert_eq!(store.history(&key("p30"), None, 9).await.unwrap().len(), 1);
    assert!(store.watch(19).await.is_err() && store.watch(20).await.is_ok());
    commit(&store, "p10", 2).await.unwrap();
    assert_eq!(store.history(&key("p10"), None, 9).await.unwrap().len(), 1);
    store.close().await;
    let verified = StoreFile::open(&folder.path().join(FILE)).unwrap().verify().unwrap();
    assert_eq!((verified.objects, verified.entries, verified.oldest), (30, 10, 21));
}

#[tokio::test]
async fn a_damaged_row_is_told_and_concerns_its_key_only() {
    let (folder, store) = fresh();
    done(&*store, put("bad", Expect::Absent, b"1")).await;
    done(&*store, put("good", Expect::Absent, b"1")).await;
    drop(store);
    let path = folder.path().join(FILE);
    let database = tables::open(tables::file(&path).unwrap(), STEPS).unwrap();
    let writing = tables::begin(&database).unwrap();
    writing.open_table(OBJECTS).unwrap().insert("pool/bad", &b"\x01nonsense, nonsense"[..]).unwrap();
    writing.commit().unwrap();
    drop(database);
    let store = LocalStore::open(folder.path()).unwrap();
    let told = store.read(&key("bad")).await.unwrap_err().to_string();
    assert!(told.contains("pool/bad") && told.contains("docs/operations/store.md"), "{told}");
    assert!(matches!(commit(&store, "bad", 1).await, Err(StoreError::Damaged(_))));
    done(&store, put("good", Expect::Present, b"2")).await;
    assert!(matches!(StoreFile::open(&path).unwrap().verify(), Err(StoreError::Damaged(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_octets_changed_anywhere_is_read_aright_or_told_to_be_damaged() {
    let (folder, store) = fresh();
    for number in 0..40 {
        done(&*store, put(&format!("p{number:02}"), Expect::Absent, &vec![number; 3_000])).await;
    }
    drop(store);
    let path = folder.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    let used = whole.iter().rposition(|octet| *octet != 0).unwrap();
    let (mut seen, mut random) = ([0, 0], SplitMix::new(1));
    for turn in 0..60 {
        let draw = random.bits();
        let at = usize::try_from(draw >> 20).unwrap() % used;
        let mut broken = whole.clone();
        match turn % 3 {
            0 => broken[at..].iter_mut().take(4_096).for_each(|octet| *octet ^= 0xa5),
            1 => broken[at] ^= 1 << (draw % 8),
            _ => broken.truncate(at),
        }
        fs::write(&path, &broken).unwrap();
        let found = read_all(folder.path()).await;
        seen[usize::from(found.is_err())] += 1;
        if let Err(e) = found {
            assert!(matches!(e, StoreError::Damaged(_) | StoreError::Newer { .. }), "turn {turn} at {at}: {e:?}");
        }
    }
    assert!(seen[0] > 0 && seen[1] > 10, "{seen:?}");
    for text in [&b""[..], b"not a store", &[0; 5_000]] {
        fs::write(&path, text).unwrap();
        let found = LocalStore::open(folder.path());
        assert!(text.is_empty() == found.is_ok(), "{found:?}");
    }
}

/// Reads every object as it was written, or says what keeps it from that.
async fn read_all(folder: &Path) -> Result<(), StoreError> {
    let store = LocalStore::open(folder)?;
    let listing = store.list(&Prefix::everything(), None, 100).await?;
    // A store that was cut back to the commit before is none of these: every commit was acknowledged.
    for object in &listing.objects {
        let number: u8 = object.key.name()[1..].parse().unwrap();
        assert_eq!(*object.value, *vec![number; 3_000], "{}", object.key);
    }
    match listing.objects.len() {
        40 => Ok(()),
        others => Err(StoreError::Damaged(format!("{others} of 40 are there"))),
    }
}

#[tokio::test]
async fn an_older_store_is_brought_up_and_a_newer_one_refused() {
    let mark: Step = |writing| {
        let mut meta = writing.open_table(META).map_err(tables::told)?;
        meta.insert("mark", 7).map(|_| ()).map_err(tables::told)
    };
    let fails: Step = |_| Err(StoreError::Unavailable("no room".to_owned()));
    let (folder, store) = fresh();
    done(&*store, put("a", Expect::Absent, b"1")).await;
    drop(store);
    let path = folder.path().join(FILE);
    let open = |steps: &[Step]| tables::open(tables::file(&path).unwrap(), steps);
    assert!(open(&[STEPS, &[mark, fails]].concat()).is_err());
    let number = |database: &redb::Database, name: &str| {
        let meta = database.begin_read().unwrap().open_table(META).unwrap();
        meta.get(name).unwrap().map(|number| number.value())
    };
    let as_it_was = open(STEPS).unwrap();
    assert_eq!((number(&as_it_was, "schema"), number(&as_it_was, "mark")), (Some(2), None), "all steps or none");
    drop(as_it_was);
    let newer = open(&[STEPS, &[mark]].concat()).unwrap();
    assert_eq!((number(&newer, "schema"), number(&newer, "mark")), (Some(3), Some(7)));
    assert_eq!(newer.begin_read().unwrap().open_table(OBJECTS).unwrap().iter().unwrap().count(), 1);
    drop(newer);
    let refused = [LocalStore::open(folder.path()).unwrap_err(), StoreFile::open(&path).unwrap_err()];
    assert_eq!(refused, [(); 2].map(|()| StoreError::Newer { found: 3, known: 2 }));
}

#[tokio::test]
async fn a_store_of_version_1_is_whole_and_its_histories_are_counted_when_it_is_opened() {
    let (folder, store) = fresh();
    for value in [&b"1"[..], b"22"] {
        done(&*store, put("a", Expect::Anything, value)).await;
    }
    drop(store);
    let (path, scratch) = (folder.path().join(FILE), tempfile::tempdir().unwrap());
    let database = tables::open(tables::file(&path).unwrap(), STEPS).unwrap();
    let writing = tables::begin(&database).unwrap();
    {
        let mut meta = writing.open_table(META).unwrap();
        meta.insert("schema", 1).unwrap();
        assert!(meta.remove("octets").unwrap().is_some_and(|octets| octets.value() > 0));
    }
    writing.commit().unwrap();
    drop(database);
    let (file, backup) = (StoreFile::open(&path).unwrap(), scratch.path().join("backup.redb"));
    let verified = file.back_up(&backup).unwrap();
    drop(file);
    let held = DataFolder::open(folder.path()).unwrap();
    let restored = StoreFile::open(&backup).unwrap().restore(&held).unwrap();
    assert_eq!((restored.objects, restored.entries), (verified.objects, 2));
    let store = LocalStore::open(folder.path()).unwrap();
    done(&store, put("a", Expect::Present, b"333")).await;
    drop(store);
    assert_eq!(StoreFile::open(&path).unwrap().verify().unwrap().entries, 3, "what was there is in the count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_beside_a_writer_is_whole_and_restores_what_it_holds() {
    let (folder, store) = fresh();
    let scratch = tempfile::tempdir().unwrap();
    let (file, backup) = (folder.path().join(FILE), scratch.path().join("backup.redb"));
    done(&*store, put("kept", Expect::Absent, b"1")).await;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for turn in 0..50_u8 {
                let both = ["x", "y"].map(|name| put(name, Expect::Anything, &[turn]));
                store.commit(batch(1, both.to_vec())).await.unwrap();
            }
        }
    });
    let verified = StoreFile::open(&file).unwrap().back_up(&backup).unwrap();
    writer.await.unwrap();
    assert!(StoreFile::open(&file).unwrap().back_up(&backup).is_err(), "a file that is there is left alone");
    assert_eq!(StoreFile::open(&backup).unwrap().verify(), Ok(verified));
    let late = done(&*store, put("late", Expect::Absent, b"1")).await;
    drop(store);
    let held = DataFolder::open(folder.path()).unwrap();
    let restored = StoreFile::open(&backup).unwrap().restore(&held).unwrap();
    assert!(restored.revision > late && restored.objects == verified.objects);
    let store = LocalStore::open(folder.path()).unwrap();
    let names = names(&store).await;
    assert!(names.contains(&"kept".to_owned()) && !names.contains(&"late".to_owned()), "{names:?}");
    let halves = ["x", "y"].map(key);
    let halves = [store.read(&halves[0]).await.unwrap(), store.read(&halves[1]).await.unwrap()];
    let [x, y] = halves.map(|half| half.map(|object| object.value));
    assert_eq!(x, y, "half a batch");
    assert!(
        matches!(store.watch(late).await, Err(StoreError::Compacted { .. })),
        "what was seen after the backup is gone"
    );
    assert!(done(&store, put("kept", Expect::Present, b"2")).await > restored.revision);
    assert!(StoreFile::open(&folder.path().join("objects.redb.replaced")).is_ok(), "the one before stays");
    drop(store);
    assert_eq!(StoreFile::mend(&held, &StoreFile::path_in(held.path())), Ok(true));
}
