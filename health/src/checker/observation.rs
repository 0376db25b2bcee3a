//! Converts the result of a probe to an observation, taking the state of the probe host into account.

use std::time::Duration;

use fairway_model::{Cause, Observation};
use tokio::time::Instant;

use super::table::{CheckedTarget, TargetKey};
use crate::{
    observer::{ReachedTargets, tolerance},
    probe::ProbeResult,
};

/// The report of a finished probe.
#[derive(Debug)]
pub(super) struct ProbeReport {
    /// Its due time.
    pub(super) due: Instant,
    /// Its start.
    pub(super) started: Instant,
    /// Its end.
    pub(super) ended: Instant,
    /// Time that this process was stalled meanwhile.
    pub(super) stalled_for: Duration,
    /// The result.
    pub(super) result: ProbeResult,
}

/// Returns the observation that a report gives: a failure is inconclusive if this host may have caused it.
pub(super) fn observe_report(
    slot: &mut CheckedTarget,
    key: TargetKey,
    reach: &mut ReachedTargets<TargetKey>,
    report: ProbeReport,
) -> Observation {
    let took = report.ended - report.started;
    let timeout = slot.monitor().timeout;
    // The time by which a probe exceeded its timeout was a stall of this process, too.
    let lost = report.stalled_for.max(took.saturating_sub(timeout));
    let no_route = match &report.result {
        ProbeResult::Unreachable(..) => Some(*slot.unreachable_since.get_or_insert(report.started)),
        _ => None,
    };
    slot.unreachable_since = no_route;
    let was_reached = matches!(&report.result, ProbeResult::Pass | ProbeResult::Fail { reached: true, .. });
    if let Some(family) = slot.network().filter(|_| was_reached) {
        reach.note(family, key, report.ended);
    }
    match (report.result, no_route) {
        (ProbeResult::Pass, _) => Observation::Pass,
        (ProbeResult::Inconclusive(cause), _) => Observation::Inconclusive(cause),
        (ProbeResult::NotAllowed(denied), _) => Observation::Fail(Cause(denied.to_string())),
        (ProbeResult::Fail { cause, .. } | ProbeResult::Unreachable(_, cause), _) if lost > tolerance(timeout) => {
            let lost = Duration::from_millis(u64::try_from(lost.as_millis()).unwrap_or(u64::MAX));
            Observation::Inconclusive(Cause(format!("{cause}, while this process was stalled for {lost:?}")))
        }
        (ProbeResult::Fail { cause, .. }, _) => Observation::Fail(cause),
        (ProbeResult::Unreachable(family, cause), Some(since)) if reach.other_since(family, key, since) => {
            Observation::Fail(cause)
        }
        (ProbeResult::Unreachable(family, cause), _) => {
            Observation::Inconclusive(Cause(format!("{cause}, and no other {family} target was reached since")))
        }
    }
}

impl ProbeReport {
    /// Returns the report of a probe whose task panicked.
    pub(super) fn broken(now: Instant) -> Self {
        let result = ProbeResult::Inconclusive(Cause::new("the probe crashed; please report this as a bug"));
        Self { due: now, started: now, ended: now, stalled_for: Duration::ZERO, result }
    }
}
