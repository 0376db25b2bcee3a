use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use fairway_model::SplitMix;
use redb::{ReadableDatabase, ReadableTable};
use tempfile::TempDir;

use super::{
    super::{
        Committed, Expect, HISTORY_LIMITS, HistoryLimits, LocalStore, ObjectStore, Prefix, StoreError, StoreFile,
        StoreKeys, ValueOptions,
        contract::{batch, commit_one, contract_tests, key, put},
    },
    FILE,
    disk::{Disk, DiskMode},
    tables::{self, META, MIGRATIONS, Migration, OBJECTS},
};
use crate::DataFolder;

fn fresh() -> (TempDir, Arc<dyn ObjectStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::open(folder.path(), ValueOptions::default()).unwrap());
    (folder, store)
}

contract_tests!(fresh());

/// Returns a store on a disk that can be made to fail.
fn on_disk(limits: HistoryLimits) -> (TempDir, Arc<Disk>, Arc<LocalStore>) {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Arc::<Disk>::default());
    let store =
        LocalStore::open_with(disk.opener(folder.path().join(FILE)), limits, ValueOptions::default(), None).unwrap();
    (folder, disk, Arc::new(store))
}

async fn commit(store: &LocalStore, name: &str, bytes: usize) -> Result<Committed, StoreError> {
    store.commit(batch(1, vec![put(name, Expect::Anything, &vec![b'x'; bytes])])).await
}

async fn names(store: &dyn ObjectStore) -> Vec<String> {
    let listing = store.list(&Prefix::everything(), None, usize::MAX).await.unwrap();
    listing.objects.iter().map(|object| object.key.name().to_owned()).collect()
}

