//! The control task on real configuration files, with targets on loopback.

mod adaptive_ttl;
mod dry_runs;
mod exhausted;
mod handover;
mod incremental;
mod kubernetes;
mod load_off;
mod objects;
mod overrides;
mod reload;
mod scene;
mod schedules;
mod transitions;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use fairway_config::{Environment, Source};
use fairway_hosts::Hosts;
use fairway_model::{Health, HealthStatus, Override, OverrideAction, OverrideKind, Target, Timestamp};
use fairway_sources::Sources;
use fairway_store::DataFolder;
use fairway_telemetry::traces::Traces;
use tokio::task::JoinHandle;

use self::scene::{ConfigFolder, PATIENCE, config, gateway, until};
use super::{
    Control, actor::Actor, configured::Compiled, overrides::OverrideRequest, reader::Reader, reloads::ReloadScope,
    start::Parts,
};

/// A configuration, and a clock that the test sets.
pub(crate) struct Scene {
    folder: ConfigFolder,
    clock: Arc<AtomicU64>,
}

impl Scene {
    pub(crate) fn new(config: &str) -> Self {
        Self { folder: ConfigFolder::new(config), clock: Arc::new(AtomicU64::new(1_000_000)) }
    }

    fn data(&self) -> PathBuf {
        self.folder.data()
    }

    fn write(&self, config: &str) {
        self.folder.write(config);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_secs(self.clock.load(Relaxed))
    }

    /// Sets the clock ahead.
    fn advance(&self, span: Duration) {
        self.clock.fetch_add(span.as_secs(), Relaxed);
    }

    /// Sets the clock back.
    fn set_back(&self, span: Duration) {
        self.clock.fetch_sub(span.as_secs(), Relaxed);
    }

    /// Returns a confirmed override that expires after some seconds.
    fn override_for(&self, scope: &str, action: OverrideAction, secs: u64) -> OverrideRequest {
        let expires = self.now().plus(Duration::from_secs(secs));
        self.request(OverrideKind::Health { scope: scope.parse().unwrap(), action }, expires)
    }

    /// Returns an override that pins pools, and expires after some seconds.
    fn load_off_for(&self, pools: &str, secs: u64) -> OverrideRequest {
        let expires = self.now().plus(Duration::from_secs(secs));
        self.request(OverrideKind::LoadOff { pools: pools.parse().unwrap() }, expires)
    }

    fn request(&self, kind: OverrideKind, expires: Timestamp) -> OverrideRequest {
        let spec = Override::new(kind, "planned work", expires, self.now()).unwrap();
        OverrideRequest { spec, id: None, is_confirmed: true, is_dry_run: false, is_local: false }
    }

    fn reader(&self) -> Reader {
        let environment: Environment = Arc::new(|_| None);
        Reader::new(Source::Path(self.folder.file()), environment)
    }

    /// Returns the control task, not running, for tests that execute its steps.
    pub(crate) async fn actor(&self) -> (Control, Actor) {
        let reader = self.reader();
        let folder = Arc::new(DataFolder::open(&self.data()).unwrap());
        let past = folder.read_state();
        reader.kept.store(Arc::new(past.overrides.clone()));
        let reading = reader.read_here(ReloadScope::Files, None, self.now());
        let Compiled { configured, snapshot, .. } = reading.outcome.unwrap_or_else(|errors| panic!("{errors:#?}"));
        let time = Arc::clone(&self.clock);
        let parts = Parts {
            reader,
            folder: Some(folder),
            clock: Arc::new(move || Timestamp::from_secs(time.load(Relaxed))),
            logs: None,
            fingerprint: reading.fingerprint.unwrap_or_default(),
            listeners: vec![],
            hosts: Hosts::start(vec![]),
            sources: Sources::start(None),
            history: fairway_history::History::default(),
        };
        let (control, actor, _) = parts.start(configured, snapshot, past, Traces::default()).await;
        (control, actor)
    }

    /// Returns the running control task.
    async fn run(&self) -> (Control, JoinHandle<()>) {
        let (control, actor) = self.actor().await;
        (control, tokio::spawn(actor.run()))
    }
}

/// Returns a configuration whose probes get no response and run so rarely that only the test changes the health status.
pub(crate) fn silent() -> String {
    config("type: tcp, port: 9, period: 1h, timeout: 1s")
}

/// Returns the target of an address.
fn target(control: &Control, address: &str) -> Target {
    let snapshot = Arc::clone(&control.shared.serving.load().snapshot);
    snapshot.targets().iter().find(|t| t.address.to_string() == address).expect("a target of the pool").clone()
}

/// Returns the health of an address in the serving state.
fn health(control: &Control, address: &str) -> Health {
    let target = target(control, address);
    let number = control.shared.serving.published().configured.uses.number_of(&target).unwrap();
    control.shared.serving.load().runtime.health(number)
}

fn status(control: &Control, address: &str) -> HealthStatus {
    health(control, address).status()
}
