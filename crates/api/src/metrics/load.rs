//! Metrics of cluster load and of its sources.

use std::time::Duration;

use fairway_health::{
    ProbeTotals,
    load::{ClusterLoad, LoadStatus, LoadTotals, ReadError, SourceLoad},
};

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
        let mut kinds: Vec<&str> = load.warnings.iter().map(|warning| warning.kind()).collect();
        kinds.dedup();
        kinds.into_iter().map(|kind| ([load.cluster.to_string(), kind.to_owned()], 1.0))
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
    if totals.count > 0 {
        let buckets: Vec<_> = ProbeTotals::BOUNDS.iter().map(Duration::as_secs_f64).zip(totals.took).collect();
        let took = totals.time.as_secs_f64();
        sheet.histogram("fairway_load_read_duration_seconds", &buckets, totals.count, took);
    }
}
