//! State that the control task publishes. Others read it without a request to the task.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use arc_swap::ArcSwap;
use fairway_health::{Checker, Fence, HealthTransition, load::LoadReader};
use fairway_hosts::Hosts;
use fairway_model::{ClusterName, HealthStatus, PoolName, SharedSet};
use fairway_providers::{publish::Publisher, webhook_server::Calls};
use fairway_sources::Sources;
use fairway_steering::balancer::Plan;
use fairway_store::LeaderStatus;
use fairway_telemetry::traces::Traces;
use fairway_zones::{Tallies, Tally};
use tokio::{
    sync::{broadcast, watch},
    task::JoinSet,
};

use super::{
    answers::Answered, balance::EvidenceStatus, contributed::ContributionLedger, drains::Drains, lifecycle::Lifecycle,
    object_store::Objects, served::Served,
};
use std::time::SystemTime;

/// State that the control task publishes.
pub struct Shared {
    /// The current state.
    pub serving: Served,
    /// Probes, readers of load and look-ups of host names.
    pub probes: Probes,
    /// Results of balancing.
    pub balance: BalanceStatus,
    /// Declared objects and webhook contributions.
    pub declarations: Declarations,
    /// Publishers to other DNS providers.
    pub publishers: ArcSwap<Publishers>,
    /// Start, readiness and stop.
    pub lifecycle: Lifecycle,
    /// Counters of the threads that answer queries.
    pub queries: QueryCounters,
    /// Events counted since the start.
    pub counts: Counts,
    /// Spans of requests and of their effects.
    pub traces: Traces,
}

/// Probes of targets, readers of the load of clusters and of their Kubernetes APIs, and look-ups of their host names.
pub struct Probes {
    /// Health checker.
    pub checker: Checker,
    /// Readers of load.
    pub loads: LoadReader,
    /// Addresses of host names of clusters.
    pub hosts: Hosts,
    /// Kubernetes clusters that are read.
    pub sources: Sources,
    /// Decides which connections both may open.
    pub fence: Arc<Fence>,
    /// Health transitions, once the answers follow them. A receiver that is 1,024 transitions behind loses the oldest.
    pub transitions: broadcast::Sender<AppliedTransition>,
}

impl Probes {
    pub(crate) fn new(checker: Checker, loads: LoadReader, read: (Hosts, Sources), fence: Arc<Fence>) -> Self {
        let (hosts, sources) = read;
        Self { checker, loads, hosts, sources, fence, transitions: broadcast::channel(TRANSITIONS_KEPT).0 }
    }
}

/// A health transition that the answers follow.
#[derive(Clone, Debug)]
pub struct AppliedTransition {
    /// The transition.
    pub transition: HealthTransition,
    /// Clusters with an address that the target stands for.
    pub clusters: Vec<ClusterName>,
    /// Pools that use the target, in order: a hundred thousand if a gateway carries that many. Shared with the configuration in force.
    pub pools: SharedSet<PoolName>,
    /// Time when the answers began to follow it.
    pub applied: SystemTime,
}

/// Results of balancing, and of the answers that were counted.
#[derive(Debug)]
pub struct BalanceStatus {
    /// Answers of the last minute.
    pub answered: ArcSwap<Answered>,
    /// Clusters that are being drained.
    pub drains: ArcSwap<Drains>,
    /// The server whose decisions are in force.
    pub leader: ArcSwap<LeaderStatus>,
    /// Evidence of demand.
    pub evidence: ArcSwap<EvidenceStatus>,
    /// Results of the last decision for each location class, by its number in the snapshot; empty if another server decides.
    pub plans: ArcSwap<Vec<Plan>>,
}

impl BalanceStatus {
    pub(crate) fn new(leader: LeaderStatus) -> Self {
        Self {
            answered: ArcSwap::default(),
            drains: ArcSwap::default(),
            leader: ArcSwap::from_pointee(leader),
            evidence: ArcSwap::default(),
            plans: ArcSwap::default(),
        }
    }
}

