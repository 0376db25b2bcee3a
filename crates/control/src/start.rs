//! Makes the control task with its first serving state. The daemon starts the task.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use fairway_config::watch::Fingerprint;
use fairway_health::{
    Checker, Fence, FenceRules, HealthTransition,
    load::{ClusterLoadSettings, LoadReader},
};
use fairway_history::History;
use fairway_hosts::Hosts;
use fairway_model::{HealthStatus, Target, Timestamp};
use fairway_sources::Sources;
use fairway_store::{DataFolder, SavedOverride, SavedState, SavedTarget};
use fairway_telemetry::{logs::Logs, traces::Traces};
use fairway_zones::Snapshot;
use tokio::sync::{mpsc, watch};

use super::{
    Control,
    actor::Actor,
    answers::AnswerCounts,
    balance::Balance,
    configured::Configured,
    contributed::FoundHealth,
    drains::DrainWatch,
    dry_run::DryRuns,
    fence::DeniedTargets,
    lifecycle::{Clock, Lifecycle, Moment},
    overrides::OverrideTable,
    reader::{Reader, describe},
    reload_queue::ReloadQueue,
    removals,
    runtime::{DepartedTargets, Reload, RuntimeInputs, status_of_new},
    served::{DeferredDrops, Published, Served},
    shared::{BalanceStatus, Counts, Declarations, Probes, QueryCounters, Shared},
    state_writer::StateWriter,
    tenant_probes::OverLimit,
};

/// Parts of the control task.
pub struct Parts {
    /// Reads the configuration.
    pub reader: Reader,
    /// Folder for state files; `None` writes none.
    pub folder: Option<Arc<DataFolder>>,
    /// Clock for schedules and ages.
    pub clock: Clock,
    /// The log, whose filter follows the configuration.
    pub logs: Option<Logs>,
    /// The files as they were read, to notice changes.
    pub fingerprint: Fingerprint,
    /// Listeners of this server, which no target of a tenant may be.
    pub listeners: Vec<SocketAddr>,
    /// Addresses of host names of clusters, which the reader uses.
    pub hosts: Hosts,
    /// Kubernetes clusters, which the reader uses.
    pub sources: Sources,
    /// The change log. It is opened once the data folder belongs to this process.
    pub history: History,
}

impl Parts {
    /// Starts the probes, and makes the control task with its first serving state. The task is not started.
    pub async fn start(
        self,
        configured: Configured,
        snapshot: Snapshot,
        past: SavedState,
        traces: Traces,
    ) -> (Control, Actor, watch::Receiver<Fingerprint>) {
        let zones = removals::sizes(&configured.files.desired, &snapshot);
        removals::log_shrunk(past.zones.as_ref(), &zones);
        let StartedProbes { probes, transitions, statuses, over_limit } =
            start_probes(&configured, &snapshot, (self.listeners, self.hosts, self.sources), past.health).await;
        let now = Moment { monotonic: std::time::Instant::now(), wall: (self.clock)() };
        let overrides = first_overrides(&configured, past.overrides, now.wall);
        let denied = DeniedTargets::new(&probes.fence.rules(), &snapshot, &configured.uses, &HashMap::new());
        let mut inputs = RuntimeInputs { balance: Balance::after(past.balance, now.wall), ..RuntimeInputs::default() };
        let restricted = denied.restrict(overrides.actions(&configured.uses));
        let first = Reload { snapshot, previous: None, configured: &configured, statuses, overrides: restricted };
        let serving = inputs.reload(first, now);
        let (revision, started) = (configured.objects.revision, configured.settings.of_start());
        let published = Published::first(configured, overrides, denied, now.wall);
        let shared = Arc::new(Shared {
            serving: Served::new(serving, published, self.history),
            probes,
            balance: BalanceStatus::new(inputs.balance.leader_status()),
            declarations: Declarations::new(revision),
            publishers: ArcSwap::default(),
            lifecycle: Lifecycle::starting(describe(&self.reader.source)),
            queries: QueryCounters::default(),
            counts: Counts::default(),
            traces,
        });
        shared.probes.sources.set_health(Arc::new(FoundHealth(shared.serving.clone())));
        let (commands, commands_in) = mpsc::channel(COMMANDS_WAITING_MAX);
        let (fingerprint, files) = watch::channel(self.fingerprint);
        let actor = Actor {
            shared: Arc::clone(&shared),
            commands: commands_in,
            transitions,
            waiting: vec![],
            load_updates: shared.probes.loads.updates(),
            dry_runs: Arc::new(DryRuns::new(self.reader.clone(), Arc::clone(&self.clock), shared.serving.clone())),
            reloads: ReloadQueue::new(self.reader, fingerprint),
            started,
            inputs,
            denied: HashMap::new(),
            over_limit,
            answers: AnswerCounts::default(),
            departed: DepartedTargets::default(),
            drains: DrainWatch::default(),
            writer: StateWriter::new(self.folder, zones),
            deferred: DeferredDrops::default(),
            clock: self.clock,
            logs: self.logs,
        };
        (Control { shared, commands }, actor, files)
    }
}

