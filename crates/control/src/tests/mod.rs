//! The control task on real configuration files, with targets on loopback that nothing or something answers on.

mod incremental;
mod objects;
mod overrides;
mod pace;
mod reload;
mod schedules;
mod transitions;
mod trials;

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use fairway_model::{Health, HealthStatus, Target, Timestamp};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{
    Control,
    actor::Actor,
    compile::Compiled,
    configured::{Reader, What},
};
use crate::begin::{Parts, Past};
use fairway_config::Environment;
use fairway_config::Source;
use fairway_store::DataFolder;
use fairway_telemetry::traces::Traces;

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with a configuration, and a clock that is set by hand.
struct Scene {
    folder: TempDir,
    clock: Arc<AtomicU64>,
}

impl Scene {
    fn new(config: &str) -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap(), clock: Arc::new(AtomicU64::new(1_000_000)) };
        scene.write(config);
        scene
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("fairway.yaml")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn write(&self, config: &str) {
        fs::write(self.file(), config).unwrap();
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_secs(self.clock.load(Relaxed))
    }

    fn pass(&self, span: Duration) {
        self.clock.fetch_add(span.as_secs(), Relaxed);
    }

    /// The clock is set back.
    fn step_back(&self, span: Duration) {
        self.clock.fetch_sub(span.as_secs(), Relaxed);
    }

    /// The control task, not running: for tests that play each of its steps.
    async fn actor(&self) -> (Control, Actor) {
        let environment: Environment = Arc::new(|_| None);
        let source = Source::Path(self.file());
        let reader = Reader { source, environment, declared: Arc::default() };
        let reading = reader.read_here(What::Files, None, self.now());
        let Compiled { configured, snapshot, .. } = reading.outcome.unwrap_or_else(|faults| panic!("{faults:#?}"));
        let folder = Arc::new(DataFolder::open(&self.data()).unwrap());
        let past = Past::read(&folder);
        let time = Arc::clone(&self.clock);
        let parts = Parts {
            reader,
            folder: Some(folder),
            clock: Arc::new(move || Timestamp::from_secs(time.load(Relaxed))),
            logs: None,
            fingerprint: reading.fingerprint.unwrap_or_default(),
        };
        let (control, actor, _) = parts.begin(configured, snapshot, past, Traces::default()).await;
        (control, actor)
    }

    /// The control task, running.
    async fn run(&self) -> (Control, JoinHandle<()>) {
        let (control, actor) = self.actor().await;
        (control, tokio::spawn(actor.run()))
    }
}

/// Two clusters in one pool, judged by `monitor`.
fn config(monitor: &str) -> String {
    format!(
        "version: 1
listen: {{ dns: [\"127.0.0.1:0\"], http: \"127.0.0.1:0\" }}
zones: [ {{ name: gslb.example, ns: [ {{ name: ns1.gslb.example, addresses: [192.0.2.53] }} ], contact: a@gslb.example }} ]
clusters:
  - {{ name: eu1, addresses: [127.0.0.1] }}
  - {{ name: us1, addresses: [127.0.0.2] }}
monitors: [ {{ name: gateway, {monitor} }} ]
pools: [ {{ name: shop, policy: failover, monitor: gateway, members: [ {{ cluster: eu1 }}, {{ cluster: us1 }} ] }} ]
names: [ {{ name: shop.gslb.example, pool: shop }} ]
"
    )
}

/// A monitor of targets that nobody answers at, asked so rarely that only the test speaks.
fn silent() -> String {
    config("type: tcp, port: 9, period: 1h, timeout: 1s")
}

/// The target of a cluster's one address.
fn target(control: &Control, address: &str) -> Target {
    let snapshot = Arc::clone(&control.shared.serving.load().snapshot);
    snapshot.targets().iter().find(|t| t.address.to_string() == address).expect("a target of the pool").clone()
}

/// How a target stands in the answers.
fn health(control: &Control, address: &str) -> Health {
    let target = target(control, address);
    let number = control.shared.serving.published().configured.uses.number_of(&target).unwrap();
    control.shared.serving.load().runtime.health(number)
}

fn status(control: &Control, address: &str) -> HealthStatus {
    health(control, address).status()
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "it did not come: {what}");
}

/// A loopback port that answers as long as the value lives.
fn gateway() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}
