//! Metrics of cluster load and of its sources.

use fairway_health::load::{ClusterLoad, GatewayWarning, LoadStatus, LoadTotals, ReadError, SourceLoad};

use super::Sheet;

/// Writes the metrics of load.
pub(super) fn write(sheet: &mut Sheet, loads: &[ClusterLoad], totals: &LoadTotals) {
    let counting = |load: &ClusterLoad| -> Option<(String, SourceLoad)> {
        let used = load.sources.iter().find(|source| source.status == LoadStatus::Used)?;
        Some((load.cluster.to_string(), used.clone()))
    };
    let counts: Vec<(String, SourceLoad)> = loads.iter().filter_map(counting).collect();
    let rows = counts.iter().filter_map(|(cluster, report)| {
        let (load, signal) = report.load?;
        let source = report.source.clone().unwrap_or_default();
        Some(([cluster.clone(), source, signal.to_string()], f64::from(load.0) / 1_000.0))
    });
    sheet.gauges("fairway_cluster_load_ratio", &["cluster", "source", "signal"], rows);
    let ages = counts.iter().filter_map(|(cluster, report)| Some(([cluster.as_str()], report.age?.as_secs_f64())));
    sheet.gauges("fairway_cluster_load_age_seconds", &["cluster"], ages);
    let warned = loads.iter().flat_map(|load| {
        let is_warned = |kind: &str| load.warnings.iter().any(|warning| warning.kind() == kind);
        GatewayWarning::KINDS.map(|kind| ([load.cluster.to_string(), kind.to_owned()], f64::from(is_warned(kind))))
    });
    sheet.gauges("fairway_cluster_warning", &["cluster", "warning"], warned);
    let exhausted = loads.iter().map(|load| ([load.cluster.to_string()], f64::from(load.is_exhausted)));
    sheet.gauges("fairway_cluster_exhausted", &["cluster"], exhausted);
    let outcomes = totals.sources.iter().flat_map(|(source, (read, failed))| {
        let failed = ReadError::REASONS.into_iter().zip(*failed);
        let all = std::iter::once(("read", *read)).chain(failed);
        all.map(|(outcome, count)| ([source.clone(), outcome.to_owned()], count))
    });
    sheet.counters("fairway_load_reads_total", &["source", "outcome"], outcomes);
    sheet.durations("fairway_load_read_duration_seconds", &[], [([""; 0], totals.took)]);
}
