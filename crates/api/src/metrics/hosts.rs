//! Metrics of host names of clusters.

use std::sync::Arc;

use fairway_hosts::Host;
use fairway_model::{Name, SharedMap, Timestamp};

use super::Sheet;

/// Writes the age of the addresses of each host name, and which of them cannot be resolved.
pub(super) fn write(sheet: &mut Sheet, hosts: &SharedMap<Name, Arc<Host>>, now: Timestamp) {
    let ages =
        hosts.iter().filter_map(|(name, host)| Some(([name.to_plain()], now.since(host.resolved_at?).as_secs_f64())));
    sheet.gauges("fairway_host_age_seconds", &["host"], ages);
    let failing = hosts.iter().map(|(name, host)| ([name.to_plain()], f64::from(host.failure.is_some())));
    sheet.gauges("fairway_host_failing", &["host"], failing);
}
