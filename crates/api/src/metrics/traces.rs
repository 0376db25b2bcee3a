//! Metrics of traces.

use std::sync::atomic::Ordering::Relaxed;

use super::Sheet;
use fairway_control::Shared;

/// Writes the metrics of traces; none if they are off.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared) {
    let Some(counts) = shared.traces.counts() else { return };
    let spans = [(["dropped"], &counts.dropped), (["rejected"], &counts.rejected), (["sent"], &counts.sent)];
    let spans = spans.map(|(outcome, counter)| (outcome, counter.load(Relaxed)));
    sheet.counters("fairway_trace_spans_total", "Ended spans by outcome.", &["outcome"], spans);
    let failures = counts.failures.load(Relaxed);
    let help = "Failed requests to the trace collector, repeated ones included.";
    sheet.counter("fairway_trace_export_failures_total", help, failures);
}
