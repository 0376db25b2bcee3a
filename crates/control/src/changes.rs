//! Counts what a reload changed, and finds changed settings that need a restart.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use fairway_model::{DesiredState, Name, SharedMap};
use fairway_zones::Snapshot;

use fairway_config::Settings;

/// Returns the differences between two desired states, a line for each kind of object: `pools: 1 added, 2 changed, 0 removed`.
pub(crate) fn counted(before: &DesiredState, after: &DesiredState) -> Vec<String> {
    [
        line("zones", &before.zones, &after.zones),
        shared("clusters", &before.clusters, &after.clusters),
        shared("monitors", &before.monitors, &after.monitors),
        line("load sources", &before.load_sources, &after.load_sources),
        line("load sources of clusters", &before.cluster_load_sources, &after.cluster_load_sources),
        line("load bounds", &before.load_bounds, &after.load_bounds),
        line("maps", &before.maps, &after.maps),
        line("latencies", &before.latencies, &after.latencies),
        shared("pools", &before.pools, &after.pools),
        shared("names", &before.names, &after.names),
        shared("record sets", &before.records, &after.records),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the numbers of changed record sets of zone files, a line for each zone.
pub(crate) fn of_zone_files(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let changes = if after.has_text_of(before) { BTreeMap::new() } else { after.text_changes(before) };
    let line = |(zone, [added, changed, removed]): (Name, [usize; 3])| {
        format!("record sets of the file of {zone}: {added} added, {changed} changed, {removed} removed")
    };
    changes.into_iter().map(line).collect()
}

fn line<K: Ord, V: PartialEq>(kind: &str, before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Option<String> {
    let kept = after.iter().map(|(key, value)| (before.get(key), Some(value)));
    let removed = before.iter().filter(|(key, _)| !after.contains_key(key)).map(|(_, value)| (Some(value), None));
    counts(kind, kept.chain(removed))
}

fn shared<K: Ord, V: PartialEq>(kind: &str, before: &SharedMap<K, V>, after: &SharedMap<K, V>) -> Option<String> {
    let changes = after.differences(before, V::eq);
    counts(kind, changes.into_iter().map(|(_, after, before)| (before, after)))
}

/// Counts the differences between two versions of each object of a kind.
fn counts<'a, V: PartialEq + 'a>(
    kind: &str,
    versions: impl Iterator<Item = (Option<&'a V>, Option<&'a V>)>,
) -> Option<String> {
    let (mut added, mut changed, mut removed) = (0u32, 0u32, 0u32);
    for version in versions {
        match version {
            (None, Some(_)) => added += 1,
            (Some(before), Some(after)) if before != after => changed += 1,
            (Some(_), None) => removed += 1,
            _ => {}
        }
    }
    (added + changed + removed > 0).then(|| format!("{kind}: {added} added, {changed} changed, {removed} removed"))
}

/// Returns the address of the webhook, which is read at the start only.
fn bound_webhook(settings: &Settings) -> Option<SocketAddr> {
    settings.webhook.as_ref().map(|webhook| webhook.listen)
}

/// Returns the limits of health checking, which are read at the start only.
fn bound_health(settings: &Settings) -> (usize, Duration) {
    (settings.health.sockets_max, settings.health.first_round)
}

/// Returns the changed settings that are read at the start only, by their keys in the configuration.
pub(crate) fn need_restart(before: &Settings, after: &Settings) -> Vec<&'static str> {
    [
        ("listen.dns", before.dns != after.dns),
        ("listen.http", before.http != after.http),
        ("listen.health", before.health_listener != after.health_listener),
        ("dataDir", before.data_dir != after.data_dir),
        ("webhook", bound_webhook(before) != bound_webhook(after)),
        ("user", before.user != after.user),
        ("tcp", before.tcp != after.tcp),
        ("udp", before.udp != after.udp),
        ("health", bound_health(before) != bound_health(after)),
        ("ready", before.callback != after.callback),
        ("store", before.store != after.store),
        ("history.bytes", before.history.bytes != after.history.bytes),
        ("traces", before.traces != after.traces),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{Check, Monitor, MonitorName};

    use super::*;

    #[test]
    fn changes_are_counted_by_kind() {
        let with = |monitors: &[(&str, u16)]| DesiredState {
            monitors: monitors
                .iter()
                .map(|(name, port)| {
                    let monitor = Monitor::new(Check::Tcp { port: *port });
                    (MonitorName::new(name).unwrap(), Arc::new(monitor))
                })
                .collect(),
            ..DesiredState::default()
        };
        let (before, after) = (with(&[("a", 1), ("b", 1), ("c", 1)]), with(&[("a", 1), ("b", 2), ("d", 1)]));
        assert_eq!(counted(&before, &after), ["monitors: 1 added, 1 changed, 1 removed"]);
        assert!(counted(&before, &before).is_empty());
    }

    #[test]
    fn changed_listener_needs_a_restart_and_changed_filter_does_not() {
        let before = Settings::default();
        let mut after = before.clone();
        after.http = None;
        after.log.filter = "debug".to_owned();
        assert_eq!(need_restart(&before, &after), ["listen.http"]);
    }
}
