//! Renders the outcome of a reload.

use fairway_api_types::state_wire::ReloadReport;
use fairway_control::reloads::ReloadOutcome;

/// Renders the outcome of a reload.
pub(crate) fn reload_report(outcome: &ReloadOutcome) -> ReloadReport {
    ReloadReport {
        trace: outcome.trace.to_string(),
        at: format!("{:.3}", outcome.at),
        trigger: <&str>::from(outcome.trigger).to_owned(),
        accepted: outcome.is_accepted(),
        generation: outcome.generation,
        duration_ms: u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
        changes: outcome.changes.clone(),
        errors: outcome.errors.clone(),
        warnings: outcome.warnings.clone(),
    }
}
