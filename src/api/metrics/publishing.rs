//! Metrics of publishing, a row a provider.

use std::{collections::BTreeMap, time::SystemTime};

use super::Sheet;
use fairway_control::Shared;

/// Writes how each provider stands.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared) {
    let publishers = shared.publishers.load();
    if publishers.is_empty() {
        return;
    }
    let now = SystemTime::now();
    let all: Vec<_> = publishers.iter().map(|one| (one.setup().name.clone(), one.status())).collect();
    let label = &["provider"];
    let rows = |value: &dyn Fn(&fairway_providers::publish::Status) -> f64| -> Vec<([String; 1], f64)> {
        all.iter().map(|(name, status)| ([name.clone()], value(status))).collect()
    };
    let age =
        |at: Option<SystemTime>| at.and_then(|at| now.duration_since(at).ok()).map_or(0.0, |age| age.as_secs_f64());
    let help = "For how long what is wanted at the provider has not been there; 0 where it is.";
    sheet.gauges("fairway_publish_lag_seconds", help, label, rows(&|status| age(status.behind_since)));
    let help = "1 if the last sync failed.";
    sheet.gauges("fairway_publish_failing", help, label, rows(&|status| f64::from(u8::from(status.failures > 0))));
    let help = "Record sets at the provider that are ours.";
    sheet.gauges("fairway_publish_owned", help, label, rows(&|status| status.owned as f64));
    let help = "Record sets in the provider's zones that are not ours, and are not touched.";
    sheet.gauges("fairway_publish_foreign", help, label, rows(&|status| status.foreign as f64));
    let mut sets: BTreeMap<[String; 3], f64> = BTreeMap::new();
    for (name, status) in &all {
        for condition in ["published", "waiting", "leaving"] {
            sets.insert([name.clone(), condition.to_owned(), String::new()], 0.0);
        }
        for standing in status.conditions.values() {
            let (condition, reason) = standing.condition.words();
            *sets.entry([name.clone(), condition.to_owned(), reason.to_owned()]).or_default() += 1.0;
        }
    }
    let help = "Record sets by how they stand at the provider, and by why they are refused.";
    sheet.gauges("fairway_publish_sets", help, &["provider", "condition", "reason"], sets);
    let counts = |value: &dyn Fn(&fairway_providers::publish::Counts) -> u64| -> Vec<([String; 1], u64)> {
        all.iter().map(|(name, status)| ([name.clone()], value(&status.counts))).collect()
    };
    sheet.counters("fairway_publish_syncs_total", "Syncs that ended.", label, counts(&|counts| counts.syncs));
    sheet.counters("fairway_publish_failures_total", "Syncs that failed.", label, counts(&|counts| counts.failed));
    let help = "Record sets written or deleted, those of the registry counted.";
    sheet.counters("fairway_publish_changes_total", help, label, counts(&|counts| counts.changed));
    let help = "Deletions that were held back because they were too many at once, counted at each sync.";
    sheet.counters("fairway_publish_deletions_refused_total", help, label, counts(&|counts| counts.deletions_refused));
    let help = "Record sets that were found to be other than they had been left.";
    sheet.counters("fairway_publish_drift_total", help, label, counts(&|counts| counts.drifted));
}