#[tokio::test]
async fn committed_objects_are_there_after_a_restart() {
    let (folder, store) = fresh();
    commit_one(&*store, put("a", Expect::Absent, b"1")).await;
    let revision = commit_one(&*store, put("a", Expect::Present, b"2")).await;
    let (before, history) = (store.read(&key("a")).await, store.history(&key("a"), None, 9).await);
    drop(store);
    let store = LocalStore::open(folder.path(), ValueOptions::default()).unwrap();
    assert_eq!((store.read(&key("a")).await, store.history(&key("a"), None, 9).await), (before, history));
    assert_eq!(commit_one(&store, put("b", Expect::Absent, b"1")).await, revision + 1);
    let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn closed_store_releases_its_file_and_rejects_calls() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path(), ValueOptions::default()).unwrap();
    let error = LocalStore::open(folder.path(), ValueOptions::default()).err().unwrap().to_string();
    assert!(error.contains("another process has it open"), "{error}");
    let mut watch = store.watch(0).await.unwrap();
    store.close().await;
    let next = LocalStore::open(folder.path(), ValueOptions::default()).unwrap();
    assert_eq!(watch.events.recv().await, None);
    assert!(matches!(commit(&store, "a", 1).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.read(&key("a")).await, Err(StoreError::Unavailable(_))));
    commit(&next, "a", 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_is_acknowledged_and_visible_only_after_the_sync() {
    let (_folder, disk, store) = on_disk(HISTORY_LIMITS);
    let mut watch = store.watch(0).await.unwrap();
    disk.set(DiskMode::Blocks);
    let writer = tokio::spawn({
        let store = store.clone();
        async move { commit(&store, "a", 1).await }
    });
    tokio::task::spawn_blocking({
        let disk = disk.clone();
        move || disk.wait_for_sync()
    })
    .await
    .unwrap();
    assert!(!writer.is_finished() && watch.events.try_recv().is_err());
    assert_eq!(store.read(&key("a")).await, Ok(None));
    disk.set(DiskMode::Works);
    let revision = writer.await.unwrap().unwrap().revision;
    assert_eq!(watch.events.recv().await.unwrap()[0].revision, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_batch_does_not_affect_batches_of_the_same_sync() {
    let (_folder, disk, store) = on_disk(HISTORY_LIMITS);
    disk.set(DiskMode::Blocks);
    let changes = ["first", "a", "a", "b", "a"].map(|name| put(name, Expect::Absent, b"1"));
    let batches = changes.map(|change| store.commit(batch(1, vec![change])));
    let [first, a, again, b, third] = batches;
    let unblock = async {
        let waiting = disk.clone();
        // All five are queued before the sync of the first one ends.
        tokio::task::spawn_blocking(move || waiting.wait_for_sync()).await.unwrap();
        disk.set(DiskMode::Works);
    };
    let (first, a, again, b, third, ()) = tokio::join!(first, a, again, b, third, unblock);
    let [first, a, b] = [first, a, b].map(|taken| taken.unwrap().revision);
    assert_eq!((a, b), (first + 1, first + 2), "a rejected batch uses no revision");
    for result in [again, third] {
        let found = Some(a);
        assert_eq!(result, Err(StoreError::Conflict { key: key("a"), expect: Expect::Absent, found }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_fails_commits_and_later_commits_succeed() {
    let (_folder, disk, store) = on_disk(HISTORY_LIMITS);
    commit(&store, "before", 1).await.unwrap();
    disk.set(DiskMode::Full);
    let mut acknowledged = vec!["before".to_owned()];
    let error = loop {
        let name = format!("large{:03}", acknowledged.len());
        match commit(&store, &name, 500_000).await {
            Ok(_) => acknowledged.push(name),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert_eq!(names(&*store).await, acknowledged, "the store has the acknowledged objects only");
    commit(&store, "large000", 1_000_000).await.unwrap_err();
    disk.set(DiskMode::Works);
    commit(&store, "after", 1_000_000).await.unwrap();
    assert_eq!(names(&*store).await.len(), acknowledged.len() + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_sync_sends_watchers_the_stored_changes_only() {
    for mode in [DiskMode::FailsToSync, DiskMode::Fails] {
        let (_folder, disk, store) = on_disk(HISTORY_LIMITS);
        let before = commit(&store, "before", 1).await.unwrap().revision;
        let mut watch = store.watch(before).await.unwrap();
        disk.set(mode);
        for _ in 0..3 {
            let error = commit(&store, "lost", 1).await.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        }
        disk.set(DiskMode::Works);
        let mut sent = Vec::new();
        commit(&store, "after", 1).await.unwrap();
        while sent.last().is_none_or(|name| name != "after") {
            sent.push(watch.events.recv().await.unwrap()[0].key.name().to_owned());
        }
        sent.push("before".to_owned());
        sent.sort_unstable();
        assert_eq!(names(&*store).await, sent, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_over_its_bytes_is_trimmed_and_objects_stay() {
    let (folder, _disk, store) = on_disk(HistoryLimits { per_key: 100, entries: 1_000, bytes: 50_000 });
    for turn in 0..200 {
        commit(&store, &format!("p{}", turn % 7), 2_000 + turn).await.unwrap();
    }
    assert_eq!(names(&*store).await.len(), 7);
    let mut kept = 0;
    for of in 0..7 {
        kept += store.history(&key(&format!("p{of}")), None, 200).await.unwrap().len();
    }
    // A row has some 2,100 bytes and its header.
    assert!((15..=24).contains(&kept), "{kept} entries");
    assert!(matches!(store.watch(1).await, Err(StoreError::Compacted { .. })), "revision 1 has expired");
    store.close().await;
    let (file, scratch) =
        (StoreFile::open(&folder.path().join(FILE), &StoreKeys::default()).unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(file.verify().unwrap().objects, 7);
    let backup = scratch.path().join("backup.redb");
    file.back_up(&backup).unwrap();
    assert_eq!(
        StoreFile::open(&backup, &StoreKeys::default()).unwrap().verify(),
        file.verify(),
        "the backup has the size of the history"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_over_its_entries_is_trimmed_and_objects_stay() {
    let (folder, _disk, store) = on_disk(HistoryLimits { per_key: 100, entries: 10, bytes: u64::MAX });
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
    let verified = StoreFile::open(&folder.path().join(FILE), &StoreKeys::default()).unwrap().verify().unwrap();
    assert_eq!((verified.objects, verified.entries, verified.oldest), (30, 10, 21));
}

#[tokio::test]
async fn damaged_row_is_reported_and_affects_its_key_only() {
    let (folder, store) = fresh();
    commit_one(&*store, put("bad", Expect::Absent, b"1")).await;
    commit_one(&*store, put("good", Expect::Absent, b"1")).await;
    drop(store);
    let path = folder.path().join(FILE);
    let database = tables::open(tables::file(&path).unwrap(), MIGRATIONS).unwrap();
    let writing = tables::begin(&database).unwrap();
    writing.open_table(OBJECTS).unwrap().insert("pool/bad", &b"\x01nonsense, nonsense"[..]).unwrap();
    writing.commit().unwrap();
    drop(database);
    let store = LocalStore::open(folder.path(), ValueOptions::default()).unwrap();
    let error = store.read(&key("bad")).await.unwrap_err().to_string();
    assert!(error.contains("pool/bad") && error.contains("docs/operations/store.md"), "{error}");
    assert!(matches!(commit(&store, "bad", 1).await, Err(StoreError::Damaged(_))));
    commit_one(&store, put("good", Expect::Present, b"2")).await;
    assert!(matches!(StoreFile::open(&path, &StoreKeys::default()).unwrap().verify(), Err(StoreError::Damaged(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_file_is_read_correctly_or_reported_as_damaged() {
    let (folder, store) = fresh();
    for number in 0..40 {
        commit_one(&*store, put(&format!("p{number:02}"), Expect::Absent, &vec![number; 3_000])).await;
    }
    drop(store);
    let path = folder.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let (mut seen, mut random) = ([0, 0], SplitMix::new(1));
    for turn in 0..60 {
        let draw = random.bits();
        let at = usize::try_from(draw >> 20).unwrap() % used;
        let mut broken = whole.clone();
        match turn % 3 {
            0 => broken[at..].iter_mut().take(4_096).for_each(|byte| *byte ^= 0xa5),
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
        let found = LocalStore::open(folder.path(), ValueOptions::default());
        assert!(text.is_empty() == found.is_ok(), "{:?}", found.err());
    }
}

/// Checks that every object has the value that was written.
async fn read_all(folder: &Path) -> Result<(), StoreError> {
    let store = LocalStore::open(folder, ValueOptions::default())?;
    let listing = store.list(&Prefix::everything(), None, 100).await?;
    // Fewer objects are an error: every commit was acknowledged.
    for object in &listing.objects {
        let number: u8 = object.key.name()[1..].parse().unwrap();
        assert_eq!(*object.value, *vec![number; 3_000], "{}", object.key);
    }
    match listing.objects.len() {
        40 => Ok(()),
        count => Err(StoreError::Damaged(format!("{count} of 40 objects are there"))),
    }
}

#[tokio::test]
async fn older_store_is_migrated_and_newer_one_is_rejected() {
    let mark: Migration = |writing| {
        writing.open_table(META)?.insert("mark", 7)?;
        Ok(())
    };
    let fails: Migration = |_| Err(StoreError::Unavailable("no room".to_owned()));
    let (folder, store) = fresh();
    commit_one(&*store, put("a", Expect::Absent, b"1")).await;
    drop(store);
    let path = folder.path().join(FILE);
    let open = |steps: &[Migration]| tables::open(tables::file(&path).unwrap(), steps);
    assert!(open(&[MIGRATIONS, &[mark, fails]].concat()).is_err());
    let number = |database: &redb::Database, name: &str| {
        let meta = database.begin_read().unwrap().open_table(META).unwrap();
        meta.get(name).unwrap().map(|number| number.value())
    };
    let unchanged = open(MIGRATIONS).unwrap();
    assert_eq!((number(&unchanged, "schema"), number(&unchanged, "mark")), (Some(2), None), "all migrations or none");
    drop(unchanged);
    let newer = open(&[MIGRATIONS, &[mark]].concat()).unwrap();
    assert_eq!((number(&newer, "schema"), number(&newer, "mark")), (Some(3), Some(7)));
    assert_eq!(newer.begin_read().unwrap().open_table(OBJECTS).unwrap().iter().unwrap().count(), 1);
    drop(newer);
    let errors = [
        LocalStore::open(folder.path(), ValueOptions::default()).err().unwrap(),
        StoreFile::open(&path, &StoreKeys::default()).err().unwrap(),
    ];
    assert!(errors[0].to_string().contains("`fairway get`"), "{}", errors[0]);
    let upgrade = StoreError::from(redb::Error::UpgradeRequired(2)).to_string();
    assert!(upgrade.contains("format 2") && upgrade.contains("`fairway get`"), "{upgrade}");
    assert_eq!(errors, [(); 2].map(|()| StoreError::Newer { found: 3, known: 2 }));
}

#[tokio::test]
async fn store_of_version_1_is_migrated_with_its_history_counted() {
    let (folder, store) = fresh();
    for value in [&b"1"[..], b"22"] {
        commit_one(&*store, put("a", Expect::Anything, value)).await;
    }
    drop(store);
    let (path, scratch) = (folder.path().join(FILE), tempfile::tempdir().unwrap());
    let database = tables::open(tables::file(&path).unwrap(), MIGRATIONS).unwrap();
    let writing = tables::begin(&database).unwrap();
    {
        let mut meta = writing.open_table(META).unwrap();
        meta.insert("schema", 1).unwrap();
        assert!(meta.remove("octets").unwrap().is_some_and(|octets| octets.value() > 0));
    }
    writing.commit().unwrap();
    drop(database);
    let (file, backup) = (StoreFile::open(&path, &StoreKeys::default()).unwrap(), scratch.path().join("backup.redb"));
    let verified = file.back_up(&backup).unwrap();
    drop(file);
    let held = DataFolder::open(folder.path()).unwrap();
    let restored = StoreFile::open(&backup, &StoreKeys::default()).unwrap().restore(&held).unwrap();
    assert_eq!((restored.objects, restored.entries), (verified.objects, 2));
    let store = LocalStore::open(folder.path(), ValueOptions::default()).unwrap();
    commit_one(&store, put("a", Expect::Present, b"333")).await;
    drop(store);
    assert_eq!(
        StoreFile::open(&path, &StoreKeys::default()).unwrap().verify().unwrap().entries,
        3,
        "rows of the history and log agree"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_during_writes_is_consistent_and_can_be_restored() {
    let (folder, store) = fresh();
    let scratch = tempfile::tempdir().unwrap();
    let (file, backup) = (folder.path().join(FILE), scratch.path().join("backup.redb"));
    commit_one(&*store, put("kept", Expect::Absent, b"1")).await;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for turn in 0..50_u8 {
                let both = ["x", "y"].map(|name| put(name, Expect::Anything, &[turn]));
                store.commit(batch(1, both.to_vec())).await.unwrap();
            }
        }
    });
    let verified = StoreFile::open(&file, &StoreKeys::default()).unwrap().back_up(&backup).unwrap();
    writer.await.unwrap();
    assert!(
        StoreFile::open(&file, &StoreKeys::default()).unwrap().back_up(&backup).is_err(),
        "an existing file is not overwritten"
    );
    assert_eq!(StoreFile::open(&backup, &StoreKeys::default()).unwrap().verify(), Ok(verified));
    let late = commit_one(&*store, put("late", Expect::Absent, b"1")).await;
    drop(store);
    let held = DataFolder::open(folder.path()).unwrap();
    let restored = StoreFile::open(&backup, &StoreKeys::default()).unwrap().restore(&held).unwrap();
    assert!(restored.revision > late && restored.objects == verified.objects);
    let store = LocalStore::open(folder.path(), ValueOptions::default()).unwrap();
    let names = names(&store).await;
    assert!(names.contains(&"kept".to_owned()) && !names.contains(&"late".to_owned()), "{names:?}");
    let halves = ["x", "y"].map(key);
    let halves = [store.read(&halves[0]).await.unwrap(), store.read(&halves[1]).await.unwrap()];
    let [x, y] = halves.map(|half| half.map(|object| object.value));
    assert_eq!(x, y, "both changes of a batch");
    assert!(matches!(store.watch(late).await, Err(StoreError::Compacted { .. })), "changes after the backup are gone");
    assert!(commit_one(&store, put("kept", Expect::Present, b"2")).await > restored.revision);
    assert!(
        StoreFile::open(&folder.path().join("objects.redb.replaced"), &StoreKeys::default()).is_ok(),
        "the replaced store is kept"
    );
    drop(store);
    assert_eq!(StoreFile::repair(&held, &StoreFile::path_in(held.path())), Ok(true));
}
