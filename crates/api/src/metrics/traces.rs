//! Metrics of traces.

use std::sync::atomic::Ordering::Relaxed;

use super::{Sheet, loaded};
use fairway_control::Shared;

/// Writes the metrics of traces; none if they are off.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared) {
    let Some(counts) = shared.traces.counts() else { return };
    let spans = [("dropped", &counts.dropped), ("rejected", &counts.rejected), ("sent", &counts.sent)];
    sheet.counters("fairway_trace_spans_total", &["outcome"], spans.map(loaded));
    sheet.counter("fairway_trace_export_failures_total", counts.failures.load(Relaxed));
}
