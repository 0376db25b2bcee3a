//! Metrics of Kubernetes APIs of clusters.

use std::collections::BTreeMap;

use fairway_model::{ClusterName, Timestamp};
use fairway_sources::SourceStatus;

use super::Sheet;

/// Writes how long each API cannot be read, the numbers of objects and names, and the memory of the objects.
pub(super) fn write(sheet: &mut Sheet, sources: &BTreeMap<ClusterName, SourceStatus>, now: Timestamp) {
    let seconds = |status: &SourceStatus| status.failing_since.map_or(0.0, |since| now.since(since).as_secs_f64());
    let failing = sources.iter().map(|(name, status)| ([name.to_string()], seconds(status)));
    sheet.gauges("fairway_kubernetes_failing_seconds", &["cluster"], failing);
    let objects = sources.iter().flat_map(|(name, status)| {
        status.kinds.iter().map(move |kind| ([name.to_string(), kind.kind.to_string()], kind.objects as f64))
    });
    sheet.gauges("fairway_kubernetes_objects", &["cluster", "kind"], objects);
    let bytes = sources.iter().map(|(name, status)| ([name.to_string()], status.objects_bytes as f64));
    sheet.gauges("fairway_kubernetes_objects_bytes", &["cluster"], bytes);
    let names = sources.iter().map(|(name, status)| ([name.to_string()], status.names as f64));
    sheet.gauges("fairway_kubernetes_names", &["cluster"], names);
    let held = sources.iter().map(|(name, status)| ([name.to_string()], status.held_names as f64));
    sheet.gauges("fairway_kubernetes_held_names", &["cluster"], held);
}
