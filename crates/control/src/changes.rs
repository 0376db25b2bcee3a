//! What a reload changed, counted, for the log and for whoever asked.

use std::{collections::BTreeMap, net::SocketAddr};

use fairway_model::{DesiredState, SharedMap};

use fairway_config::Settings;

/// What differs between two wishes, a line a kind of object: `pools: 1 added, 2 changed, 0 removed`.
pub(crate) fn counted(before: &DesiredState, after: &DesiredState) -> Vec<String> {
    [
        line("zones", &before.zones, &after.zones),
        line("clusters", &before.clusters, &after.clusters),
        shared("monitors", &before.monitors, &after.monitors),
        line("load sources", &before.load_sources, &after.load_sources),
        line("load feeds", &before.cluster_load_sources, &after.cluster_load_sources),
        line("load aims", &before.load_bounds, &after.load_bounds),
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

fn line<K: Ord, V: PartialEq>(kind: &str, before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Option<String> {
    let kept = after.iter().map(|(key, value)| Change::between(before.get(key), Some(value)));
    let removed = before.iter().filter(|(key, _)| !after.contains_key(key)).map(|_| Change::Removed);
    told(kind, kept.chain(removed))
}

fn shared<K: Ord, V: PartialEq>(kind: &str, before: &SharedMap<K, V>, after: &SharedMap<K, V>) -> Option<String> {
    let changes = after.differences(before, V::eq);
    told(kind, changes.into_iter().map(|(_, after, before)| Change::between(before, after)))
}

fn told(kind: &str, changes: impl Iterator<Item = Change>) -> Option<String> {
    let (mut added, mut changed, mut removed) = (0u32, 0u32, 0u32);
    changes.for_each(|change| match change {
        Change::Added => added += 1,
        Change::Changed => changed += 1,
        Change::None => {}
        Change::Removed => removed += 1,
    });
    (added + changed + removed > 0).then(|| format!("{kind}: {added} added, {changed} changed, {removed} removed"))
}

/// What became of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Added,
    Changed,
    None,
    Removed,
}

impl Change {
    fn between<V: PartialEq>(before: Option<&V>, after: Option<&V>) -> Self {
        match (before, after) {
            (None, Some(_)) => Self::Added,
            (Some(before), Some(after)) if before != after => Self::Changed,
            (Some(_), None) => Self::Removed,
            _ => Self::None,
        }
    }
}

/// Where the webhook listens, which is read at the start only.
fn bound_webhook(settings: &Settings) -> Option<(SocketAddr, Option<SocketAddr>)> {
    settings.webhook.as_ref().map(|webhook| (webhook.listen, webhook.metrics))
}

/// Settings that differ and are read at the start only, by the name they have in the configuration.
pub(crate) fn need_restart(before: &Settings, after: &Settings) -> Vec<&'static str> {
    [
        ("listen.dns", before.dns != after.dns),
        ("listen.http", before.http != after.http),
        ("dataDir", before.data_dir != after.data_dir),
        ("webhook", bound_webhook(before) != bound_webhook(after)),
        ("user", before.user != after.user),
        ("tcp", before.tcp != after.tcp),
        ("udp", before.udp != after.udp),
        ("health", before.health != after.health),
        ("ready", before.callback != after.callback),
        ("store", before.store != after.store),
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
    fn what_was_added_changed_and_removed_is_counted_by_kind() {
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
    fn a_changed_listener_needs_a_restart_and_a_changed_filter_does_not() {
        let before = Settings::default();
        let mut after = before.clone();
        after.http = None;
        after.log.filter = "debug".to_owned();
        assert_eq!(need_restart(&before, &after), ["listen.http"]);
    }
}
