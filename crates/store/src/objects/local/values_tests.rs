//! Encrypted values, and values whose secrets the history does not keep.

use std::{fs, path::Path};

use fairway_model::Secret;

use super::{
    super::{
        Expect, HISTORY_LIMITS, Kind, LocalStore, ObjectStore, StoreError, StoreFile, StoreKeys, ValueOptions, Watch,
        contract::{batch, commit_one, delete, key, put},
    },
    FILE,
    disk::{Disk, DiskMode},
    rewrite::prepare,
};

fn keys(digits: &[&str]) -> StoreKeys {
    let secrets: Vec<_> = digits.iter().map(|digit| Secret::new(digit.repeat(64))).collect();
    StoreKeys::new(&secrets).unwrap()
}

/// Values with the text `SECRET` have a secret.
fn redact(_: Kind, value: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(value);
    text.contains("SECRET").then(|| text.split("SECRET").next().unwrap_or_default().as_bytes().to_vec())
}

fn options(digits: &[&str]) -> ValueOptions {
    ValueOptions { keys: keys(digits), redact }
}

async fn write(store: &dyn ObjectStore, name: &str, value: &str) -> u64 {
    commit_one(store, put(name, Expect::Anything, value.as_bytes())).await
}

/// True if any byte of the file, also of a free page, is of this text.
fn file_has(folder: &Path, text: &str) -> bool {
    fs::read(folder.join(FILE)).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
}

async fn value(store: &dyn ObjectStore, name: &str) -> Option<String> {
    let object = store.read(&key(name)).await.unwrap()?;
    Some(String::from_utf8(object.value.to_vec()).unwrap())
}

async fn values(watch: &mut Watch, count: usize) -> Vec<Option<String>> {
    let mut values = Vec::new();
    while values.len() < count {
        let batch = watch.events.recv().await.unwrap();
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        values.extend(batch.iter().map(|event| event.object.as_ref().map(|object| text(&object.value))));
    }
    values
}

#[tokio::test]
async fn encrypted_store_is_read_with_its_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path(), options(&["a"])).unwrap();
    write(&store, "a", "visible").await;
    assert_eq!(commit_one(&store, put("a", Expect::Anything, b"visible")).await, 1, "no change");
    assert_eq!(value(&store, "a").await.as_deref(), Some("visible"));
    drop(store);
    assert!(!file_has(folder.path(), "visible"));
    for wrong in [options(&[]), options(&["b"])] {
        let error = LocalStore::open(folder.path(), wrong.clone()).err().unwrap();
        assert!(matches!(&error, StoreError::Keys(what) if what.contains("encrypted with the key of id")), "{error}");
        let file = StoreFile::open(&folder.path().join(FILE), &wrong.keys).unwrap();
        assert!(matches!(file.check_keys(), Err(StoreError::Keys(_))));
        assert!(matches!(file.list(), Err(StoreError::Keys(_))));
        assert_eq!(file.verify().unwrap().objects, 1, "no key is needed to verify");
    }
    let file = StoreFile::open(&folder.path().join(FILE), &keys(&["a"])).unwrap();
    assert!(file.check_keys().is_ok() && file.list().unwrap().objects.len() == 1);
    drop(file);
    let store = LocalStore::open(folder.path(), options(&["a"])).unwrap();
    assert_eq!(value(&store, "a").await.as_deref(), Some("visible"));
}

#[tokio::test]
async fn start_with_another_first_key_encrypts_everything_anew() {
    let folder = tempfile::tempdir().unwrap();
    let steps: [&[&str]; 4] = [&[], &["a"], &["b", "a"], &["b"]];
    for (number, digits) in steps.iter().enumerate() {
        let store = LocalStore::open(folder.path(), options(digits)).unwrap();
        assert_eq!(value(&store, "a").await.is_some(), number > 0);
        write(&store, "a", &format!("visible {number}")).await;
        let history = store.history(&key("a"), None, 10).await.unwrap();
        assert_eq!(history.len(), number + 1);
        assert_eq!(history.last().unwrap().value.as_deref(), Some(&b"visible 0"[..]));
        drop(store);
        assert_eq!(file_has(folder.path(), "visible"), digits.is_empty(), "{digits:?}");
        let file = StoreFile::open(&folder.path().join(FILE), &keys(digits)).unwrap();
        assert_eq!(file.verify().unwrap().entries, number as u64 + 1);
    }
    assert!(LocalStore::open(folder.path(), options(&["a"])).is_err(), "the old key is no longer enough");
}

