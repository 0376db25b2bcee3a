//! The loop around schedule, probe and judge.

use std::time::{Duration, SystemTime};

use fairway_model::{Cause, Target, Verdict};
use tokio::sync::mpsc;

/// Bounds of a checker.
#[derive(Clone, Debug)]
pub struct CheckerSettings {
    /// Most probe sockets open at once; default 1024.
    pub sockets_max: usize,
}

impl Default for CheckerSettings {
    fn default() -> Self {
        Self { sockets_max: 1024 }
    }
}

/// A verdict that changed.
#[derive(Clone, Debug)]
pub struct Flip {
    /// Whose.
    pub target: Target,
    /// What it was.
    pub from: Verdict,
    /// What it is.
    pub to: Verdict,
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
    pub to: Verdict,
    /// Why.
    pub cause: Cause,
}

/// What is known of one target now.
#[derive(Clone, Debug)]
pub struct TargetState {
    /// The target.
    pub target: Target,
    /// The verdict in force.
    pub verdict: Verdict,
    /// Since when.
    pub since: SystemTime,
    /// Passes or failures in a row, ending with the last probe.
    pub streak: u8,
    /// The last probe's cause; none if it passed or none ran.
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
#[derive(Clone, Debug)]
pub struct Restored {
    /// The verdict then.
    pub verdict: Verdict,
    /// Since when it had held.
    pub since: SystemTime,
    /// The last changes, oldest first.
    pub history: Vec<HistoryEntry>,
    /// When the record was written: an old one restores the history, and `unknown` instead of its verdict.
    pub written: SystemTime,
}

/// Handle of the checking task. Dropping it ends the task.
#[derive(Debug)]
pub struct Checker {}

impl Checker {
    /// Starts the checking task on the current runtime. Flips go to `flips`, bounded by it.
    pub fn start(settings: CheckerSettings, flips: mpsc::Sender<Flip>) -> Self {
        let _ = (settings, flips);
        Self {}
    }

    /// Makes exactly these targets checked: equal ones keep their state, new ones start (from `restored`, where it knows
    /// them), others end. Returns when the change is in force.
    pub async fn set_targets(&self, targets: Vec<Target>, restored: Vec<(Target, Restored)>) {
        let _ = (targets, restored);
    }

    /// Waits until every target has a verdict of its own, at most `limit`; returns how many still have none.
    pub async fn first_round(&self, limit: Duration) -> usize {
        let _ = limit;
        0
    }

    /// What is known of every target, in the order they were set.
    pub async fn states(&self) -> Vec<TargetState> {
        vec![]
    }
}
