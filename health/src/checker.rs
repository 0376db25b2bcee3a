//! The loop around schedule, probe and judge: its handle, and what it tells.
//!
//! One task owns everything known of all targets (`table`), starts probes and weighs their findings (`round`), and
//! sends flips through a bounded channel without ever waiting for its reader (`outbox`). The handle talks to it by
//! commands; there is no lock between them.

mod outbox;
mod round;
mod sockets;
mod table;
mod totals;
mod weigh;

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, SystemTime},
};

use fairway_model::{Cause, HealthStatus, Target};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

pub use self::totals::Totals;
use self::{
    round::{Command, Round},
    table::Entry,
};
use crate::probe::{self, Workshop};

/// Bounds of a checker.
#[derive(Clone, Debug)]
pub struct CheckerSettings {
    /// Most probe sockets open at once; default 1024, at least 1. Keep it below the process's limit of open files.
    pub sockets_max: usize,
}

impl Default for CheckerSettings {
    fn default() -> Self {
        Self { sockets_max: 1024 }
    }
}

/// A verdict that changed. Where the reader was slow, several changes of one target in one: from the oldest to the newest.
#[derive(Clone, Debug)]
pub struct HealthTransition {
    /// Whose.
    pub target: Target,
    /// What it was.
    pub from: HealthStatus,
    /// What it is.
    pub to: HealthStatus,
    /// Why.
    pub cause: Cause,
    /// When.
    pub at: SystemTime,
}

/// One line of a target's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// When the verdict changed.
    pub at: SystemTime,
    /// To what.
    pub to: HealthStatus,
    /// Why.
    pub cause: Cause,
}

/// What is known of one target now.
#[derive(Clone, Debug)]
pub struct TargetState {
    /// The target.
    pub target: Target,
    /// The verdict in force.
    pub status: HealthStatus,
    /// Since when.
    pub since: SystemTime,
    /// Passes or failures in a row, ending with the last probe.
    pub streak: u8,
    /// The last probe's cause, also of one that told nothing; none if it passed or none ran.
    pub last_cause: Option<Cause>,
    /// How long the last conclusive probe took.
    pub last_duration: Option<Duration>,
    /// When the last conclusive probe ended.
    pub last_probe: Option<SystemTime>,
    /// Conclusive probes that passed, since the target is known.
    pub passes: u64,
    /// Conclusive probes that failed.
    pub failures: u64,
    /// Probes that told nothing: the observer's own fault.
    pub inconclusive: u64,
    /// The last changes, oldest first, at most 16.
    pub history: Vec<HistoryEntry>,
}

/// What was known of a target before a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The verdict then.
    pub status: HealthStatus,
    /// Since when it had held.
    pub since: SystemTime,
    /// The last changes, oldest first.
    pub history: Vec<HistoryEntry>,
    /// When the record was written. Within 60 s, or three periods where that is longer, the verdict holds; an older
    /// one (or one from the future: the clock was stepped) restores `unknown` instead, and the history.
    pub written: SystemTime,
}

/// What the checker knows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observer {
    /// Probes running now, a socket each.
    pub probes_running: usize,
    /// Probes that are due and wait for a socket. Lasting: `sockets_max` is too small for the targets that hang.
    pub probes_waiting: usize,
    /// Flips that the reader of the channel has not made room for.
    pub transitions_waiting: usize,
    /// How often the process was held up (starved, stopped, its runtime blocked) for 5 ms or more.
    pub stalls: u64,
    /// For how long altogether. Probes that fell into it count only if they passed.
    pub stalled_for: Duration,
    /// What all probes came to.
    pub totals: Totals,
}

/// Handle of the checking task. Dropping it ends the task, and the probes that run.
pub struct Checker {
    commands: mpsc::Sender<Command>,
    /// Targets without a verdict.
    unevaluated: watch::Receiver<usize>,
    /// Held while targets change: one change at a time.
    workshop: Mutex<Workshop>,
}

