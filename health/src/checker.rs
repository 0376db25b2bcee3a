//! The loop around schedule, probe and evaluator, and its handle.
//!
//! One task owns the state of all targets (`table`), starts probes and evaluates their results (`task`). It sends health
//! transitions through a bounded channel and never waits for the reader (`outbox`). The handle sends commands to the task;
//! there is no lock between them.

mod observation;
mod outbox;
mod sockets;
mod table;
mod task;
mod totals;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, SystemTime},
};

use fairway_model::{Cause, HealthStatus, Target};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

pub use self::totals::ProbeTotals;
use self::{
    table::NewTarget,
    task::{CheckerCommand, CheckerTask},
};
use crate::{
    fence::Fence,
    probe::{self, PreparedMonitors},
};

/// A target to check.
#[derive(Clone, Debug)]
pub struct DeclaredTarget {
    /// The target.
    pub target: Target,
    /// Factor of the monitor's period, at least 1: larger if the tenant that declares it has too many targets.
    pub stretch: u32,
}

impl From<Target> for DeclaredTarget {
    fn from(target: Target) -> Self {
        Self { target, stretch: 1 }
    }
}

/// A change of a target's health status. If the reader is slow, several changes of a target become one, from the oldest
/// status to the newest.
#[derive(Clone, Debug)]
pub struct HealthTransition {
    /// The target.
    pub target: Target,
    /// The previous status.
    pub from: HealthStatus,
    /// The new status.
    pub to: HealthStatus,
    /// The cause.
    pub cause: Cause,
    /// The time of the change.
    pub at: SystemTime,
    /// False if the target is not probed since this server may not connect to it. A change of this alone is a transition, too.
    pub is_allowed: bool,
}

/// One entry of a target's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The time of the change.
    pub at: SystemTime,
    /// The new status.
    pub to: HealthStatus,
    /// The cause.
    pub cause: Cause,
}

/// The state of one target.
#[derive(Clone, Debug)]
pub struct TargetState {
    /// The target.
    pub target: Target,
    /// The health status.
    pub status: HealthStatus,
    /// The time of the last change of the status.
    pub since: SystemTime,
    /// Consecutive passes or failures, including the last probe.
    pub streak: u8,
    /// Cause of the last failed or inconclusive probe; `None` if the last probe passed or none ran.
    pub last_cause: Option<Cause>,
    /// Duration of the last conclusive probe.
    pub last_duration: Option<Duration>,
    /// End of the last conclusive probe.
    pub last_probe: Option<SystemTime>,
    /// Number of probes that passed since the target was added.
    pub passes: u64,
    /// Number of probes that failed.
    pub failures: u64,
    /// Number of inconclusive probes: those that failed because of the probe host.
    pub inconclusive: u64,
    /// The last changes, oldest first; at most 16.
    pub history: Vec<HistoryEntry>,
}

/// The state of a target before a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredState {
    /// The status.
    pub status: HealthStatus,
    /// The time of its last change.
    pub since: SystemTime,
    /// The last changes, oldest first.
    pub history: Vec<HistoryEntry>,
    /// The time at which the record was written. The status is restored if that is at most 60 s or three periods ago,
    /// whichever is longer. Otherwise (or if it is in the future, because the clock was stepped) the status becomes
    /// `unknown`; the history is restored in any case.
    pub written: SystemTime,
}

/// The state of the probe host and of the checker itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observer {
    /// Number of running probes, which is the number of sockets in use.
    pub probes_running: usize,
    /// Number of due probes that wait for a socket. If it stays above 0, `sockets_max` is too small for the targets that hang.
    pub probes_waiting: usize,
    /// Number of transitions that wait until the reader of the channel has read others.
    pub transitions_waiting: usize,
    /// Number of times that the process was stalled (starved, stopped, its runtime blocked) for 5 ms or more.
    pub stalls: u64,
    /// Total duration of these stalls. A probe during a stall counts only if it passed.
    pub stalled_for: Duration,
    /// Results of all probes.
    pub totals: ProbeTotals,
}

/// The handle of the checking task. Dropping it ends the task and the running probes.
pub struct Checker {
    commands: mpsc::Sender<CheckerCommand>,
    /// Number of targets whose status is pending or unknown.
    unevaluated: watch::Receiver<usize>,
    /// Locked while targets change, so that changes do not overlap.
    monitors: Mutex<PreparedMonitors>,
}

