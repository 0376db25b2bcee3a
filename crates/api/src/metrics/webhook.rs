//! Metrics of the webhook for ExternalDNS.

use super::Sheet;
use fairway_control::{Published, Shared};
use fairway_providers::webhook_server::{ANSWER_LARGE, Call};

/// Writes the metrics of the webhook; none without one.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared, published: &Published) {
    if published.configured.settings.webhook.is_none() {
        return;
    }
    let Some((ledger, calls)) = shared.declarations.webhook.get() else { return };
    let counts = calls.counts();
    let labels = |(call, code): &(Call, u16)| [<&str>::from(call).to_owned(), code.to_string()];
    let rows = counts.ended.iter().map(|(key, took)| (labels(key), took.count));
    sheet.counters("fairway_webhook_calls_total", &["call", "code"], rows);
    let took = counts.ended.iter().map(|(key, took)| (labels(key), *took));
    sheet.durations("fairway_webhook_call_duration_seconds", &["call", "code"], took);
    sheet.counter("fairway_webhook_changes_total", counts.changed as u64);
    sheet.gauge("fairway_webhook_response_bytes", counts.answered as f64);
    sheet.gauge("fairway_webhook_response_large", f64::from(counts.answered > ANSWER_LARGE));
    let clients = published.configured.objects.contributed_rows();
    let rows = clients.iter().map(|(scope, endpoints)| ([scope.to_string()], endpoints.len() as f64));
    sheet.gauges("fairway_webhook_endpoints", &["path"], rows);
    let held = clients.iter().map(|(scope, rows)| {
        let held = rows.iter().filter(|row| row.row.held.is_some());
        ([scope.to_string()], held.count() as f64)
    });
    sheet.gauges("fairway_withdrawals_held_endpoints", &["path"], held);
    let released = ledger.releases.by_cause().into_iter();
    let rows = released.map(|(cause, count)| ([<&str>::from(cause).to_owned()], count));
    sheet.counters("fairway_withdrawals_released_endpoints_total", &["cause"], rows);
    let warnings = published.configured.merged.contributed.warnings_len();
    sheet.gauge("fairway_webhook_warnings", warnings as f64);
}