impl Checker {
    /// Starts the checking task on the current runtime. Flips go to `transitions`, bounded by it: where it is full, they are
    /// joined per target, and the latest verdict of each arrives as soon as there is room.
    ///
    /// Give it a runtime that nothing blocks: what holds the runtime up makes probes tell nothing.
    pub fn start(settings: CheckerSettings, transitions: mpsc::Sender<HealthTransition>) -> Self {
        Self::start_with(&settings, transitions, RandomState::new().hash_one(0), probe::probe)
    }

    /// Makes exactly these targets checked: equal ones keep their state, new ones start (from `restored`, where it knows
    /// them), others end. Returns when the change is in force.
    ///
    /// New targets are probed once soon, 5,000 a second and at most within their period; restored ones with a verdict
    /// that holds at an even chance within a period. A restored verdict is no flip: it is in [`states`](Self::states).
    pub async fn set_targets(&self, targets: Vec<Target>, restored: Vec<(Target, Restored)>) {
        let mut workshop = self.workshop.lock().await;
        let entries = entries(&mut workshop, targets, restored);
        let (done, wait) = oneshot::channel();
        if self.commands.send(Command::Set(entries, done)).await.is_ok() {
            // An error means that the task ended with its runtime: nothing is checked any more.
            let _ = wait.await;
        }
    }

    /// Waits until every target is judged up or down, at most `limit`; returns how many are still pending or unknown.
    pub async fn first_round(&self, limit: Duration) -> usize {
        let mut unevaluated = self.unevaluated.clone();
        let all = unevaluated.wait_for(|count| *count == 0);
        // Either way the count says what is left.
        let _ = tokio::time::timeout(limit, all).await.map(|result| result.map(|_| ()));
        *self.unevaluated.borrow()
    }

    /// What is known of every target, in the order they were set; equal ones once.
    ///
    /// Copied in pieces, between which checking goes on: states of different targets may be some milliseconds apart.
    pub async fn states(&self) -> Vec<TargetState> {
        let mut states = Vec::new();
        let mut epoch = None;
        loop {
            let (reply, answer) = oneshot::channel();
            if self.commands.send(Command::States { from: states.len(), reply }).await.is_err() {
                return states;
            }
            let Ok(piece) = answer.await else { return states };
            if epoch.is_some_and(|epoch| epoch != piece.epoch) {
                // The targets were changed meanwhile: from the beginning.
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

    /// What the checker knows of itself.
    pub async fn observer(&self) -> Observer {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(Command::Observer(reply)).await.is_err() {
            return Observer::default();
        }
        answer.await.unwrap_or_default()
    }

    /// Starts with a given seed of jitter and a given way to probe.
    fn start_with<P: round::Probe>(
        settings: &CheckerSettings,
        transitions: mpsc::Sender<HealthTransition>,
        seed: u64,
        probe: P,
    ) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (left, unevaluated) = watch::channel(0);
        tokio::spawn(Round::new(settings.sockets_max, transitions, left, seed, probe).run(inbox));
        Self { commands, unevaluated, workshop: Mutex::new(Workshop::new()) }
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker").field("unjudged", &*self.unevaluated.borrow()).finish_non_exhaustive()
    }
}

/// Joins targets with the work their monitors were prepared to, and with what is remembered of them.
fn entries(workshop: &mut Workshop, targets: Vec<Target>, restored: Vec<(Target, Restored)>) -> Vec<Entry> {
    let prepared = workshop.prepare(&targets);
    let mut known: HashMap<_, _> = restored
        .into_iter()
        .filter_map(|(target, restored)| {
            let prepared = workshop.find(&target.monitor)?;
            Some(((target.address, Arc::as_ptr(prepared)), restored))
        })
        .collect();
    let join = |(target, work): (Target, Arc<_>)| {
        let restored = known.remove(&(target.address.clone(), Arc::as_ptr(&work)));
        Entry { target, work, restored }
    };
    targets.into_iter().zip(prepared).map(join).collect()
}

/// Commands that wait for the task; further callers wait.
const COMMANDS_MAX: usize = 16;

#[cfg(test)]
mod tests;
