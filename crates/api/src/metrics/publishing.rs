//! Metrics of publishing, one row per provider.

use std::{collections::BTreeMap, time::SystemTime};

use super::Sheet;
use fairway_control::Shared;

/// Writes the metrics of each provider.
pub(super) fn write(sheet: &mut Sheet, shared: &Shared) {
    let publishers = shared.publishers.load();
    if publishers.all().next().is_none() {
        return;
    }
    let now = SystemTime::now();
    let all: Vec<_> = publishers.all().map(|one| (one.setup().name.clone(), one.status())).collect();
    let label = &["provider"];
    let rows = |value: &dyn Fn(&fairway_providers::publish::Status) -> f64| -> Vec<([String; 1], f64)> {
        all.iter().map(|(name, status)| ([name.clone()], value(status))).collect()
    };
    let age =
        |at: Option<SystemTime>| at.and_then(|at| now.duration_since(at).ok()).map_or(0.0, |age| age.as_secs_f64());
    let help = "Seconds since the provider's records differ from the desired records; 0 if they are equal.";
    sheet.gauges("fairway_publish_lag_seconds", help, label, rows(&|status| age(status.behind_since)));
    let help = "1 if the last sync failed.";
    sheet.gauges("fairway_publish_failing", help, label, rows(&|status| f64::from(u8::from(status.failures > 0))));
    let help = "Record sets at the provider that this server owns.";
    sheet.gauges("fairway_publish_owned", help, label, rows(&|status| status.owned as f64));
    let help = "Record sets in the provider's zones that others own; never changed.";
    sheet.gauges("fairway_publish_foreign", help, label, rows(&|status| status.foreign as f64));
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
    let help = "Record sets by their status at the provider, and the reason if refused.";
    sheet.gauges("fairway_publish_sets", help, &["provider", "status", "reason"], sets);
    let counts = |value: &dyn Fn(&fairway_providers::publish::Counts) -> u64| -> Vec<([String; 1], u64)> {
        all.iter().map(|(name, status)| ([name.clone()], value(&status.counts))).collect()
    };
    sheet.counters("fairway_publish_syncs_total", "Completed syncs.", label, counts(&|counts| counts.syncs));
    sheet.counters("fairway_publish_failures_total", "Failed syncs.", label, counts(&|counts| counts.failed));
    let help = "Record sets written or deleted, registry records included.";
    sheet.counters("fairway_publish_changes_total", help, label, counts(&|counts| counts.changed));
    let help = "Deletions held back because there were too many at once, counted at each sync.";
    sheet.counters("fairway_publish_deletions_refused_total", help, label, counts(&|counts| counts.deletions_refused));
    let help = "Record sets found changed by others (drift).";
    sheet.counters("fairway_publish_drift_total", help, label, counts(&|counts| counts.drifted));
}
