//! The store on a real etcd: the contract, on one server and on two at once; and what happens when etcd goes, lies still, is
//! compacted or is emptied.

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
        BATCH_MAX, Batch, Committed, Entry, Expect, HISTORY_MAX, Key, Listing, Object, ObjectStore, Prefix, Standing,
        StoreError, VALUE_MAX, Watch,
        contract::{batch, done, keeps_the_contract, key, put, take},
    },
    EtcdStore,
};

/// What a test has to hold on to.
#[derive(Debug)]
struct Ground {
    _etcd: Etcd,
    _folders: Vec<TempDir>,
}

const PREFIX: &str = "/fairway/";

/// Long, since the machine may be busy; tests of an etcd that does not answer take less.
fn settings(endpoints: &[String]) -> Settings {
    within(Duration::from_secs(20), endpoints)
}

fn within(endpoint_timeout: Duration, endpoints: &[String]) -> Settings {
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
    EtcdStore::open(settings(&[etcd.url()]), PREFIX, Some(folder)).unwrap()
}

/// A store whose etcd may be silent: it does not take long to see it.
fn impatient(endpoint: String, folder: &Path) -> EtcdStore {
    EtcdStore::open(within(Duration::from_secs(2), &[endpoint]), PREFIX, Some(folder)).unwrap()
}

fn one() -> (Ground, Arc<dyn ObjectStore>) {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    (Ground { _etcd: etcd, _folders: vec![folder] }, Arc::new(store))
}

mod on_one_server {
    super::keeps_the_contract!(super::one());
}

/// Two servers, asked in turn: what one of them did, the other one must know.
#[derive(Debug)]
struct Turns {
    stores: [EtcdStore; 2],
    turn: AtomicUsize,
}

