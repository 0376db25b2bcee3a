//! What a probe's finding is worth as evidence, given what the observer knows of itself.

use std::time::Duration;

use fairway_model::{Cause, Observation};
use tokio::time::Instant;

use super::table::{Key, Slot};
use crate::{
    observer::{Reach, tolerance},
    probe::Finding,
};

/// A probe that ended.
#[derive(Debug)]
pub(super) struct Report {
    /// When it was due.
    pub(super) due: Instant,
    /// When it started.
    pub(super) started: Instant,
    /// When it ended.
    pub(super) ended: Instant,
    /// Time that the observer lost meanwhile.
    pub(super) stalled_for: Duration,
    /// What it found.
    pub(super) finding: Finding,
}

/// What a finding is worth, given what the observer knows of itself.
pub(super) fn weigh(slot: &mut Slot, key: Key, reach: &mut Reach<Key>, report: Report) -> Observation {
    let took = report.ended - report.started;
    let timeout = slot.monitor().timeout;
    // What a probe took beyond its timeout was lost to the observer too.
    let lost = report.stalled_for.max(took.saturating_sub(timeout));
    let no_route = match &report.finding {
        Finding::Unreachable(..) => Some(*slot.unreachable_since.get_or_insert(report.started)),
        _ => None,
    };
    slot.unreachable_since = no_route;
    let heard = matches!(&report.finding, Finding::Pass | Finding::Fail { reached: true, .. });
    if let Some(family) = slot.network().filter(|_| heard) {
        reach.note(family, key, report.ended);
    }
    match (report.finding, no_route) {
        (Finding::Pass, _) => Observation::Pass,
        (Finding::Unsure(cause), _) => Observation::Inconclusive(cause),
        (Finding::Fail { cause, .. } | Finding::Unreachable(_, cause), _) if lost > tolerance(timeout) => {
            let lost = Duration::from_millis(u64::try_from(lost.as_millis()).unwrap_or(u64::MAX));
            Observation::Inconclusive(Cause(format!("{cause}, while this process was held up for {lost:?}")))
        }
        (Finding::Fail { cause, .. }, _) => Observation::Fail(cause),
        (Finding::Unreachable(family, cause), Some(since)) if reach.other_since(family, key, since) => {
            Observation::Fail(cause)
        }
        (Finding::Unreachable(family, cause), _) => {
            Observation::Inconclusive(Cause(format!("{cause}, and no other {family} target was reached since")))
        }
    }
}

impl Report {
    /// Returns the report of a probe that gave none.
    pub(super) fn broken(now: Instant) -> Self {
        let finding = Finding::Unsure(Cause::new("probe broke off by a fault of its own; please report it"));
        Self { due: now, started: now, ended: now, stalled_for: Duration::ZERO, finding }
    }
}
