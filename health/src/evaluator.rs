//! From outcomes to a verdict. Pure: no clock, no network.
//!
//! ```text
//!              first pass                 fall failures in a row
//!   pending ───────────────▶ up ──────────────────────────────▶ down
//!      │                      ▲ ◀────────────────────────────── ▲ │
//!      │ fall failures        │       rise passes in a row      │ │
//!      └──────────────────────┼─────────────────────────────────┘ │
//!                             │ rise passes      fall failures ▲  │
//!                             └────────── unknown ─────────────┘  │
//!                        no evidence for 3 periods + timeout ◀────┘ (and from up)
//! ```
//! A failure between passes, or a pass between failures, restarts the count; an outcome that tells nothing neither
//! counts nor restarts. What operators force is not known here.

use std::time::Duration;

use fairway_model::{HealthStatus, Monitor, Observation};

/// The judgement of one target.
#[derive(Clone, Copy, Debug)]
pub struct Evaluator {
    status: HealthStatus,
    /// True if the outcomes counted in `streak` passed.
    passing: bool,
    /// Equal conclusive outcomes in a row; stops at 255.
    streak: u8,
}

impl Evaluator {
    /// Starts from a verdict, with no evidence of its own.
    pub const fn new(status: HealthStatus) -> Self {
        Self { status, passing: false, streak: 0 }
    }

    /// Returns the verdict in force.
    pub const fn status(&self) -> HealthStatus {
        self.status
    }

    /// Passes or failures in a row.
    pub(crate) const fn streak(&self) -> u8 {
        self.streak
    }

    /// Returns true if there is a verdict that evidence stands behind.
    pub(crate) const fn is_judged(&self) -> bool {
        matches!(self.status, HealthStatus::Up | HealthStatus::Down)
    }

    /// Counts one outcome; returns the new verdict if it changed.
    pub fn observe(&mut self, outcome: &Observation, monitor: &Monitor) -> Option<HealthStatus> {
        let passed = match outcome {
            Observation::Inconclusive(_) => return None,
            Observation::Pass => true,
            Observation::Fail(_) => false,
        };
        self.streak = if passed == self.passing { self.streak.saturating_add(1) } else { 1 };
        self.passing = passed;
        let enough = match (self.status, passed) {
            (HealthStatus::Pending, true) => 1,
            (_, true) => monitor.rise.max(1),
            (_, false) => monitor.fall.max(1),
        };
        if self.streak < enough {
            return None;
        }
        self.change(if passed { HealthStatus::Up } else { HealthStatus::Down })
    }

    /// Lets a verdict go whose last evidence is `age` old; returns the new verdict if it changed.
    pub(crate) fn age(&mut self, age: Duration, monitor: &Monitor) -> Option<HealthStatus> {
        if !self.is_judged() || age <= stale_after(monitor) {
            return None;
        }
        self.streak = 0;
        self.change(HealthStatus::Unknown)
    }

    /// Returns true if the last evidence was a failure, or would be if there was any.
    pub(crate) const fn is_failing(&self) -> bool {
        match self.streak {
            0 => matches!(self.status, HealthStatus::Down),
            _ => !self.passing,
        }
    }

    /// Returns true if the next probe should follow at once: a failure that may be a death, or any first evidence on a target
    /// whose verdict was lost. Recovery of a target that is down goes at the pace of the period.
    pub const fn is_wavering(&self) -> bool {
        match self.status {
            HealthStatus::Up | HealthStatus::Pending => self.streak > 0 && !self.passing,
            HealthStatus::Unknown => self.streak > 0,
            HealthStatus::Down => false,
        }
    }

    /// Takes the new verdict; none if it is the old one.
    fn change(&mut self, to: HealthStatus) -> Option<HealthStatus> {
        (std::mem::replace(&mut self.status, to) != to).then_some(to)
    }
}

/// How long a verdict holds without any evidence: three periods and a timeout.
pub(crate) const fn stale_after(monitor: &Monitor) -> Duration {
    monitor.period.saturating_mul(3).saturating_add(monitor.timeout)
}

#[cfg(test)]
mod tests;
