//! What ExternalDNS calls, and what it brings.

use std::collections::BTreeMap;

use super::Sheet;
use fairway_control::{Published, Shared};

/// Writes what concerns the webhook; nothing where there is none.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared, published: &Published) {
    if published.configured.settings.webhook.is_none() {
        return;
    }
    let Some((_, calls)) = shared.webhook.get() else { return };
    let ended = calls.ended();
    let labels =
        |(call, code): &(fairway_providers::webhook_server::Call, u16)| [call.word().to_owned(), code.to_string()];
    sheet.counters(
        "fairway_webhook_calls_total",
        "Calls of the webhook that ended, by call and status.",
        &["call", "code"],
        ended.iter().map(|(key, totals)| (labels(key), totals.count)),
    );
    let took = ended.values().map(|totals| totals.took.as_secs_f64()).sum();
    sheet.seconds("fairway_webhook_call_duration_seconds_total", "How long calls of the webhook took together.", took);
    let changed = calls.changed();
    sheet.counter("fairway_webhook_changes_total", "Endpoints that clients created, changed or deleted.", changed);
    let answered = calls.answered() as f64;
    sheet.gauge("fairway_webhook_answer_bytes", "Octets of the last answer with all records of a client.", answered);
    let large = f64::from(calls.is_large());
    sheet.gauge("fairway_webhook_answer_large", "1 if that is over 30 MiB; the client reads 32 MiB.", large);
    let mut rows: BTreeMap<[String; 1], f64> = BTreeMap::new();
    for (scope, own) in published.configured.objects.contributed_rows() {
        rows.insert([scope.to_string()], own.len() as f64);
    }
    sheet.gauges("fairway_webhook_endpoints", "Endpoints that are kept, by base path.", &["path"], rows);
    let conditions = published.configured.merged.contributed.conditions_len() as f64;
    sheet.gauge("fairway_webhook_conditions", "What of them is not heeded, or odd.", conditions);
}
