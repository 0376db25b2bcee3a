//! The state of all checked targets.
//!
//! A [`TargetKey`] is never used for another target, so that a late probe is never counted for another target.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use fairway_model::{Cause, HealthStatus, Monitor, Observation, ProbeAddress, Target};
use tokio::{task::AbortHandle, time::Instant};

use super::{HistoryEntry, RestoredState, TargetState, sockets::Lane};
use crate::{evaluator::Evaluator, observer::Family, probe::PreparedMonitor};

/// Largest number of history entries of one target, which bounds the size of the state file.
const HISTORY_MAX: usize = 16;
/// Largest age of a restored status, or three periods if that is longer: enough for a restart or an upgrade of the host.
const RESTORED_AGE_MAX: Duration = Duration::from_secs(60);

/// A target to check.
#[derive(Debug)]
pub(super) struct NewTarget {
    pub(super) target: Target,
    pub(super) prepared: Arc<PreparedMonitor>,
    pub(super) restored: Option<RestoredState>,
}

/// The key of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TargetKey {
    index: u32,
    /// Number of earlier targets with this index.
    generation: u32,
}

/// The state of one target.
#[derive(Debug)]
pub(super) struct CheckedTarget {
    pub(super) target: Target,
    pub(super) prepared: Arc<PreparedMonitor>,
    pub(super) evaluator: Evaluator,
    /// Consecutive inconclusive probes.
    pub(super) inconclusive_streak: u8,
    /// True if its probes are spread over the period, which begins with the first status.
    pub(super) settled: bool,
    /// [`LagMeter::awake`](crate::observer::LagMeter::awake) at the last evidence.
    pub(super) evidence: Duration,
    /// Start of the first of the last consecutive probes that found no route.
    pub(super) unreachable_since: Option<Instant>,
    /// The running probe.
    pub(super) probe: Option<AbortHandle>,
    since: SystemTime,
    last_cause: Option<Cause>,
    last_duration: Option<Duration>,
    last_probe: Option<SystemTime>,
    passes: u64,
    failures: u64,
    inconclusive: u64,
    history: VecDeque<HistoryEntry>,
}

impl CheckedTarget {
    fn new(entry: NewTarget, awake: Duration, wall: SystemTime) -> Self {
        let NewTarget { target, prepared, restored } = entry;
        let mut slot = Self {
            evaluator: Evaluator::new(HealthStatus::Pending),
            inconclusive_streak: 0,
            settled: false,
            evidence: awake,
            unreachable_since: None,
            probe: None,
            since: wall,
            last_cause: None,
            last_duration: None,
            last_probe: None,
            passes: 0,
            failures: 0,
            inconclusive: 0,
            history: VecDeque::new(),
            target,
            prepared,
        };
        if let Some(restored) = restored {
            slot.restore(restored, wall);
        }
        slot
    }

    fn restore(&mut self, restored: RestoredState, wall: SystemTime) {
        let age_max = RESTORED_AGE_MAX.max(self.target.monitor.period.saturating_mul(3));
        let is_recent = wall.duration_since(restored.written).is_ok_and(|age| age <= age_max);
        let skipped = restored.history.len().saturating_sub(HISTORY_MAX);
        self.history = restored.history.into_iter().skip(skipped).collect();
        if is_recent || !matches!(restored.status, HealthStatus::Up | HealthStatus::Down) {
            self.evaluator = Evaluator::new(restored.status);
            self.since = restored.since;
            self.settled = self.evaluator.is_evaluated();
        } else {
            self.evaluator = Evaluator::new(HealthStatus::Unknown);
            self.changed(HealthStatus::Unknown, Cause::new("the status from before the restart is too old"), wall);
        }
    }

    /// Returns the target's monitor.
    pub(super) fn monitor(&self) -> &Monitor {
        &self.target.monitor
    }

    /// Returns the socket lane of its next probe.
    pub(super) const fn lane(&self) -> Lane {
        if self.inconclusive_streak > 0 || self.evaluator.is_failing() { Lane::Suspect } else { Lane::Sound }
    }

    /// Returns the address family for which a response is evidence of a network; `None` for loopback and host names.
    pub(super) fn network(&self) -> Option<Family> {
        let address = match &self.target.address {
            ProbeAddress::Address(address) => *address,
            ProbeAddress::Socket(socket) => socket.ip(),
            ProbeAddress::Host(..) => return None,
        };
        (!address.is_loopback()).then_some(Family::of(address))
    }

    /// Counts an observation; returns the new status and its cause if it changed.
    pub(super) fn observe(
        &mut self,
        outcome: Observation,
        took: Duration,
        awake: Duration,
        wall: SystemTime,
    ) -> Option<(HealthStatus, Cause)> {
        let to = self.evaluator.observe(&outcome, &self.target.monitor);
        let conclusive = !matches!(outcome, Observation::Inconclusive(_));
        if conclusive {
            self.inconclusive_streak = 0;
            self.evidence = awake;
            self.last_duration = Some(took);
            self.last_probe = Some(wall);
        } else {
            self.inconclusive_streak = self.inconclusive_streak.saturating_add(1);
        }
        let (count, cause) = match outcome {
            Observation::Pass => (&mut self.passes, None),
            Observation::Fail(cause) => (&mut self.failures, Some(cause)),
            Observation::Inconclusive(cause) => (&mut self.inconclusive, Some(cause)),
        };
        *count += 1;
        self.last_cause.clone_from(&cause);
        let passes = self.evaluator.streak();
        Some((to?, cause.unwrap_or_else(|| Cause(format!("passes in a row: {passes}")))))
    }