impl Turns {
    fn next(&self) -> &EtcdStore {
        &self.stores[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl ObjectStore for Turns {
    async fn read(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.next().read(key).await
    }

    async fn list(&self, under: &Prefix, after: Option<&Key>, most: usize) -> Result<Listing, StoreError> {
        self.next().list(under, after, most).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.next().commit(batch).await
    }

    async fn watch(&self, after: u64) -> Result<Watch, StoreError> {
        self.next().watch(after).await
    }

    async fn history(&self, key: &Key, before: Option<u64>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.next().history(key, before, most).await
    }

    async fn close(&self) {
        for store in &self.stores {
            store.close().await;
        }
    }

    fn standing(&self) -> Standing {
        self.next().standing()
    }
}

fn two() -> (Ground, Arc<dyn ObjectStore>) {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let stores = [0, 1].map(|at: usize| open(&etcd, folders[at].path()));
    (Ground { _etcd: etcd, _folders: folders.into() }, Arc::new(Turns { stores, turn: AtomicUsize::new(0) }))
}

mod on_two_servers_in_turn {
    super::keeps_the_contract!(super::two());
}

/// Waits until something about a store holds.
async fn until(what: &str, store: &EtcdStore, holds: impl Fn(&Standing) -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds(&store.standing()) {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}: {:?}", store.standing());
        sleep(Duration::from_millis(5)).await;
    }
}

async fn said(store: &EtcdStore, name: &str) -> Option<Vec<u8>> {
    let found = timeout(LIMIT, store.read(&key(name))).await.expect("a read ends");
    found.unwrap().map(|object| object.value.to_vec())
}

fn is_unavailable<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_on_one_server_is_watched_on_another_and_its_history_is_the_same() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let [a, b] = [0, 1].map(|at: usize| open(&etcd, folders[at].path()));
    let mut watch = b.watch(0).await.unwrap();
    let made = done(&a, put("a", Expect::Absent, b"1")).await;
    let told = timeout(LIMIT, watch.events.recv()).await.unwrap().unwrap();
    assert_eq!((told[0].revision, &told[0].key), (made, &key("a")));
    assert!(matches!(b.commit(batch(1, vec![put("a", Expect::Absent, b"2")])).await, Err(StoreError::Conflict { .. })));
    done(&b, take("a", Expect::Revision(made))).await;
    assert_eq!(a.history(&key("a"), None, 9).await, b.history(&key("a"), None, 9).await);
    assert_eq!(a.history(&key("a"), None, 9).await.unwrap().len(), 2);
    // A third one that comes later has all of it, too.
    let late = tempfile::tempdir().unwrap();
    let c = open(&etcd, late.path());
    assert_eq!(c.history(&key("a"), None, 9).await, b.history(&key("a"), None, 9).await);
    assert_eq!(c.list(&Prefix::everything(), None, 9).await, a.list(&Prefix::everything(), None, 9).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_what_one_request_may_hold_are_whole_on_every_server() {
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
async fn what_is_forgotten_leaves_etcd_and_who_was_away_takes_everything_anew() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let a = open(&etcd, folders[0].path());
    let b = open(&etcd, folders[1].path());
    let first = done(&a, put("a", Expect::Absent, b"first")).await;
    assert_eq!(said(&b, "a").await.as_deref(), Some(&b"first"[..]));
    drop(b);
    let mut last = first;
    for turn in 0..HISTORY_MAX.0 + 20 {
        last = done(&a, put("a", Expect::Present, turn.to_string().as_bytes())).await;
    }
    done(&a, put("b", Expect::Absent, b"1")).await;
    let kept = etcd.keys("/fairway/record/").await;
    assert!(kept <= HISTORY_MAX.0 + 3, "{kept} records for {} entries", HISTORY_MAX.0 + 1);
    etcd.compact().await;
    let b = open(&etcd, folders[1].path());
    assert_eq!(b.list(&Prefix::everything(), None, 9).await, a.list(&Prefix::everything(), None, 9).await);
    assert_eq!(b.history(&key("a"), None, 200).await, a.history(&key("a"), None, 200).await);
    assert!(matches!(b.watch(first).await, Err(StoreError::Compacted { .. })), "what it had seen is forgotten");
    let mut watch = b.watch(last + 1).await.unwrap();
    let more = done(&a, take("b", Expect::Present)).await;
    assert_eq!(timeout(LIMIT, watch.events.recv()).await.unwrap().unwrap()[0].revision, more);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_while_a_server_is_away_costs_it_nothing() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let (wire, a) = (Wire::to(&etcd).await, open(&etcd, folders[0].path()));
    let b = impatient(wire.url(), folders[1].path());
    let seen = done(&a, put("a", Expect::Absent, b"1")).await;
    let mut watch = b.watch(seen).await.unwrap();
    wire.cut();
    until("b sees that etcd is away", &b, |standing| standing.away.is_some()).await;
    let mut expected = Vec::new();
    for turn in 0..50 {
        expected.push(done(&a, put("b", Expect::Anything, &[turn])).await);
    }
    etcd.compact().await;
    wire.mend();
    for revision in expected {
        assert_eq!(timeout(LIMIT, watch.events.recv()).await.unwrap().unwrap()[0].revision, revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_etcd_is_said_reads_go_on_and_nothing_acknowledged_is_lost() {
    let (mut etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = impatient(etcd.url(), folder.path());
    done(&store, put("a", Expect::Absent, b"1")).await;
    etcd.kill();
    let begun = Instant::now();
    let refused = store.commit(batch(1, vec![put("a", Expect::Present, b"2")])).await;
    assert!(is_unavailable(&refused) && begun.elapsed() < LIMIT, "{refused:?}");
    until("it is said", &store, |standing| standing.away.is_some()).await;
    assert_eq!(said(&store, "a").await.as_deref(), Some(&b"1"[..]));
    etcd.again();
    until("it is back", &store, |standing| standing.away.is_none()).await;
    let more = done(&store, put("a", Expect::Present, b"3")).await;
    assert_eq!((said(&store, "a").await.as_deref(), store.standing().revision), (Some(&b"3"[..]), more));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_among_writes_lose_nothing_that_was_acknowledged() {
    let (mut etcd, folder) = (Etcd::start_durable(), tempfile::tempdir().unwrap());
    let store = Arc::new(impatient(etcd.url(), folder.path()));
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
        let before = store.standing().revision;
        until("some are written", &store, |standing| standing.revision > before + 20).await;
        etcd.kill();
        acknowledged.extend(writer.await.unwrap());
        etcd.again();
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
async fn an_etcd_that_lies_still_hangs_no_call() {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = impatient(etcd.url(), folder.path());
    done(&store, put("a", Expect::Absent, b"1")).await;
    etcd.signal("STOP");
    let refused = timeout(LIMIT, store.commit(batch(1, vec![put("a", Expect::Present, b"2")]))).await;
    assert!(is_unavailable(&refused.expect("it ends")));
    assert_eq!(said(&store, "a").await.as_deref(), Some(&b"1"[..]));
    assert_eq!(timeout(LIMIT, store.history(&key("a"), None, 9)).await.unwrap().unwrap().len(), 1);
    etcd.signal("CONT");
    until("it is back", &store, |standing| standing.away.is_none()).await;
    done(&store, put("a", Expect::Present, b"3")).await;
    // What was refused may have been made, as a whole, and is in the history then.
    assert!((2..=3).contains(&store.history(&key("a"), None, 9).await.unwrap().len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_network_is_seen_and_after_it_everything_is_caught_up() {
    let (etcd, folders) = (Etcd::start(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let (wire, a) = (Wire::to(&etcd).await, open(&etcd, folders[0].path()));
    let b = impatient(wire.url(), folders[1].path());
    done(&a, put("a", Expect::Absent, b"1")).await;
    assert_eq!(said(&b, "a").await.as_deref(), Some(&b"1"[..]));
    wire.cut();
    until("it is said", &b, |standing| standing.away.is_some()).await;
    let last = done(&a, put("a", Expect::Present, b"2")).await;
    assert_eq!(said(&b, "a").await.as_deref(), Some(&b"1"[..]), "as it was");
    assert!(is_unavailable(&b.commit(batch(1, vec![put("b", Expect::Absent, b"1")])).await));
    wire.mend();
    until("it has caught up", &b, |standing| standing.away.is_none() && standing.revision == last).await;
    assert_eq!(said(&b, "a").await.as_deref(), Some(&b"2"[..]));
    assert_eq!(said(&a, "b").await, None, "what was refused is not there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_endpoint_takes_over_from_one_that_is_silent() {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let wire = Wire::to(&etcd).await;
    let settings = within(Duration::from_secs(2), &["http://127.0.0.1:1".into(), wire.url(), etcd.url()]);
    let store = EtcdStore::open(settings, PREFIX, Some(folder.path())).unwrap();
    done(&store, put("a", Expect::Absent, b"1")).await;
    assert_eq!(store.standing().endpoint, Some(wire.url()));
    wire.cut();
    until("the other one is asked", &store, |standing| standing.endpoint == Some(etcd.url())).await;
    until("it answers", &store, |standing| standing.away.is_none()).await;
    done(&store, put("a", Expect::Present, b"2")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_etcd_begins_with_what_was_known_last() {
    let (mut etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    let revision = done(&store, put("a", Expect::Absent, b"1")).await;
    drop(store);
    etcd.kill();
    let store = impatient(etcd.url(), folder.path());
    assert_eq!(said(&store, "a").await.as_deref(), Some(&b"1"[..]));
    assert_eq!(store.list(&Prefix::everything(), None, 9).await.unwrap().revision, revision);
    let fresh = tempfile::tempdir().unwrap();
    let ignorant = impatient(etcd.url(), fresh.path());
    let nothing = timeout(LIMIT, ignorant.list(&Prefix::everything(), None, 9)).await.unwrap();
    assert!(is_unavailable(&nothing), "who knows nothing does not say that nothing is there: {nothing:?}");
    etcd.again();
    until("it is back", &ignorant, |standing| standing.away.is_none() && standing.revision == revision).await;
    assert_eq!(said(&ignorant, "a").await.as_deref(), Some(&b"1"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_was_emptied_takes_nothing_away() {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    done(&store, put("a", Expect::Absent, b"1")).await;
    etcd.empty().await;
    until("it is said", &store, |standing| standing.away.is_some()).await;
    assert!(store.standing().away.unwrap().1.contains("store.etcd.prefix"));
    assert_eq!(said(&store, "a").await.as_deref(), Some(&b"1"[..]));
    assert!(is_unavailable(&store.commit(batch(1, vec![put("b", Expect::Absent, b"1")])).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_with_the_way_out_and_serves_on() {
    let (etcd, folder) = (Etcd::start_with(&["--quota-backend-bytes", "4194304"]), tempfile::tempdir().unwrap());
    let store = open(&etcd, folder.path());
    done(&store, put("a", Expect::Absent, b"1")).await;
    let mut full = None;
    for number in 0..64 {
        let change = put(&format!("n{number}"), Expect::Absent, &vec![b'x'; VALUE_MAX / 2]);
        if let Err(error) = store.commit(batch(1, vec![change])).await {
            full = Some(error.to_string());
            break;
        }
    }
    let full = full.expect("4 MiB are full at last");
    assert!(full.contains("is full") && full.contains("disarm its alarm"), "{full}");
    assert_eq!(said(&store, "a").await.as_deref(), Some(&b"1"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_shown_and_checked() {
    let (etcd, folder) = (Etcd::start_secured(), tempfile::tempdir().unwrap());
    let file = |name| Source::File(etcd.file(name));
    let identity = Some((file("client.pem"), file("client-key.pem")));
    let whole = Settings { ca: Some(file("ca.pem")), identity, ..settings(&[etcd.url()]) };
    let store = EtcdStore::open(whole.clone(), PREFIX, Some(folder.path())).unwrap();
    done(&store, put("a", Expect::Absent, b"1")).await;
    let whole = Settings { ca: whole.ca, identity: whole.identity, ..within(Duration::from_secs(2), &[etcd.url()]) };
    for (what, settings) in [
        ("no certificate is shown", Settings { identity: None, ..whole.clone() }),
        ("the authority is not one of the system's", Settings { ca: None, ..whole }),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = EtcdStore::open(settings, PREFIX, Some(folder.path())).unwrap();
        let refused = store.read(&key("a")).await;
        assert!(is_unavailable(&refused), "{what}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_its_password_is_let_in_and_again_after_etcd_forgot_it() {
    let (mut etcd, folder) = (Etcd::start(), tempfile::tempdir().unwrap());
    etcd.post("/v3/auth/user/add", r#"{"name": "root", "password": "of-root"}"#);
    etcd.post("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#);
    etcd.post("/v3/auth/user/add", r#"{"name": "fairway", "password": "word"}"#);
    etcd.post("/v3/auth/role/add", r#"{"name": "fairway"}"#);
    // Everything that begins with /fairway/, in base64.
    let range =
        r#"{"name": "fairway", "perm": {"permType": "READWRITE", "key": "L2ZhaXJ3YXkv", "range_end": "L2ZhaXJ3YXkw"}}"#;
    etcd.post("/v3/auth/role/grant", range);
    etcd.post("/v3/auth/user/grant", r#"{"user": "fairway", "role": "fairway"}"#);
    etcd.post("/v3/auth/enable", "{}");
    let file = folder.path().join("password");
    std::fs::write(&file, "word\n").unwrap();
    let user = Some(("fairway".to_owned(), Source::File(file.clone())));
    let whole = Settings { user, ..within(Duration::from_secs(5), &[etcd.url()]) };
    let store = EtcdStore::open(whole.clone(), PREFIX, Some(folder.path())).unwrap();
    done(&store, put("a", Expect::Absent, b"1")).await;
    etcd.kill();
    etcd.again();
    until("it is let in again", &store, |standing| standing.away.is_none()).await;
    let end = Instant::now() + LIMIT;
    while store.commit(batch(1, vec![put("a", Expect::Anything, b"2")])).await.is_err() {
        assert!(Instant::now() < end, "{:?}", store.standing());
        sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(&file, "another").unwrap();
    let others = tempfile::tempdir().unwrap();
    for (settings, prefix, word) in [
        (whole.clone(), PREFIX, "authentication failed"),
        (Settings { user: None, ..whole.clone() }, PREFIX, "user"),
        (whole, "/elsewhere/", "authentication failed"),
    ] {
        let refused = EtcdStore::open(settings, prefix, Some(others.path())).unwrap().read(&key("a")).await;
        assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains(word)), "{refused:?}");
    }
}

/// Far longer than any of it takes.
const LIMIT: Duration = Duration::from_secs(60);
