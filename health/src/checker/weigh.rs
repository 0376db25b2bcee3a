//! Turns the finding of a probe into an observation, given the state of the probe host.

use std::time::Duration;

use fairway_model::{Cause, Observation};
use tokio::time::Instant;

use super::table::{Key, Slot};
use crate::{
    observer::{Reach, tolerance},
    probe::Finding,
};

/// The report of a finished probe.
#[derive(Debug)]
pub(super) struct Report {
    /// Its due time.
    pub(super) due: Instant,
    /// Its start.
    pub(super) started: Instant,
    /// Its end.
    pub(super) ended: Instant,
    /// Time that this process was stalled meanwhile.
    pub(super) stalled_for: Duration,
    /// The finding.
    pub(super) finding: Finding,
}

/// Returns the observation that a report gives: a failure is inconclusive if this host may have caused it.
pub(super) fn weigh(slot: &mut Slot, key: Key, reach: &mut Reach<Key>, report: Report) -> Observation {
    let took = report.ended - report.started;
    let timeout = slot.monitor().timeout;
    // The time by which a probe exceeded its timeout was a stall of this process, too.
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
            Observation::Inconclusive(Cause(format!("{cause}, while this process was stalled for {lost:?}")))
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
    /// Returns the report of a probe whose task panicked.
    pub(super) fn broken(now: Instant) -> Self {
        let finding = Finding::Unsure(Cause::new("the probe crashed; please report this as a bug"));
        Self { due: now, started: now, ended: now, stalled_for: Duration::ZERO, finding }
    }
}
