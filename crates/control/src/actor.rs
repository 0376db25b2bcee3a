//! The control task. It alone changes the serving state: events and commands come in, new states and state files go out.
//!
//! While it waits for the disk, the health checker or a compilation, it goes on applying health transitions (`during`). So nothing slow
//! delays the answers.

use std::{collections::HashMap, future::Future, ops::ControlFlow, sync::Arc, time::Duration};

use fairway_config::Settings;
use fairway_health::{HealthTransition, load::LoadUpdate};
use fairway_model::Target;
use fairway_telemetry::logs::Logs;
use tokio::{
    sync::{broadcast, mpsc},
    time::{Interval, MissedTickBehavior, interval},
};

use super::{
    answers::AnswerCounts,
    command::Command,
    drains::DrainWatch,
    dry_run::DryRuns,
    lifecycle::Clock,
    reload_queue::ReloadQueue,
    reloads::{ReloadScope, Trigger},
    runtime::{DepartedTargets, Event, RuntimeInputs},
    served::{DeferredDrops, Published},
    shared::Shared,
    state_writer::StateWriter,
    tenant_probes::OverLimit,
};

/// The control task.
pub struct Actor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) transitions: mpsc::Receiver<HealthTransition>,
    /// Health transitions that were received and not applied yet.
    pub(crate) waiting: Vec<HealthTransition>,
    pub(crate) load_updates: broadcast::Receiver<LoadUpdate>,
    pub(crate) reloads: ReloadQueue,
    /// Settings that the process started with: some of them need a restart to change.
    pub(crate) started: Settings,
    pub(crate) dry_runs: Arc<DryRuns>,
    /// Inputs of the runtime state.
    pub(crate) inputs: RuntimeInputs,
    /// Targets that a probe found to be denied, with the reasons.
    pub(crate) denied: HashMap<Target, String>,
    /// Tenants with too many probes.
    pub(crate) over_limit: OverLimit,
    pub(crate) answers: AnswerCounts,
    pub(crate) departed: DepartedTargets,
    pub(crate) drains: DrainWatch,
    pub(crate) writer: StateWriter,
    pub(crate) deferred: DeferredDrops,
    pub(crate) clock: Clock,
    pub(crate) logs: Option<Logs>,
}

impl Actor {
    /// Runs until [`Command::End`], or until every handle is dropped.
    pub async fn run(mut self) {
        let (mut tick, mut demand_tick) = (ticks(TICK), ticks(DEMAND_TICK));
        let (mut host_changes, mut found_changes) =
            (self.shared.probes.hosts.addresses(), self.shared.probes.sources.found());
        loop {
            tokio::select! {
                biased;
                _ = self.transitions.recv_many(&mut self.waiting, FOLD_MAX), if !self.transitions.is_closed() => self.apply_transitions(),
                reading = self.reloads.ended() => self.finish_reload(reading).await,
                command = self.commands.recv() => {
                    let Some(command) = command else { break };
                    if self.execute(command).await == ControlFlow::Break(()) {
                        break;
                    }
                }
                _ = tick.tick() => self.tick().await,
                Ok(()) = host_changes.changed() => self.follow_host_changes(),
                Ok(()) = found_changes.changed() => self.follow_found_changes(),
                update = self.load_updates.recv() => self.add_load(update),
                _ = demand_tick.tick(), if self.inputs.balance.runs() => self.apply(Event::Demand),
            }
        }
        self.write_last_state().await;
    }

    /// Executes a command. Breaks after [`Command::End`]. Replies to callers that have gone are dropped.
    pub(crate) async fn execute(&mut self, command: Command) -> ControlFlow<()> {
        match command {
            Command::Reload { scope, trigger, allow_removals, reply } => {
                self.request_reload(scope, trigger, allow_removals, reply)
            }
            Command::AddOverride(request, reply) => drop(reply.send(self.add_override(*request).await)),
            Command::RemoveOverride(id, reply) => drop(reply.send(self.remove_override(&id).await)),
            Command::DryRun(request, reply) => self.dry_runs.start(*request, reply),
            Command::Adopt(folder) => self.adopt(folder),
            Command::Leadership(leadership) => self.follow_leader(&leadership),
            // Health transitions are received before commands, so none is left.
            Command::Settle(reply) => drop(reply.send(())),
            Command::End => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Waits for `work`. Applies health transitions and schedules meanwhile.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut tick = ticks(TICK);
        loop {
            tokio::select! {
                biased;
                _ = self.transitions.recv_many(&mut self.waiting, FOLD_MAX), if !self.transitions.is_closed() => self.apply_transitions(),
                done = &mut work => return done,
                _ = tick.tick() => self.apply(Event::Second),
            }
        }
    }

    /// Runs the tasks that are due once a second.
    async fn tick(&mut self) {
        self.expire_exhausted();
        self.apply(Event::Second);
        self.expire_overrides().await;
        self.end_take_overs();
        self.writer.tick(&self.shared).await;
        self.publish_answers();
        self.deferred.free_unused();
    }

    /// Requests a reload with the addresses that host names have now, and has them written.
    fn follow_host_changes(&mut self) {
        self.writer.is_hosts_due = true;
        self.request_reload(ReloadScope::Objects, Trigger::Hosts, false, None);
    }

    /// Requests a reload with what Kubernetes clusters have now, and has it written.
    fn follow_found_changes(&mut self) {
        self.writer.is_found_due = true;
        self.request_reload(ReloadScope::Objects, Trigger::Kubernetes, false, None);
    }

    /// Requests a reload once a name that changes hands no longer waits.
    fn end_take_overs(&mut self) {
        let now = (self.clock)();
        let published = self.shared.serving.published();
        if published.configured.merged.take_overs.values().any(|until| *until <= now) {
            self.request_reload(ReloadScope::Objects, Trigger::Api, false, None);
        }
    }

    /// Writes the last state of targets and balancing, and waits for it.
    async fn write_last_state(&mut self) {
        let shared = Arc::clone(&self.shared);
        let states = self.during(async move { shared.probes.checker.states().await }).await;
        let shared = Arc::clone(&self.shared);
        let balance = self.inputs.balance.keep((self.clock)());
        self.writer.write_last(&shared, states, balance).await;
    }

    /// Changes what is published about the serving state.
    pub(crate) fn publish(&mut self, change: impl FnOnce(&mut Published)) {
        let current = self.shared.serving.load();
        let mut published = Published::clone(&current.published);
        change(&mut published);
        self.deferred.push(self.shared.serving.swap(current.serving.clone(), Arc::new(published)));
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Period of schedules, expiries, state files and deferred drops, which bounds their delay.
const TICK: Duration = Duration::from_secs(1);
/// Sampling period of the demand. It bounds the precision of cache lifetimes and of the ends of drains. Until then, samples wait in rings
/// of 4,096 a worker.
const DEMAND_TICK: Duration = Duration::from_millis(50);
/// Maximum number of health transitions that are folded into one runtime state.
const FOLD_MAX: usize = 4096;
