//! The handle of the control task, for the API, signals and the demonstration.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::load::{PushError, PushedLoad, SourceLoad};
use fairway_model::{Backend, Cause, DesiredState, Name, Network, PinnedPool, PoolName, Rtype, Target};
use fairway_steering::balancer::Plan;
use fairway_zones::{Explained, ServingState, TargetIndex, steer};
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    command::Command,
    configured::Configured,
    error::ControlError,
    lifecycle::{Readiness, Stopping},
    reloads::{ReloadOutcome, ReloadScope, Trigger},
    served::Published,
    shared::{AppliedTransition, Shared},
};

/// A handle of the control task. Clones are handles of the same task.
#[derive(Clone)]
pub struct Control {
    /// State that the control task publishes.
    pub shared: Arc<Shared>,
    /// Commands to the control task.
    pub commands: mpsc::Sender<Command>,
}

/// An answer with every step towards it, and the causes why targets are down.
#[derive(Debug)]
pub struct ExplainedNow {
    /// The answer with its steps.
    pub explained: Explained,
    serving: Arc<ServingState>,
    causes: HashMap<Target, Cause>,
    published: Arc<Published>,
    plans: Arc<Vec<Plan>>,
}

impl ExplainedNow {
    /// Returns a target by its number.
    pub fn target(&self, number: TargetIndex) -> Option<&Target> {
        self.serving.snapshot.targets().get(number.0 as usize)
    }

    /// Returns the desired state that is served.
    pub fn desired(&self) -> &DesiredState {
        &self.published.configured.merged.desired
    }

    /// Returns why a target's last probe failed; `None` if it passed, none has completed, or the target is not probed.
    pub fn cause(&self, number: TargetIndex) -> Option<&Cause> {
        self.causes.get(self.target(number)?).filter(|_| self.not_allowed(number).is_none())
    }

    /// Returns why this server may not connect to a target; `None` if it may.
    pub fn not_allowed(&self, number: TargetIndex) -> Option<&str> {
        self.published.denied.reason(number)
    }

    /// Returns the configuration that is served.
    pub fn configured(&self) -> &Configured {
        &self.published.configured
    }

    /// Returns the override that pins a pool to its declared weights.
    pub fn pinned(&self, pool: &PoolName) -> Option<PinnedPool<'_>> {
        self.published.overrides.pinned(pool, &self.published.configured)
    }

    /// Returns what the last decision of load control found for the client's class, and the clusters that its numbers are of. `None` if it
    /// decides nothing for the pool, or another server does.
    pub fn plan(&self, pool: &steer::Explanation) -> Option<(&[Backend], &Plan)> {
        let (snapshot, key) = (&self.serving.snapshot, pool.proof.pool_key);
        let classes = snapshot.load_classes();
        let found = snapshot.steer_pools().iter().find(|own| own.key() == key)?;
        let class = classes.class(found, pool.client.class())?;
        let clusters = &classes.groups()[classes.place(class).0].clusters;
        // A decision may be of an earlier configuration, or learn what there is.
        Some((clusters, self.plans.get(class).filter(|plan| plan.best.len() == clusters.len())?))
    }
}

impl Control {
    /// Reloads the configuration, and waits for the outcome. It is rejected if the files no longer declare many names.
    pub async fn reload(&self) -> Result<ReloadOutcome, ControlError> {
        self.reload_files(false).await
    }

    /// Reloads the configuration, whatever number of names the files no longer declare, and waits for the outcome.
    pub async fn reload_with_removals(&self) -> Result<ReloadOutcome, ControlError> {
        self.reload_files(true).await
    }

    async fn reload_files(&self, allow_removals: bool) -> Result<ReloadOutcome, ControlError> {
        let (scope, trigger) = (ReloadScope::Files, Trigger::Command);
        self.ask(|reply| Command::Reload { scope, trigger, allow_removals, reply: Some(reply) }).await
    }

