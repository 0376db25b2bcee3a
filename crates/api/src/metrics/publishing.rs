//! Metrics of publishing, one row per provider.

use std::{collections::BTreeMap, time::SystemTime};

use super::Sheet;
use fairway_control::Shared;
use fairway_providers::publish::{Counts, Status};

/// Reads the value of a gauge.
type Gauge<'a> = &'a dyn Fn(&Status) -> f64;
/// Reads the value of a counter.
type Counter = fn(&Counts) -> u64;

/// Writes the metrics of each provider.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared) {
    let publishers = shared.publishers.load();
    if publishers.all().next().is_none() {
        return;
    }
    let now = SystemTime::now();
    let all: Vec<_> = publishers.all().map(|one| (one.setup().name.clone(), one.status())).collect();
    let age =
        |at: Option<SystemTime>| at.and_then(|at| now.duration_since(at).ok()).map_or(0.0, |age| age.as_secs_f64());
    let gauges: [(&str, Gauge<'_>); 4] = [
        ("fairway_publish_lag_seconds", &|status| age(status.behind_since)),
        ("fairway_publish_failing", &|status| f64::from(status.failures > 0)),
        ("fairway_publish_owned", &|status| status.owned as f64),
        ("fairway_publish_foreign", &|status| status.foreign as f64),
    ];
    for (name, value) in gauges {
        sheet.gauges(name, &["provider"], all.iter().map(|(provider, status)| ([provider], value(status))));
    }
    let counters: [(&str, Counter); 5] = [
        ("fairway_publish_syncs_total", |counts| counts.syncs),
        ("fairway_publish_failures_total", |counts| counts.failed),
        ("fairway_publish_changes_total", |counts| counts.changed),
        ("fairway_publish_deletions_refused_total", |counts| counts.deletions_refused),
        ("fairway_publish_drift_total", |counts| counts.drifted),
    ];
    for (name, value) in counters {
        sheet.counters(name, &["provider"], all.iter().map(|(provider, status)| ([provider], value(&status.counts))));
    }
    let mut sets: BTreeMap<[String; 3], f64> = BTreeMap::new();
    for (name, status) in &all {
        for condition in ["published", "waiting", "leaving"] {
            sets.insert([name.clone(), condition.to_owned(), String::new()], 0.0);
        }
        for set in status.conditions.values() {
            let (status_word, reason) = set.condition.words();
            *sets.entry([name.clone(), status_word.to_owned(), reason.to_owned()]).or_default() += 1.0;
        }
    }
    sheet.gauges("fairway_publish_sets", &["provider", "status", "reason"], sets);
}
