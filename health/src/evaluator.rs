//! Evaluates the observations of a target to its health status. Pure: no clock, no network.
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
//! A failure between passes, or a pass between failures, restarts the count. An inconclusive observation neither counts nor
//! restarts it. Operator overrides are not known here.

use std::time::Duration;

use fairway_model::{HealthStatus, Monitor, Observation};

/// The evaluator of one target.
#[derive(Clone, Copy, Debug)]
pub struct Evaluator {
    status: HealthStatus,
    /// True if the observations counted in `streak` passed.
    passing: bool,
    /// Consecutive equal conclusive observations; stops at 255.
    streak: u8,
}

impl Evaluator {
    /// Returns an evaluator with this status and no observation.
    pub const fn new(status: HealthStatus) -> Self {
        Self { status, passing: false, streak: 0 }
    }

    /// Returns the health status.
    pub const fn status(&self) -> HealthStatus {
        self.status
    }

    /// Returns the number of consecutive passes or failures.
    pub(crate) const fn streak(&self) -> u8 {
        self.streak
    }

    /// Returns true if the status is up or down, and so based on evidence.
    pub(crate) const fn is_evaluated(&self) -> bool {
        matches!(self.status, HealthStatus::Up | HealthStatus::Down)
    }

    /// Counts one observation; returns the new status if it changed.
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

    /// Expires the status if no probe has been conclusive for longer than [`stale_after`]; `age` is the age of the last
    /// evidence. Returns the new status if it changed.
    pub(crate) fn expire(&mut self, age: Duration, monitor: &Monitor) -> Option<HealthStatus> {
        if !self.is_evaluated() || age <= stale_after(monitor) {
            return None;
        }
        self.streak = 0;
        self.change(HealthStatus::Unknown)
    }

    /// Returns true if the last conclusive probe failed; without one, if the status is down.
    pub(crate) const fn is_failing(&self) -> bool {
        match self.streak {
            0 => matches!(self.status, HealthStatus::Down),
            _ => !self.passing,
        }
    }

    /// Returns true if the next probe should follow at once: after a first failure, or after the first evidence about a target
    /// of unknown status. A target that is down recovers at its regular period.
    pub const fn is_wavering(&self) -> bool {
        match self.status {
            HealthStatus::Up | HealthStatus::Pending => self.streak > 0 && !self.passing,
            HealthStatus::Unknown => self.streak > 0,
            HealthStatus::Down => false,
        }
    }

    /// Changes the status; returns it if it differs from the previous one.
    fn change(&mut self, to: HealthStatus) -> Option<HealthStatus> {
        (std::mem::replace(&mut self.status, to) != to).then_some(to)
    }
}

/// Returns how long a status lasts without evidence: three periods and a timeout, so that two lost probes do not expire it.
pub(crate) const fn stale_after(monitor: &Monitor) -> Duration {
    monitor.period.saturating_mul(3).saturating_add(monitor.timeout)
}

#[cfg(test)]
mod tests;