/// Probes and load readers of the first snapshot.
struct StartedProbes {
    probes: Probes,
    transitions: mpsc::Receiver<HealthTransition>,
    /// First status of each target.
    statuses: Vec<HealthStatus>,
    over_limit: OverLimit,
}

/// Starts the health checker with the targets of a snapshot, and the load readers.
async fn start_probes(
    configured: &Configured,
    snapshot: &Snapshot,
    (listeners, hosts, sources): (Vec<SocketAddr>, Hosts, Sources),
    saved: Vec<SavedTarget>,
) -> StartedProbes {
    let fence = Arc::new(Fence::new(fence_rules(configured)));
    fence.set_listeners(listeners);
    let loads = LoadReader::start(Arc::clone(&fence));
    follow(&hosts, (&sources, &loads), configured);
    loads.set(ClusterLoadSettings::all(&configured.merged.desired));
    let (sender, transitions) = mpsc::channel(TRANSITIONS_WAITING_MAX);
    let checker = Checker::start(configured.settings.health.sockets_max, sender, Arc::clone(&fence));
    let restored = SavedTarget::find(saved, snapshot.targets());
    let mut over_limit = OverLimit::default();
    let targets = over_limit.bound(configured, snapshot.targets());
    checker.set_targets(targets, restored).await;
    let states = checker.states().await.into_iter().map(|state| (state.target, state.status));
    let states: HashMap<Target, HealthStatus> = states.collect();
    let status = |target: &Target| match states.get(target) {
        None | Some(HealthStatus::Pending) => status_of_new(&target.monitor, std::iter::empty()),
        Some(status) => *status,
    };
    let statuses = snapshot.targets().iter().map(status).collect();
    StartedProbes { probes: Probes::new(checker, loads, (hosts, sources), fence), transitions, statuses, over_limit }
}

/// Looks up the host names of all clusters, and reads those that have a Kubernetes API, from now on. Statistics of the services that they
/// expose are read with their load.
pub(crate) fn follow(hosts: &Hosts, (sources, loads): (&Sources, &LoadReader), configured: &Configured) {
    let (clusters, of_files) = (&configured.merged.desired.clusters, &configured.files.desired.clusters);
    hosts.follow_clusters(clusters.values(), |name| of_files.contains_key(name), &configured.settings.resolvers);
    // Only files name credentials of this server.
    let names = (configured.files.desired.zones.keys(), configured.settings.withdrawals);
    sources.follow(of_files, names, &loads.services());
    sources.report(&configured.looked_up.found, configured.merged.contributed.refusals());
    let found = configured.looked_up.found.iter();
    loads.set_exposed(found.map(|(cluster, found)| (cluster.clone(), found.services.clone())));
}

/// Returns the rules for connections of probes and load readers. What the files declare is exempt.
pub(crate) fn fence_rules(configured: &Configured) -> FenceRules {
    let Configured { settings, files, .. } = configured;
    FenceRules::new(settings.health.networks.clone(), &files.desired, settings.access.names.is_enforced)
}

/// Returns the overrides in force at the start. Those that expired while no process ran are logged and dropped.
fn first_overrides(configured: &Configured, kept: Vec<SavedOverride>, now: Timestamp) -> OverrideTable {
    let shared = configured.objects.shared_overrides().unwrap_or_default().to_vec();
    let mut table = OverrideTable { declared: configured.overrides.clone(), kept, shared };
    for (_, spec) in table.expire(now) {
        let (scope, action) = (spec.kind.scope(), spec.kind.action());
        tracing::warn!(scope, action, ended = %spec.expires, "override expired before the start");
    }
    table
}

/// Maximum number of health transitions that wait for the control task. The checker merges further ones of the same target.
const TRANSITIONS_WAITING_MAX: usize = 4096;
/// Maximum number of commands that wait for the control task. Further callers wait.
const COMMANDS_WAITING_MAX: usize = 64;