    /// Requests a reload without waiting for it.
    pub async fn request_reload(&self, scope: ReloadScope, trigger: Trigger) {
        // A task that has ended needs no new configuration.
        let _ = self.commands.send(Command::Reload { scope, trigger, allow_removals: false, reply: None }).await;
    }

    /// Waits until each Kubernetes cluster was read once, and each host name of a cluster was looked up once, for at most this time, and until
    /// the answers have what was found.
    pub async fn read_clusters(&self, limit: Duration) {
        let begun = Instant::now();
        let reload = async |trigger| {
            let (scope, allow_removals) = (ReloadScope::Objects, false);
            // A task that has ended answers nothing.
            let _ = self.ask(|reply| Command::Reload { scope, trigger, allow_removals, reply: Some(reply) }).await;
        };
        if self.shared.probes.sources.first_read(limit).await {
            reload(Trigger::Kubernetes).await;
        }
        if self.shared.probes.hosts.first_look_up(limit.saturating_sub(begun.elapsed())).await {
            reload(Trigger::Hosts).await;
        }
    }

    /// Adds a pushed report of a cluster's load. Returns the report that is in effect.
    pub async fn push_load(&self, cluster: &str, push: PushedLoad) -> Result<Option<SourceLoad>, ControlError> {
        let loads = &self.shared.probes.loads;
        loads.push(cluster, push).map_err(|error| match error {
            PushError::Unknown(..) => ControlError::NoSuchCluster(error.to_string()),
            PushError::NoCapacity(_) | PushError::Sequence { .. } => ControlError::LoadRefused(error.to_string()),
        })?;
        let (states, _) = loads.states();
        let state = states.into_iter().find(|state| state.cluster.as_str() == cluster);
        Ok(state.and_then(|state| state.sources.into_iter().next()))
    }

    /// Returns a receiver of all later health transitions, sent once the answers follow them. A receiver that is more than 1,024
    /// transitions behind loses the oldest.
    pub fn transitions(&self) -> broadcast::Receiver<AppliedTransition> {
        self.shared.probes.transitions.subscribe()
    }

    /// Drains and stops the server.
    pub fn stop(&self) {
        self.stop_for(Stopping::Command);
    }

    /// Drains and stops the server. The first of several reasons counts.
    pub fn stop_for(&self, reason: Stopping) {
        let stopping = &self.shared.lifecycle.stopping;
        stopping.send_if_modified(|before| before.is_none() && before.replace(reason).is_none());
    }

    /// Answers one query from the current state, with every step towards the answer.
    pub async fn explain(
        &self,
        name: &Name,
        rtype: Rtype,
        client: Option<Network>,
    ) -> Result<ExplainedNow, ControlError> {
        let states = self.shared.probes.checker.states().await;
        let causes: HashMap<_, _> = states.into_iter().filter_map(|s| Some((s.target, s.last_cause?))).collect();
        let (current, plans) = (self.shared.serving.load(), self.shared.balance.plans.load_full());
        let name = name.clone();
        let explain = move || {
            let explained = fairway_zones::explain(&current, &name, rtype, client);
            let published = Arc::clone(&current.published);
            ExplainedNow { explained, serving: Arc::new(current.serving.clone()), causes, published, plans }
        };
        tokio::task::spawn_blocking(explain).await.map_err(|_| ControlError::Stopped)
    }

    /// Returns the readiness of the server.
    pub fn readiness(&self) -> Readiness {
        *self.shared.lifecycle.readiness.borrow()
    }

    /// Returns true if the control task runs.
    pub fn is_running(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Returns the state that the control task publishes.
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until all earlier health transitions are in the answers.
    pub async fn settle(&self) {
        // A task that has ended changes no answer any more.
        let _ = self.ask(Command::Settle).await;
    }

    pub(crate) async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| ControlError::Stopped)?;
        answer.await.map_err(|_| ControlError::Stopped)
    }
}
