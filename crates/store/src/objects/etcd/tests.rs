//! Tests on a real etcd: the contract on one server and on two in turn; etcd killed, stopped, cut off, full, compacted and emptied.

mod server;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fairway_etcd::{Settings, Source};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use self::server::{Etcd, Wire};
use super::{
    super::{
        BATCH_MAX, Batch, Committed, Entry, Expect, HISTORY_LIMITS, Key, Listing, Object, ObjectStore, Prefix,
        StoreError, StoreStatus, VALUE_MAX, ValueOptions, Watch,
        contract::{batch, commit_one, contract_tests, delete, key, put},
    },
    EtcdStore,
};

/// Values that must outlive a store.
#[derive(Debug)]
struct Guard {
    _etcd: Etcd,
    _folders: Vec<TempDir>,
}

const PREFIX: &str = "/fairway/";

/// Long timeouts, for a loaded machine. Tests of an etcd that does not answer use shorter ones.
fn settings(endpoints: &[String]) -> Settings {
    settings_with_timeout(Duration::from_secs(20), endpoints)
}

fn settings_with_timeout(endpoint_timeout: Duration, endpoints: &[String]) -> Settings {
    Settings {
        endpoints: endpoints.iter().map(|endpoint| endpoint.parse().unwrap()).collect(),
        user: None,
        ca: None,
        identity: None,
        endpoint_timeout,
        call_timeout: endpoint_timeout * 2,
    }
}

fn open(etcd: &Etcd, folder: &Path) -> EtcdStore {
    EtcdStore::open(settings(&[etcd.url()]), PREFIX, ValueOptions::default(), Some(folder)).unwrap()
}

/// Opens a store with short timeouts, for an etcd that stops answering.
fn open_with_short_timeouts(endpoint: String, folder: &Path) -> EtcdStore {
    EtcdStore::open(
        settings_with_timeout(Duration::from_secs(2), &[endpoint]),
        PREFIX,
        ValueOptions::default(),
        Some(folder),
    )
    .unwrap()
}

fn one() -> (Guard, Arc<dyn ObjectStore>) {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    (Guard { _etcd: etcd, _folders: vec![folder] }, Arc::new(store))
}

mod on_one_server {
    super::contract_tests!(super::one());
}

/// Two servers that are called in turn: each must know the changes of the other.
struct Alternating {
    stores: [EtcdStore; 2],
    turn: AtomicUsize,
}

