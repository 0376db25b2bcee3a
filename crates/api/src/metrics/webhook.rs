//! Metrics of the webhook for ExternalDNS.

use std::collections::BTreeMap;

use super::Sheet;
use fairway_control::{Published, Shared};

/// Writes the metrics of the webhook; none without one.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared, published: &Published) {
    if published.configured.settings.webhook.is_none() {
        return;
    }
    let Some((_, calls)) = shared.declarations.webhook.get() else { return };
    let ended = calls.ended();
    let labels =
        |(call, code): &(fairway_providers::webhook_server::Call, u16)| [call.word().to_owned(), code.to_string()];
    sheet.counters(
        "fairway_webhook_calls_total",
        "Completed webhook calls by call and status.",
        &["call", "code"],
        ended.iter().map(|(key, totals)| (labels(key), totals.count)),
    );
    let took = ended.values().map(|totals| totals.took.as_secs_f64()).sum();
    sheet.seconds("fairway_webhook_call_duration_seconds_total", "Total duration of webhook calls.", took);
    let changed = calls.changed();
    sheet.counter(
        "fairway_webhook_changes_total",
        "Endpoints created, changed or deleted by webhook clients.",
        changed,
    );
    let answered = calls.answered() as f64;
    sheet.gauge("fairway_webhook_response_bytes", "Size of the last response with all records of a client.", answered);
    let large = f64::from(calls.is_large());
    sheet.gauge(
        "fairway_webhook_response_large",
        "1 if the last response was over 30 MiB; clients read at most 32 MiB.",
        large,
    );
    let mut rows: BTreeMap<[String; 1], f64> = BTreeMap::new();
    for (scope, own) in published.configured.objects.contributed_rows() {
        rows.insert([scope.to_string()], own.len() as f64);
    }
    sheet.gauges("fairway_webhook_endpoints", "Stored endpoints by base path.", &["path"], rows);
    let conditions = published.configured.merged.contributed.warnings_len() as f64;
    sheet.gauge(
        "fairway_webhook_warnings",
        "Warnings about stored endpoints: rejected or suspicious ones.",
        conditions,
    );
}