    /// Expires the status if its last evidence is too old; returns the new status and its cause if it changed.
    pub(super) fn expire(&mut self, awake: Duration) -> Option<(HealthStatus, Cause)> {
        let age = awake.saturating_sub(self.evidence);
        let to = self.evaluator.expire(age, &self.target.monitor)?;
        let why = self.last_cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
        Some((to, Cause(format!("no evidence for {:.1}s{why}", age.as_secs_f64()))))
    }

    /// Adds a change of the status to the history.
    pub(super) fn changed(&mut self, to: HealthStatus, cause: Cause, wall: SystemTime) {
        self.since = wall;
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(HistoryEntry { at: wall, to, cause });
    }

    fn state(&self) -> TargetState {
        TargetState {
            target: self.target.clone(),
            status: self.evaluator.status(),
            since: self.since,
            streak: self.evaluator.streak(),
            last_cause: self.last_cause.clone(),
            last_duration: self.last_duration,
            last_probe: self.last_probe,
            passes: self.passes,
            failures: self.failures,
            inconclusive: self.inconclusive,
            history: self.history.iter().cloned().collect(),
        }
    }
}

/// All checked targets.
#[derive(Debug, Default)]
pub(super) struct TargetTable {
    slots: Vec<Option<CheckedTarget>>,
    /// Generation of the next target at each index.
    generations: Vec<u32>,
    free: Vec<u32>,
    /// Keys by address and address in memory of the prepared monitor, which equal monitors share.
    known: HashMap<(ProbeAddress, usize), TargetKey>,
    /// Keys in the order that was set.
    order: Vec<TargetKey>,
    epoch: u64,
}

impl TargetTable {
    /// Replaces the targets; returns the new keys and the removed ones.
    pub(super) fn set(
        &mut self,
        entries: Vec<NewTarget>,
        awake: Duration,
        wall: SystemTime,
    ) -> (Vec<TargetKey>, Vec<TargetKey>) {
        let mut before = std::mem::take(&mut self.known);
        let mut added = vec![];
        self.order.clear();
        self.epoch += 1;
        for entry in entries {
            // The target keeps the prepared monitor alive, so no other one can have the same address in memory.
            let name = (entry.target.address.clone(), Arc::as_ptr(&entry.prepared) as usize);
            if self.known.contains_key(&name) {
                continue;
            }
            let key = match before.remove(&name) {
                Some(key) => {
                    if let Some(slot) = self.get_mut(key) {
                        slot.target = entry.target;
                    }
                    key
                }
                None => {
                    let key = self.insert(CheckedTarget::new(entry, awake, wall));
                    added.push(key);
                    key
                }
            };
            self.known.insert(name, key);
            self.order.push(key);
        }
        (added, before.into_values().collect())
    }

    /// Returns the state of a target, if it is still checked.
    pub(super) fn get(&self, key: TargetKey) -> Option<&CheckedTarget> {
        let generation = self.generations.get(key.index as usize)?;
        self.slots[key.index as usize].as_ref().filter(|_| *generation == key.generation)
    }

    /// Returns the state of a target, if it is still checked.
    pub(super) fn get_mut(&mut self, key: TargetKey) -> Option<&mut CheckedTarget> {
        let generation = self.generations.get(key.index as usize)?;
        self.slots[key.index as usize].as_mut().filter(|_| *generation == key.generation)
    }

    /// Removes a target.
    pub(super) fn remove(&mut self, key: TargetKey) -> Option<CheckedTarget> {
        self.get(key)?;
        let slot = self.slots[key.index as usize].take();
        self.generations[key.index as usize] = key.generation.wrapping_add(1);
        self.free.push(key.index);
        slot
    }

    /// Returns all keys in the order that was set.
    pub(super) fn keys(&self) -> &[TargetKey] {
        &self.order
    }

    /// Returns all targets in arbitrary order.
    pub(super) fn slots_mut(&mut self) -> impl Iterator<Item = (TargetKey, &mut CheckedTarget)> {
        let numbered = self.slots.iter_mut().zip(&self.generations).zip(0..);
        numbered.filter_map(|((slot, &generation), index)| Some((TargetKey { index, generation }, slot.as_mut()?)))
    }

    /// Returns at most `count` states from a position on, in the order that was set; whether they are the last; and the
    /// epoch, which changes with the targets.
    pub(super) fn states(&self, from: usize, count: usize) -> (Vec<TargetState>, bool, u64) {
        let keys = self.order.get(from..).unwrap_or(&[]);
        let states = keys.iter().take(count).filter_map(|key| self.get(*key)).map(CheckedTarget::state).collect();
        (states, keys.len() <= count, self.epoch)
    }

    fn insert(&mut self, slot: CheckedTarget) -> TargetKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.generations.push(0);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[index as usize] = Some(slot);
        TargetKey { index, generation: self.generations[index as usize] }
    }
}