impl Alternating {
    fn next(&self) -> &EtcdStore {
        &self.stores[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl ObjectStore for Alternating {
    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.next().read(key).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, max: usize) -> Result<Listing, StoreError> {
        self.next().list(under, after, max).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.next().commit(batch).await
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        self.next().watch(after).await
    }

    async fn history(&self, key: &Key, before: Option<u64>, max: usize) -> Result<Vec<Entry>, StoreError> {
        self.next().history(key, before, max).await
    }

    async fn close(&self) {
        for store in &self.stores {
            store.close().await;
        }
    }

    fn status(&self) -> StoreStatus {
        self.next().status()
    }
}

fn two() -> (Guard, Arc<dyn ObjectStore>) {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let stores = [0, 1].map(|at: usize| open(&etcd, folders[at].path()));
    (Guard { _etcd: etcd, _folders: folders.into() }, Arc::new(Alternating { stores, turn: AtomicUsize::new(0) }))
}

mod on_two_servers_in_turn {
    super::contract_tests!(super::two());
}

/// Waits until the status of a store meets a condition.
async fn wait_for(what: &str, store: &EtcdStore, is_met: impl Fn(&StoreStatus) -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_met(&store.status()) {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}: {:?}", store.status());
        sleep(Duration::from_millis(5)).await;
    }
}

async fn value(store: &EtcdStore, name: &str) -> Option<Vec<u8>> {
    let found = timeout(LIMIT, store.read(&key(name))).await.expect("the read ends within the limit");
    found.unwrap().map(|object| object.value.to_vec())
}

fn is_unavailable<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_on_one_server_is_watched_on_another_with_equal_history() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let [a, b] = [0, 1].map(|at: usize| open(&etcd, folders[at].path()));
    let mut watch = b.watch(0).await.unwrap();
    let made = commit_one(&a, put("a", Expect::Absent, b"1")).await;
    let events = timeout(LIMIT, watch.events.recv()).await.unwrap().unwrap();
    assert_eq!((events[0].revision, &events[0].key), (made, &key("a")));
    assert!(matches!(b.commit(batch(1, vec![put("a", Expect::Absent, b"2")])).await, Err(StoreError::Conflict { .. })));
    commit_one(&b, delete("a", Expect::Revision(made))).await;
    assert_eq!(a.history(&key("a"), None, 9).await, b.history(&key("a"), None, 9).await);
    assert_eq!(a.history(&key("a"), None, 9).await.unwrap().len(), 2);
    // A third server that starts later has the same state.
    let late = tempfile::tempdir().unwrap();
    let c = open(&etcd, late.path());
    assert_eq!(c.history(&key("a"), None, 9).await, b.history(&key("a"), None, 9).await);
    assert_eq!(c.list(&Prefix::everything(), None, 9).await, a.list(&Prefix::everything(), None, 9).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_over_the_request_limit_of_etcd_reaches_every_server() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let a = open(&etcd, folders[0].path());
    let many = (0..BATCH_MAX).map(|n| put(&format!("n{n}"), Expect::Absent, b"1")).collect();
    a.commit(batch(1, many)).await.unwrap();
    let large = (0..9).map(|n| put(&format!("l{n}"), Expect::Absent, &vec![b'x'; VALUE_MAX])).collect();
    let last = a.commit(batch(1, large)).await.unwrap().revision;
    let b = open(&etcd, folders[1].path());
    let listed = b.list(&Prefix::everything(), None, usize::MAX).await.unwrap();
    assert_eq!((listed.objects.len(), listed.revision), (BATCH_MAX + 9, last));
    assert_eq!(listed, a.list(&Prefix::everything(), None, usize::MAX).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_history_is_deleted_from_etcd_and_a_late_server_reads_everything() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let a = open(&etcd, folders[0].path());
    let b = open(&etcd, folders[1].path());
    let first = commit_one(&a, put("a", Expect::Absent, b"first")).await;
    assert_eq!(value(&b, "a").await.as_deref(), Some(&b"first"[..]));
    drop(b);
    let mut last = first;
    for turn in 0..HISTORY_LIMITS.per_key + 20 {
        last = commit_one(&a, put("a", Expect::Present, turn.to_string().as_bytes())).await;
    }
    commit_one(&a, put("b", Expect::Absent, b"1")).await;
    let kept = etcd.keys("/fairway/record/").await;
    assert!(kept <= HISTORY_LIMITS.per_key + 3, "{kept} records for {} entries", HISTORY_LIMITS.per_key + 1);
    etcd.compact().await;
    let b = open(&etcd, folders[1].path());
    assert_eq!(b.list(&Prefix::everything(), None, 9).await, a.list(&Prefix::everything(), None, 9).await);
    assert_eq!(b.history(&key("a"), None, 200).await, a.history(&key("a"), None, 200).await);
    assert!(
        matches!(b.watch(first).await, Err(StoreError::Compacted { .. })),
        "the revision before the outage has expired"
    );
    let mut watch = b.watch(last + 1).await.unwrap();
    let more = commit_one(&a, delete("b", Expect::Present)).await;
    assert_eq!(timeout(LIMIT, watch.events.recv()).await.unwrap().unwrap()[0].revision, more);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_during_an_outage_loses_no_change() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let (wire, a) = (Wire::to(&etcd).await, open(&etcd, folders[0].path()));
    let b = open_with_short_timeouts(wire.url(), folders[1].path());
    let seen = commit_one(&a, put("a", Expect::Absent, b"1")).await;
    let mut watch = b.watch(seen).await.unwrap();
    wire.cut();
    wait_for("b reports the outage", &b, |status| status.outage.is_some()).await;
    let mut expected = Vec::new();
    for turn in 0..50 {
        expected.push(commit_one(&a, put("b", Expect::Anything, &[turn])).await);
    }
    etcd.compact().await;
    wire.restore();
    for revision in expected {
        assert_eq!(timeout(LIMIT, watch.events.recv()).await.unwrap().unwrap()[0].revision, revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_etcd_is_reported_and_reads_continue() {
    let (mut etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open_with_short_timeouts(etcd.url(), folder.path());
    commit_one(&store, put("a", Expect::Absent, b"1")).await;
    etcd.kill();
    let begun = Instant::now();
    let result = store.commit(batch(1, vec![put("a", Expect::Present, b"2")])).await;
    assert!(is_unavailable(&result) && begun.elapsed() < LIMIT, "{result:?}");
    wait_for("the outage is reported", &store, |status| status.outage.is_some()).await;
    assert_eq!(value(&store, "a").await.as_deref(), Some(&b"1"[..]));
    etcd.restart();
    wait_for("etcd answers again", &store, |status| status.outage.is_none()).await;
    let more = commit_one(&store, put("a", Expect::Present, b"3")).await;
    assert_eq!((value(&store, "a").await.as_deref(), store.status().revision), (Some(&b"3"[..]), more));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_etcd_keeps_acknowledged_writes() {
    let (mut etcd, folder) = (Etcd::start_durable(), tempfile::tempdir().unwrap());
    let store = Arc::new(open_with_short_timeouts(etcd.url(), folder.path()));
    let mut acknowledged = Vec::new();
    for round in 0..3_usize {
        let writer = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                let mut taken = Vec::new();
                for number in 0.. {
                    let name = format!("r{round}-{number}");
                    match store.commit(batch(1, vec![put(&name, Expect::Anything, b"1")])).await {
                        Ok(_) => taken.push(name),
                        Err(_) if taken.is_empty() => {}
                        Err(_) => break,
                    }
                }
                taken
            }
        });
        let before = store.status().revision;
        wait_for("20 batches are committed", &store, |status| status.revision > before + 20).await;
        etcd.kill();
        acknowledged.extend(writer.await.unwrap());
        etcd.restart();
    }
    drop(store);
    let fresh = tempfile::tempdir().unwrap();
    for folder in [folder.path(), fresh.path()] {
        let store = open(&etcd, folder);
        let listed = store.list(&Prefix::everything(), None, usize::MAX).await.unwrap();
        let names: std::collections::BTreeSet<_> = listed.objects.iter().map(|object| object.key.name()).collect();
        let lost: Vec<_> = acknowledged.iter().filter(|name| !names.contains(name.as_str())).collect();
        assert!(lost.is_empty() && acknowledged.len() > 60, "{lost:?} of {}", acknowledged.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_etcd_blocks_no_call() {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open_with_short_timeouts(etcd.url(), folder.path());
    commit_one(&store, put("a", Expect::Absent, b"1")).await;
    etcd.signal("STOP");
    let result = timeout(LIMIT, store.commit(batch(1, vec![put("a", Expect::Present, b"2")]))).await;
    assert!(is_unavailable(&result.expect("the commit ends within the limit")));
    assert_eq!(value(&store, "a").await.as_deref(), Some(&b"1"[..]));
    assert_eq!(timeout(LIMIT, store.history(&key("a"), None, 9)).await.unwrap().unwrap().len(), 1);
    etcd.signal("CONT");
    wait_for("etcd answers again", &store, |status| status.outage.is_none()).await;
    commit_one(&store, put("a", Expect::Present, b"3")).await;
    // The failed batch may have been committed; it is in the history then.
    assert!((2..=3).contains(&store.history(&key("a"), None, 9).await.unwrap().len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn network_cut_is_reported_and_caught_up() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let (wire, a) = (Wire::to(&etcd).await, open(&etcd, folders[0].path()));
    let b = open_with_short_timeouts(wire.url(), folders[1].path());
    commit_one(&a, put("a", Expect::Absent, b"1")).await;
    assert_eq!(value(&b, "a").await.as_deref(), Some(&b"1"[..]));
    wire.cut();
    wait_for("the outage is reported", &b, |status| status.outage.is_some()).await;
    let last = commit_one(&a, put("a", Expect::Present, b"2")).await;
    assert_eq!(value(&b, "a").await.as_deref(), Some(&b"1"[..]), "b reads its copy");
    assert!(is_unavailable(&b.commit(batch(1, vec![put("b", Expect::Absent, b"1")])).await));
    wire.restore();
    wait_for("b has caught up", &b, |status| status.outage.is_none() && status.revision == last).await;
    assert_eq!(value(&b, "a").await.as_deref(), Some(&b"2"[..]));
    assert_eq!(value(&a, "b").await, None, "the failed batch was not committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_endpoint_is_replaced_by_the_next_one() {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let wire = Wire::to(&etcd).await;
    let settings =
        settings_with_timeout(Duration::from_secs(2), &["http://127.0.0.1:1".into(), wire.url(), etcd.url()]);
    let store = EtcdStore::open(settings, PREFIX, ValueOptions::default(), Some(folder.path())).unwrap();
    commit_one(&store, put("a", Expect::Absent, b"1")).await;
    assert_eq!(store.status().endpoint, Some(wire.url()));
    wire.cut();
    wait_for("the next endpoint is used", &store, |status| status.endpoint == Some(etcd.url())).await;
    wait_for("etcd answers", &store, |status| status.outage.is_none()).await;
    commit_one(&store, put("a", Expect::Present, b"2")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_without_etcd_uses_the_copy() {
    let (mut etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    let revision = commit_one(&store, put("a", Expect::Absent, b"1")).await;
    drop(store);
    etcd.kill();
    let store = open_with_short_timeouts(etcd.url(), folder.path());
    assert_eq!(value(&store, "a").await.as_deref(), Some(&b"1"[..]));
    assert_eq!(store.list(&Prefix::everything(), None, 9).await.unwrap().revision, revision);
    let fresh = tempfile::tempdir().unwrap();
    let empty = open_with_short_timeouts(etcd.url(), fresh.path());
    let nothing = timeout(LIMIT, empty.list(&Prefix::everything(), None, 9)).await.unwrap();
    assert!(is_unavailable(&nothing), "an incomplete copy is not an empty store: {nothing:?}");
    etcd.restart();
    wait_for("etcd answers again", &empty, |status| status.outage.is_none() && status.revision == revision).await;
    assert_eq!(value(&empty, "a").await.as_deref(), Some(&b"1"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptied_etcd_removes_no_object() {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    commit_one(&store, put("a", Expect::Absent, b"1")).await;
    etcd.empty().await;
    wait_for("the outage is reported", &store, |status| status.outage.is_some()).await;
    assert!(store.status().outage.unwrap().reason.contains("store.etcd.prefix"));
    assert_eq!(value(&store, "a").await.as_deref(), Some(&b"1"[..]));
    assert!(is_unavailable(&store.commit(batch(1, vec![put("b", Expect::Absent, b"1")])).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_etcd_fails_writes_with_a_hint_and_reads_continue() {
    let (etcd, folder) = (Etcd::start_with(&["--quota-backend-bytes", "4194304"]), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    commit_one(&store, put("a", Expect::Absent, b"1")).await;
    let mut full = None;
    for number in 0..64 {
        let change = put(&format!("n{number}"), Expect::Absent, &vec![b'x'; VALUE_MAX / 2]);
        if let Err(error) = store.commit(batch(1, vec![change])).await {
            full = Some(error.to_string());
            break;
        }
    }
    let full = full.expect("64 objects of 512 KiB exceed 4 MiB");
    assert!(full.contains("is full") && full.contains("disarm its alarm"), "{full}");
    assert_eq!(value(&store, "a").await.as_deref(), Some(&b"1"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_and_server_certificates_are_required() {
    let (etcd, folder) = (Etcd::start_secured(), tempfile::tempdir().unwrap());
    let file = |name| Source::File(etcd.file(name));
    let identity = Some((file("client.pem"), file("client-key.pem")));
    let whole = Settings { ca: Some(file("ca.pem")), identity, ..settings(&[etcd.url()]) };
    let store = EtcdStore::open(whole.clone(), PREFIX, ValueOptions::default(), Some(folder.path())).unwrap();
    commit_one(&store, put("a", Expect::Absent, b"1")).await;
    let whole = Settings {
        ca: whole.ca,
        identity: whole.identity,
        ..settings_with_timeout(Duration::from_secs(2), &[etcd.url()])
    };
    for (what, settings) in [
        ("without a client certificate", Settings { identity: None, ..whole.clone() }),
        ("with an authority that the system does not trust", Settings { ca: None, ..whole }),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = EtcdStore::open(settings, PREFIX, ValueOptions::default(), Some(folder.path())).unwrap();
        let result = store.read(&key("a")).await;
        assert!(is_unavailable(&result), "{what}: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_with_password_is_accepted_again_after_a_restart_of_etcd() {
    let (mut etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    etcd.post("/v3/auth/user/add", r#"{"name": "root", "password": "of-root"}"#);
    etcd.post("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#);
    etcd.post("/v3/auth/user/add", r#"{"name": "fairway", "password": "word"}"#);
    etcd.post("/v3/auth/role/add", r#"{"name": "fairway"}"#);
    // The range of the prefix /fairway/, in base64.
    let range =
        r#"{"name": "fairway", "perm": {"permType": "READWRITE", "key": "L2ZhaXJ3YXkv", "range_end": "L2ZhaXJ3YXkw"}}"#;
    etcd.post("/v3/auth/role/grant", range);
    etcd.post("/v3/auth/user/grant", r#"{"user": "fairway", "role": "fairway"}"#);
    etcd.post("/v3/auth/enable", "{}");
    let file = folder.path().join("password");
    std::fs::write(&file, "word\n").unwrap();
    let user = Some(("fairway".to_owned(), Source::File(file.clone())));
    let whole = Settings { user, ..settings_with_timeout(Duration::from_secs(5), &[etcd.url()]) };
    let store = EtcdStore::open(whole.clone(), PREFIX, ValueOptions::default(), Some(folder.path())).unwrap();
    commit_one(&store, put("a", Expect::Absent, b"1")).await;
    etcd.kill();
    etcd.restart();
    wait_for("etcd accepts the user again", &store, |status| status.outage.is_none()).await;
    let end = Instant::now() + LIMIT;
    while store.commit(batch(1, vec![put("a", Expect::Anything, b"2")])).await.is_err() {
        assert!(Instant::now() < end, "{:?}", store.status());
        sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(&file, "another").unwrap();
    let others = tempfile::tempdir().unwrap();
    for (settings, prefix, word) in [
        (whole.clone(), PREFIX, "authentication failed"),
        (Settings { user: None, ..whole.clone() }, PREFIX, "user"),
        (whole, "/elsewhere/", "authentication failed"),
    ] {
        let result = EtcdStore::open(settings, prefix, ValueOptions::default(), Some(others.path()))
            .unwrap()
            .read(&key("a"))
            .await;
        assert!(matches!(&result, Err(StoreError::Unavailable(reason)) if reason.contains(word)), "{result:?}");
    }
}

/// Limit of each step; all take far less on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);