/// Declared objects and webhook contributions.
pub struct Declarations {
    /// The declared objects, or the reason why there are none; set once the store is open.
    pub objects: OnceLock<Result<Objects, String>>,
    /// Revision of the declared objects that the answers follow.
    pub served: watch::Sender<u64>,
    /// Contributions of the webhook, and its calls; set at the start.
    pub webhook: OnceLock<(Arc<ContributionLedger>, Arc<Calls>)>,
    /// Held during the push of a latency table.
    pub pushing: tokio::sync::Mutex<()>,
}

impl Declarations {
    pub(crate) fn new(revision: u64) -> Self {
        Self {
            objects: OnceLock::new(),
            served: watch::channel(revision).0,
            webhook: OnceLock::new(),
            pushing: tokio::sync::Mutex::default(),
        }
    }
}

/// Returns the counters of each thread that answers queries.
pub type TallySource = Box<dyn Fn() -> Vec<Arc<Tally>> + Send + Sync>;

/// Publishers to other DNS providers.
#[derive(Default)]
pub struct Publishers {
    /// Those of the configuration, in its order.
    pub configured: Vec<Publisher>,
    /// Those of DNS update records, in the order of their keys.
    pub declared: Vec<Publisher>,
}

impl Publishers {
    /// Returns all publishers, those of the configuration first.
    pub fn all(&self) -> impl Iterator<Item = &Publisher> {
        self.configured.iter().chain(&self.declared)
    }

    /// Lets other servers publish in place of this one, which stops.
    pub async fn resign(&self) {
        // At once: one whose provider does not answer must not delay the others.
        let mut all: JoinSet<()> =
            self.all().cloned().map(|publisher| async move { publisher.resign().await }).collect();
        while all.join_next().await.is_some() {}
    }
}

/// Counters of the threads that answer queries, from the first query until after the last one.
#[derive(Default)]
pub struct QueryCounters(OnceLock<TallySource>);

impl QueryCounters {
    /// Sets the source of the counters, once the DNS listeners run.
    pub fn set(&self, source: TallySource) {
        // The listeners start once.
        let _ = self.0.set(source);
    }

    /// Returns the counters of each thread; none before the listeners run.
    pub fn by_thread(&self) -> Vec<Arc<Tally>> {
        self.0.get().map(|source| source()).unwrap_or_default()
    }

    /// Returns the sums over all threads.
    pub fn sums(&self) -> Tallies {
        let mut sums = Tallies::default();
        self.by_thread().iter().for_each(|tally| tally.add_to(&mut sums));
        sums
    }
}

/// Events counted since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Accepted reloads of the files.
    pub reloads_accepted: AtomicU64,
    /// Rejected reloads of the files.
    pub reloads_rejected: AtomicU64,
    /// Health transitions by the new status: up, down, unknown.
    health_transitions: [AtomicU64; 3],
    /// Members that were closed by their schedule.
    pub schedules_closed: AtomicU64,
    /// Members that were opened by their schedule.
    pub schedules_opened: AtomicU64,
    /// Runtime states that were published.
    pub runtime_states: AtomicU64,
    /// Requests to the callback of readiness that were answered with success.
    pub callbacks_delivered: AtomicU64,
    /// Requests to the callback of readiness that failed.
    pub callbacks_failed: AtomicU64,
    /// State files that could not be written.
    pub write_failures: AtomicU64,
}

impl Counts {
    /// Counts a health transition.
    pub fn count_transition(&self, to: HealthStatus) {
        if let Some(counter) = self.transitions(to) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Returns the counter of transitions to a status; `None` for pending, which no target returns to.
    pub fn transitions(&self, to: HealthStatus) -> Option<&AtomicU64> {
        match to {
            HealthStatus::Up => Some(&self.health_transitions[0]),
            HealthStatus::Down => Some(&self.health_transitions[1]),
            HealthStatus::Unknown => Some(&self.health_transitions[2]),
            HealthStatus::Pending => None,
        }
    }
}

/// Maximum number of health transitions that wait for a slow receiver; further ones replace the oldest.
const TRANSITIONS_KEPT: usize = 1024;