#[tokio::test]
async fn history_keeps_no_secret_of_a_former_value() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path(), options(&[])).unwrap();
    let mut watch = store.watch(0).await.unwrap();
    let first = write(&store, "a", "one SECRET1").await;
    assert_eq!(values(&mut watch, 1).await, [Some("one SECRET1".to_owned())], "who follows the store gets it");
    let history = store.history(&key("a"), None, 10).await.unwrap();
    assert!(!history[0].is_redacted && history[0].value.as_deref() == Some(&b"one SECRET1"[..]), "it is current");
    write(&store, "a", "two SECRET2").await;
    write(&store, "b", "gone SECRET3").await;
    commit_one(&store, delete("b", Expect::Present)).await;
    let history = store.history(&key("a"), None, 10).await.unwrap();
    let shown: Vec<_> = history.iter().map(|entry| (entry.value.as_deref(), entry.is_redacted)).collect();
    assert_eq!(shown, [(Some(&b"two SECRET2"[..]), false), (Some(&b"one "[..]), true)]);
    assert_eq!(history[1].revision, first);
    // One that was behind gets the present object instead of a former one without its secrets.
    let mut late = store.watch(0).await.unwrap();
    let two = Some("two SECRET2".to_owned());
    assert_eq!(values(&mut late, 4).await, [two.clone(), two, None, None]);
    drop(store);
    // Free pages may have them until the next start.
    let store = LocalStore::open(folder.path(), options(&[])).unwrap();
    assert_eq!(value(&store, "a").await.as_deref(), Some("two SECRET2"));
    assert_eq!(store.history(&key("b"), None, 10).await.unwrap().len(), 2);
    drop(store);
    assert!(!file_has(folder.path(), "SECRET1") && !file_has(folder.path(), "SECRET3"));
    let verified = StoreFile::open(&folder.path().join(FILE), &StoreKeys::default()).unwrap().verify().unwrap();
    assert_eq!((verified.objects, verified.entries), (1, 4));
}

#[tokio::test]
async fn secrets_in_a_store_of_an_earlier_version_are_removed_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    // Without a function that redacts, rows are as earlier versions wrote them.
    let store = LocalStore::open(folder.path(), ValueOptions::default()).unwrap();
    write(&store, "a", "one SECRET1").await;
    write(&store, "a", "two SECRET2").await;
    drop(store);
    let database = super::tables::open(super::tables::file(&folder.path().join(FILE)).unwrap(), super::MIGRATIONS);
    let database = database.unwrap();
    let writing = super::tables::begin(&database).unwrap();
    writing.open_table(super::tables::META).unwrap().remove(super::tables::PURGED).unwrap();
    writing.commit().unwrap();
    database.close().unwrap();
    prepare(&folder.path().join(FILE), &options(&[])).unwrap();
    assert!(!file_has(folder.path(), "SECRET1") && file_has(folder.path(), "SECRET2"));
}

#[tokio::test]
async fn failed_write_keeps_encrypted_values() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), std::sync::Arc::<Disk>::default());
    let opener = disk.opener(folder.path().join(FILE));
    let store = LocalStore::open_with(opener, HISTORY_LIMITS, options(&["a"]), None).unwrap();
    write(&store, "a", "one SECRET1").await;
    disk.set(DiskMode::Fails);
    assert!(store.commit(batch(0, vec![put("a", Expect::Anything, b"two")])).await.is_err());
    disk.set(DiskMode::Works);
    assert_eq!(value(&store, "a").await.as_deref(), Some("one SECRET1"));
    assert_eq!(write(&store, "a", "three").await, 2);
}