impl Checker {
    /// Starts the checking task on the current runtime. Transitions are sent to `transitions`. While that channel is full, they
    /// are merged per target, and the latest status of each is sent as soon as there is space. `fence` is asked before each
    /// connection.
    ///
    /// At most `sockets_max` probe sockets are open. Keep it below the process's limit of open files. 1,024 sockets allow 256 probes
    /// per second even if all of them run into the default timeout of 4 s.
    ///
    /// The runtime must not be blocked by other tasks: a stall makes probes inconclusive.
    pub fn start(sockets_max: usize, transitions: mpsc::Sender<HealthTransition>, fence: Arc<Fence>) -> Self {
        let probe = move |monitor, address| probe::probe(monitor, address, Arc::clone(&fence));
        Self::start_with(sockets_max, transitions, RandomState::new().hash_one(0), probe)
    }

    /// Sets the targets: known ones keep their state, new ones start (from `restored`, if it has them), others are removed.
    /// Returns when the change is in effect.
    ///
    /// New targets are probed soon, at 5,000 per second and within their period; targets with a restored status at a random
    /// time within a period. A restored status causes no transition: read it from [`states`](Self::states).
    pub async fn set_targets(&self, targets: Vec<impl Into<DeclaredTarget>>, restored: Vec<(Target, RestoredState)>) {
        let mut monitors = self.monitors.lock().await;
        let entries = entries(&mut monitors, targets.into_iter().map(Into::into).collect(), restored);
        let (done, wait) = oneshot::channel();
        if self.commands.send(CheckerCommand::SetTargets(entries, done)).await.is_ok() {
            // An error means that the task ended with its runtime: nothing is checked any more.
            let _ = wait.await;
        }
    }

    /// Waits until every target is up or down, for at most `limit`; returns the number of those still pending or unknown.
    pub async fn first_round(&self, limit: Duration) -> usize {
        let mut unevaluated = self.unevaluated.clone();
        let all = unevaluated.wait_for(|count| *count == 0);
        // After a timeout or the end of the task, the count is the result, too.
        let _ = tokio::time::timeout(limit, all).await.map(|result| result.map(|_| ()));
        *self.unevaluated.borrow()
    }

    /// Returns the state of every target, in the order they were set; equal targets once.
    ///
    /// The states are copied in pieces, between which checking continues, so they may be some milliseconds apart.
    pub async fn states(&self) -> Vec<TargetState> {
        let mut states = Vec::new();
        let mut epoch = None;
        loop {
            let (reply, answer) = oneshot::channel();
            if self.commands.send(CheckerCommand::States { from: states.len(), reply }).await.is_err() {
                return states;
            }
            let Ok(piece) = answer.await else { return states };
            if epoch.is_some_and(|epoch| epoch != piece.epoch) {
                // The targets changed meanwhile, so the copy starts again.
                states.clear();
                epoch = None;
                continue;
            }
            epoch = Some(piece.epoch);
            states.extend(piece.states);
            if piece.last {
                return states;
            }
        }
    }

    /// Returns the state of the probe host and of the checker itself.
    pub async fn observer(&self) -> Observer {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(CheckerCommand::Observer(reply)).await.is_err() {
            return Observer::default();
        }
        answer.await.unwrap_or_default()
    }

    /// Starts with a given seed of the jitter and a given probe function.
    fn start_with<P: task::Probe>(
        sockets_max: usize,
        transitions: mpsc::Sender<HealthTransition>,
        seed: u64,
        probe: P,
    ) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (left, unevaluated) = watch::channel(0);
        tokio::spawn(CheckerTask::new(sockets_max, transitions, left, seed, probe).run(inbox));
        Self { commands, unevaluated, monitors: Mutex::new(PreparedMonitors::new()) }
    }
}

/// Adds the prepared monitor and the restored state to each target.
fn entries(
    monitors: &mut PreparedMonitors,
    targets: Vec<DeclaredTarget>,
    restored: Vec<(Target, RestoredState)>,
) -> Vec<NewTarget> {
    let (targets, stretches): (Vec<_>, Vec<_>) =
        targets.into_iter().map(|DeclaredTarget { target, stretch }| (target, stretch)).unzip();
    let prepared = monitors.prepare(&targets);
    let mut known: HashMap<_, _> = restored
        .into_iter()
        .filter_map(|(target, restored)| {
            let prepared = monitors.find(&target.monitor)?;
            Some(((target.address, Arc::as_ptr(prepared)), restored))
        })
        .collect();
    let entry = |((target, monitor), stretch): ((Target, Arc<_>), u32)| {
        let restored = known.remove(&(target.address.clone(), Arc::as_ptr(&monitor)));
        NewTarget { target, stretch, prepared: monitor, restored }
    };
    targets.into_iter().zip(prepared).zip(stretches).map(entry).collect()
}

/// Largest number of queued commands; further callers wait.
const COMMANDS_MAX: usize = 16;

#[cfg(test)]
mod tests;
