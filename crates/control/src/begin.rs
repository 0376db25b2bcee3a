//! Makes the control task with its first serving state; the daemon starts it.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, OnceLock},
    time::{Instant, SystemTime},
};

use arc_swap::ArcSwap;
use fairway_health::{
    Checker, CheckerSettings, HealthTransition,
    load::{ClusterLoadSettings, LoadReader},
};
use fairway_model::Timestamp;
use fairway_telemetry::logs::{LineFormat, Logs};
use fairway_zones::{ServingState, Snapshot};
use tokio::sync::{broadcast, mpsc, watch};

use super::{
    Control,
    actor::{Actor, Askers},
    balance::{Balance, Lead},
    book::Book,
    configured::{Configured, Reader, describe},
    drains::DrainWatch,
    keeper::Keeper,
    pace::Pacer,
    reload::view_of,
    retired::Retired,
    shared::{Clock, Counts, FLIPS_KEPT, Published, Readiness, Served, Shared},
    transports::Transports,
    truth::Minute,
};
use fairway_config::{LogFormat, watch::Fingerprint};
use fairway_store::{DataFolder, SavedBalance, SavedOverride, SavedTarget, peek_balance, peek_health, peek_overrides};
use fairway_telemetry::traces::Traces;

/// What is known from before this start.
#[derive(Debug, Default)]
pub struct Past {
    /// Health of each target.
    pub health: Vec<SavedTarget>,
    /// Overrides in force.
    pub overrides: Vec<SavedOverride>,
    /// What load balancing has learnt; `None` if nothing was kept.
    pub balance: Option<SavedBalance>,
}

impl Past {
    /// Reads what the data folder holds.
    pub fn read(folder: &DataFolder) -> Self {
        let (health, overrides) = (folder.read_health(), folder.read_overrides());
        Self { health, overrides, balance: folder.read_balance() }
    }

    /// Without the lock, and moving nothing aside.
    pub fn peek(path: &Path) -> Self {
        Self { health: peek_health(path), overrides: peek_overrides(path), balance: peek_balance(path) }
    }
}

/// The format of log lines that the settings ask for.
pub const fn line_format(format: LogFormat) -> LineFormat {
    match format {
        LogFormat::Auto => LineFormat::Auto,
        LogFormat::Text => LineFormat::Text,
        LogFormat::Json => LineFormat::Json,
    }
}

/// What the control task is made of.
pub struct Parts {
    /// Reads the configuration.
    pub reader: Reader,
    /// Where state is kept; `None` keeps nothing.
    pub folder: Option<Arc<DataFolder>>,
    /// The time, for schedules and ages.
    pub clock: Clock,
    /// The log whose filter follows the configuration.
    pub logs: Option<Logs>,
    /// The files as they were read, to notice changes.
    pub fingerprint: Fingerprint,
}

impl Parts {
    /// Starts checking, and makes the control task with its first view; the task is not started.
    pub async fn begin(
        self,
        configured: Configured,
        snapshot: Snapshot,
        past: Past,
        traces: Traces,
    ) -> (Control, Actor, watch::Receiver<Fingerprint>) {
        let (transitions, flips_in) = mpsc::channel::<HealthTransition>(FLIPS_WAITING_MAX);
        let settings = CheckerSettings { sockets_max: configured.settings.health.sockets_max };
        let checker = Checker::start(settings, transitions);
        let targets = snapshot.targets().to_vec();
        let restored = SavedTarget::find(past.health, &targets);
        checker.set_targets(targets, restored).await;
        let statuses: HashMap<_, _> = checker.states().await.into_iter().map(|s| (s.target, s.status)).collect();
        let loads = LoadReader::start();
        loads.set(ClusterLoadSettings::all(&configured.merged.desired)).await;
        let book = first_book(&configured, past.overrides, (self.clock)());
        let forced = book.forced(&configured.uses);
        let view = view_of(snapshot, None, (self.clock)(), &statuses, &forced);
        let published = Published {
            configured: Arc::new(configured),
            generation: 1,
            loaded_at: (self.clock)(),
            stale: false,
            last_reload: None,
            book,
        };
        let parts = (checker, loads, traces);
        let shared = Arc::new(first_shared(view, published, parts, describe(&self.reader.source)));
        let mut balance = Balance::after(past.balance, (self.clock)());
        begin_balance(&mut balance, &shared);
        let mut pacer = Pacer::default();
        pacer.follow(&shared.serving.load().snapshot);
        let (commands, commands_in) = mpsc::channel(COMMANDS_WAITING_MAX);
        let (fingerprint, files) = watch::channel(self.fingerprint);
        let actor = Actor {
            shared: Arc::clone(&shared),
            commands: commands_in,
            transitions: flips_in,
            waiting: vec![],
            reader: self.reader,
            trials: Arc::default(),
            reading: None,
            askers: Askers::default(),
            later: Askers::default(),
            fingerprint,
            forced,
            keeper: Keeper::new(self.folder),
            retired: Retired::default(),
            clock: self.clock,
            logs: self.logs,
            news: shared.loads.updates(),
            balance,
            minute: Minute::default(),
            drains: DrainWatch::default(),
            pacer,
        };
        (Control { shared, commands }, actor, files)
    }
}

/// What is published at first.
fn first_shared(
    view: ServingState,
    published: Published,
    (checker, loads, traces): (Checker, LoadReader, Traces),
    source: String,
) -> Shared {
    let revision = published.configured.objects.revision;
    Shared {
        serving: Served::new(view, published),
        checker,
        loads,
        traces,
        transports: Transports::default(),
        answered: ArcSwap::default(),
        drains: ArcSwap::default(),
        decides: ArcSwap::from_pointee(Lead::default().told()),
        objects: OnceLock::new(),
        served: watch::channel(revision).0,
        publishers: ArcSwap::default(),
        counts: Counts::default(),
        transitions: broadcast::channel(FLIPS_KEPT).0,
        readiness: watch::channel(Readiness::Starting).0,
        stopping: watch::channel(None).0,
        hang_ups: watch::channel(0).0,
        pushing: tokio::sync::Mutex::default(),
        started: SystemTime::now().into(),
        listeners: OnceLock::new(),
        webhook: OnceLock::new(),
        source,
    }
}

/// Follows the first configuration, and shows the shares that were kept before anybody asks.
fn begin_balance(balance: &mut Balance, shared: &Shared) {
    let view = shared.serving.load();
    balance.follow(&shared.serving.published().configured.merged.desired, &view.snapshot, Instant::now());
    if let Some(runtime) = balance.share(&view.snapshot, &view.runtime) {
        shared.serving.swap_serving(ServingState { snapshot: Arc::clone(&view.snapshot), runtime: Arc::new(runtime) });
    }
}

/// The overrides in force at the start; those that ended while nobody ran are told and left out.
fn first_book(configured: &Configured, kept: Vec<SavedOverride>, now: Timestamp) -> Book {
    let mut book = Book::new(configured.overrides.clone(), kept);
    for (_, said) in book.expire(now) {
        tracing::warn!(scope = %said.scope, action = %said.action, ended = %said.expires, "override expired before the start");
    }
    book
}

/// Flips that may wait for the control task; the checker joins what is over.
const FLIPS_WAITING_MAX: usize = 4096;
/// Commands that may wait for the control task; further callers wait.
const COMMANDS_WAITING_MAX: usize = 64;
