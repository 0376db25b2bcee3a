//! What became of spans.

use std::sync::atomic::Ordering::Relaxed;

use super::Sheet;
use fairway_control::Shared;

/// Writes what concerns traces; nothing where they are off.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared) {
    let Some(counts) = shared.traces.counts() else { return };
    let spans = [(["dropped"], &counts.dropped), (["rejected"], &counts.rejected), (["sent"], &counts.sent)];
    let spans = spans.map(|(outcome, counter)| (outcome, counter.load(Relaxed)));
    sheet.counters("fairway_trace_spans_total", "Spans that ended, by what became of them.", &["outcome"], spans);
    let failures = counts.failures.load(Relaxed);
    let help = "Requests that the collector of traces did not take.";
    sheet.counter("fairway_trace_export_failures_total", help, failures);
}
