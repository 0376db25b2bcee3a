//! What the control task publishes, and everyone else reads without asking it.

use std::{
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use arc_swap::ArcSwap;
use fairway_health::{Checker, load::LoadReader};
use fairway_model::{HealthStatus, Timestamp};
use fairway_providers::{publish::Publisher, webhook_server::Calls};
use fairway_zones::ServingState;
use tokio::sync::{broadcast, watch};

use super::{
    AppliedTransition, Stopping, balance::Decides, book::Book, configured::Configured, contributed::ContributionLedger,
    drains::Drains, objects::Objects, transports::Transports, truth::Answered,
};
use fairway_api_types::state_wire::{ListenerState, ReloadReport};
use fairway_telemetry::traces::Traces;

/// Tells the time; tests bring their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The system's clock.
pub fn system_clock() -> Clock {
    Arc::new(|| SystemTime::now().into())
}

/// Whether the daemon wants to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The first round of probes is not done.
    Starting,
    /// Sockets are served.
    Ready,
    /// On the way down.
    Draining,
}

/// What answers follow, and what is published about it. Both change in one swap, so that whoever loads it sees a pair that belongs
/// together.
#[derive(Debug)]
pub struct CurrentState {
    /// What queries are answered from.
    pub serving: ServingState,
    /// What status, metrics and the API say about it.
    pub published: Arc<Published>,
}

impl AsRef<ServingState> for CurrentState {
    fn as_ref(&self) -> &ServingState {
        &self.serving
    }
}

impl Deref for CurrentState {
    type Target = ServingState;

    fn deref(&self) -> &ServingState {
        &self.serving
    }
}

/// The owner of the current state. The control task alone swaps it.
#[derive(Clone, Debug)]
pub struct Served(Arc<ArcSwap<CurrentState>>);

impl Served {
    /// Begins with this state.
    pub fn new(serving: ServingState, published: Published) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(CurrentState { serving, published: Arc::new(published) })))
    }

    /// Returns the current state.
    pub fn load(&self) -> Arc<CurrentState> {
        self.0.load_full()
    }

    /// Returns what is published about the current state.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.0.load().published)
    }

    /// Returns the pointer that the DNS listeners follow.
    pub fn pointer(&self) -> Arc<ArcSwap<CurrentState>> {
        Arc::clone(&self.0)
    }

    /// Replaces the serving state. Returns the state before, which listeners may read still.
    pub fn swap_serving(&self, serving: ServingState) -> Arc<CurrentState> {
        self.swap(serving, self.published())
    }

    /// Replaces both.
    pub fn swap(&self, serving: ServingState, published: Arc<Published>) -> Arc<CurrentState> {
        self.0.swap(Arc::new(CurrentState { serving, published }))
    }
}

/// What is published about the serving state: read by status, metrics and the API.
#[derive(Clone, Debug)]
pub struct Published {
    /// The configuration in force.
    pub configured: Arc<Configured>,
    /// Counts accepted configurations, from 1.
    pub generation: u64,
    /// When this one was accepted.
    pub loaded_at: Timestamp,
    /// Whether a newer one was refused.
    pub stale: bool,
    /// The last attempt to reload.
    pub last_reload: Option<ReloadReport>,
    /// Overrides in force.
    pub book: Book,
}

/// Events counted since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Reloads that were accepted.
    pub reloads_accepted: AtomicU64,
    /// Reloads that were refused.
    pub reloads_refused: AtomicU64,
    /// Changes of verdicts, by what they became: up, down, unknown.
    transitions: [AtomicU64; 3],
    /// Members that their schedules closed, and opened.
    pub turns: [AtomicU64; 2],
    /// New conditions published.
    pub conditions: AtomicU64,
    /// Messages about readiness that were taken.
    pub callbacks_delivered: AtomicU64,
    /// Tries to deliver one that failed.
    pub callbacks_failed: AtomicU64,
    /// State files that could not be written.
    pub write_failures: AtomicU64,
}

impl Counts {
    /// Counts a change of verdict. Nothing ever becomes pending.
    pub fn transition(&self, to: HealthStatus) {
        self.transitions(to).into_iter().for_each(|counter| _ = counter.fetch_add(1, Relaxed));
    }

    /// Changes of verdicts that became this.
    pub fn transitions(&self, to: HealthStatus) -> Option<&AtomicU64> {
        match to {
            HealthStatus::Up => Some(&self.transitions[0]),
            HealthStatus::Down => Some(&self.transitions[1]),
            HealthStatus::Unknown => Some(&self.transitions[2]),
            HealthStatus::Pending => None,
        }
    }
}

/// What the control task publishes.
#[derive(Debug)]
pub struct Shared {
    /// The current state.
    pub serving: Served,
    /// The health checker.
    pub checker: Checker,
    /// The reader of the load of clusters.
    pub loads: LoadReader,
    /// Where spans of requests and of what comes of them go.
    pub traces: Traces,
    /// The DNS listeners.
    pub transports: Transports,
    /// What was answered lately.
    pub answered: ArcSwap<Answered>,
    /// Clusters that are being drained.
    pub drains: ArcSwap<Drains>,
    /// Whose decisions of balancing hold.
    pub decides: ArcSwap<Decides>,
    /// Objects that were declared, or why there can be none; set once the store is open.
    pub objects: OnceLock<Result<Objects, String>>,
    /// The revision of the declared objects that are in the answers.
    pub served: watch::Sender<u64>,
    /// Who publishes to other DNS servers, in the order of the configuration.
    pub publishers: ArcSwap<Vec<Publisher>>,
    /// Events counted.
    pub counts: Counts,
    /// Flips, once they are in the answers.
    pub transitions: broadcast::Sender<AppliedTransition>,
    /// Whether to be asked.
    pub readiness: watch::Sender<Readiness>,
    /// Why to end, once that is asked for.
    pub stopping: watch::Sender<Option<Stopping>>,
    /// SIGHUPs received: files that are appended to are opened anew.
    pub hang_ups: watch::Sender<u64>,
    /// Held by who pushes a table of latencies.
    pub pushing: tokio::sync::Mutex<()>,
    /// When the daemon started.
    pub started: Timestamp,
    /// What is bound; set once everything is.
    pub listeners: OnceLock<Vec<ListenerState>>,
    /// What ExternalDNS brings, and what it called; set at the start.
    pub webhook: OnceLock<(Arc<ContributionLedger>, Arc<Calls>)>,
    /// What the configuration is called.
    pub source: String,
}

/// Most flips a slow reader may be behind before it loses the oldest.
pub const FLIPS_KEPT: usize = 1024;
