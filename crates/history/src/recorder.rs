//! Differences of states.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use fairway_model::{Backend, DesiredState, Health, SharedMap, Shares};
use fairway_zones::{SavedRuntime, ServingState, Snapshot};

use crate::record_wire::{Change, Ids, Items, SharesChange};

/// A state to record.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) desired: Arc<DesiredState>,
    pub(crate) serving: ServingState,
}

impl State {
    pub(crate) fn ids(&self) -> Ids {
        let ServingState { snapshot, runtime } = &self.serving;
        Ids { snapshot: snapshot.id(), text: snapshot.text_id(), runtime: runtime.id() }
    }

    /// Returns true if both give the same answers.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.serving.snapshot, &other.serving.snapshot)
            && (Arc::ptr_eq(&self.serving.runtime, &other.serving.runtime) || self.ids() == other.ids())
    }

    fn saved(&self) -> SavedRuntime {
        self.serving.runtime.saved(&self.serving.snapshot)
    }

    fn shares(&self) -> Option<&Arc<Shares>> {
        self.serving.runtime.shares()
    }

    /// Returns what differs from the state before; everything without one.
    pub(crate) fn change_since<'a>(&'a self, before: Option<&'a Self>, skipped: u32) -> Change<'a> {
        let empty = DesiredState::default();
        let mut change = Change { is_whole: before.is_none(), skipped, ids: self.ids(), ..Change::default() };
        let now = &*self.desired;
        let is_desired_same = before.is_some_and(|before| Arc::ptr_eq(&before.desired, &self.desired));
        if !is_desired_same {
            let was = before.map_or(&empty, |before| &before.desired);
            change.zones = (was.zones != now.zones).then_some(Cow::Borrowed(&now.zones));
            change.clusters = items(&was.clusters, &now.clusters);
            change.monitors = items(&was.monitors, &now.monitors);
            change.pools = items(&was.pools, &now.pools);
            change.names = items(&was.names, &now.names);
            change.records = items(&was.records, &now.records);
        }
        change.health = health_changes(before, self);
        let saved = self.saved();
        let was_saved = before.map(Self::saved).unwrap_or_default();
        change.runtime = (saved != was_saved).then(|| saved.into());
        change.shares = shares_change(before.and_then(Self::shares), self.shares());
        change
    }
}

fn items<'a, K: Ord + Clone, V: Clone + PartialEq>(was: &SharedMap<K, V>, now: &'a SharedMap<K, V>) -> Items<'a, K, V> {
    let differences = was.differences(now, V::eq);
    let item = |(key, _, _): (&K, _, _)| match now.get_key_value(key) {
        Some((key, value)) => (Cow::Borrowed(key), Some(Cow::Borrowed(value))),
        None => (Cow::Owned(key.clone()), None),
    };
    differences.into_iter().map(item).collect()
}

fn health_changes(before: Option<&State>, now: &State) -> Vec<(u64, Option<Health>)> {
    let all = |state: &State| {
        let runtime = Arc::clone(&state.serving.runtime);
        (0..runtime.all_health().len()).map(move |at| (runtime.target_hashes()[at], runtime.all_health()[at]))
    };
    let Some(before) = before else { return all(now).map(|(target, health)| (target, Some(health))).collect() };
    let indexes = |state: &State| Arc::clone(Snapshot::target_indexes(&state.serving.snapshot));
    if Arc::ptr_eq(&indexes(before), &indexes(now)) {
        let pairs = all(before).zip(all(now)).filter(|(was, is)| was != is);
        return pairs.map(|(_, (target, health))| (target, Some(health))).collect();
    }
    let mut was: HashMap<u64, Health> = all(before).collect();
    let changed = all(now).filter(|(target, health)| was.remove(target) != Some(*health));
    let mut changes: Vec<_> = changed.map(|(target, health)| (target, Some(health))).collect();
    changes.extend(was.into_keys().map(|target| (target, None)));
    changes
}

fn shares_change(before: Option<&Arc<Shares>>, now: Option<&Arc<Shares>>) -> Option<SharesChange> {
    let (before, now) = match (before, now) {
        (None, None) => return None,
        (Some(before), Some(now)) if Arc::ptr_eq(before, now) => return None,
        (Some(before), Some(now)) => (before, now),
        (_, now) => return Some(SharesChange::Whole(now.map(|shares| Shares::clone(shares)))),
    };
    let tables = || before.tables.iter().zip(&now.tables);
    let is_alike = before.tables.len() == now.tables.len()
        && tables().all(|(was, is)| was.costs == is.costs && was.slots.len() == is.slots.len());
    if !is_alike {
        return Some(SharesChange::Whole(Some(Shares::clone(now))));
    }
    let slots = (0..).zip(tables()).flat_map(|(number, (was, is))| {
        let slots = (0..).zip(was.slots.iter().zip(&is.slots));
        slots.filter(|(_, (was, is))| was != is).map(move |(slot, (_, is))| (number, slot, *is))
    });
    Some(SharesChange::Slots { epoch: now.epoch, parts: now.parts.clone(), slots: slots.collect() })
}

/// Decisions of load control that are worth an event: shares move in small steps.
#[derive(Debug, Default)]
pub(crate) struct LoadEvents {
    /// Parts at the last event.
    parts: BTreeMap<Backend, u16>,
}

impl LoadEvents {
    /// Returns the event of a state whose shares are far from those of the last event.
    pub(crate) fn event(&mut self, state: &State) -> Option<String> {
        let parts = state.shares().map(|shares| &shares.parts)?;
        let is_far = |(backend, part): (&Backend, &u16)| {
            self.parts.get(backend).is_none_or(|before| before.abs_diff(*part) >= FAR)
        };
        if parts.len() == self.parts.len() && !parts.iter().any(is_far) {
            return None;
        }
        self.parts.clone_from(parts);
        let shares = parts.iter().map(|(backend, part)| format!("{backend} {:.2}", f64::from(*part) / WHOLE));
        let shares = shares.collect::<Vec<_>>().join(", ");
        // Names of clusters and pools need no escape.
        Some(format!(r#"{{"level":"info","msg":"shares changed","event":"load","shares":"{shares}"}}"#))
    }
}

/// The whole demand, in the unit of parts.
const WHOLE: f64 = 65_535.0;
/// Difference of a part from which there is an event: 5 %.
const FAR: u16 = 3_277;
