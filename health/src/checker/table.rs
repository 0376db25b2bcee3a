//! The state of all checked targets.
//!
//! A [`TargetKey`] is never used for another target, so that a late probe is never counted for another target.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    net::IpAddr,
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
/// Largest number of regular probes per second of all targets at one address or host: tenants choose both the addresses and how many
/// monitors probe them. 2,000 services behind one gateway, each with a monitor of the default period of 10 s, stay below it.
const ADDRESS_RATE_MAX: f64 = 200.0;

/// A target to check.
#[derive(Debug)]
pub(super) struct NewTarget {
    pub(super) target: Target,
    pub(super) stretch: u32,
    pub(super) prepared: Arc<PreparedMonitor>,
    pub(super) restored: Option<RestoredState>,
}

/// The key of a target: its number, counted from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TargetKey(u64);

/// The state of one target.
#[derive(Debug)]
pub(super) struct CheckedTarget {
    /// The state as it is shown, except for status and streak, which are those of the evaluator.
    shown: TargetState,
    pub(super) prepared: Arc<PreparedMonitor>,
    pub(super) evaluator: Evaluator,
    /// [`DeclaredTarget::stretch`](super::DeclaredTarget::stretch).
    stretch_min: u32,
    /// Factor of the monitor's period, at least `stretch_min`, so that all targets at its address stay within [`ADDRESS_RATE_MAX`].
    stretch: u32,
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
    /// False if the last probe was not allowed.
    pub(super) is_allowed: bool,
}

impl CheckedTarget {
    fn new(entry: NewTarget, awake: Duration, wall: SystemTime) -> Self {
        let NewTarget { target, stretch, prepared, restored } = entry;
        let shown = TargetState {
            target,
            status: HealthStatus::Pending,
            since: wall,
            streak: 0,
            last_cause: None,
            last_duration: None,
            last_probe: None,
            passes: 0,
            failures: 0,
            inconclusive: 0,
            history: vec![],
        };
        let mut slot = Self {
            shown,
            prepared,
            evaluator: Evaluator::new(HealthStatus::Pending),
            stretch_min: stretch,
            stretch,
            inconclusive_streak: 0,
            settled: false,
            evidence: awake,
            unreachable_since: None,
            probe: None,
            is_allowed: true,
        };
        if let Some(restored) = restored {
            slot.restore(restored, wall);
        }
        slot
    }

    fn restore(&mut self, restored: RestoredState, wall: SystemTime) {
        let age_max = RESTORED_AGE_MAX.max(self.shown.target.monitor.period.saturating_mul(3));
        let is_recent = wall.duration_since(restored.written).is_ok_and(|age| age <= age_max);
        let skipped = restored.history.len().saturating_sub(HISTORY_MAX);
        self.shown.history = restored.history.into_iter().skip(skipped).collect();
        if is_recent || !matches!(restored.status, HealthStatus::Up | HealthStatus::Down) {
            self.evaluator = Evaluator::new(restored.status);
            self.shown.since = restored.since;
            self.settled = self.evaluator.is_evaluated();
        } else {
            self.evaluator = Evaluator::new(HealthStatus::Unknown);
            self.changed(HealthStatus::Unknown, Cause::new("the status from before the restart is too old"), wall);
        }
    }

    /// Returns the target.
    pub(super) fn target(&self) -> &Target {
        &self.shown.target
    }

    /// Returns the target's monitor.
    pub(super) fn monitor(&self) -> &Monitor {
        &self.shown.target.monitor
    }

    /// Returns the time between two regular probes: the monitor's period, or longer if there are many targets at its address or of its tenant.
    pub(super) fn period(&self) -> Duration {
        self.monitor().period.saturating_mul(self.stretch)
    }

    /// Returns the socket lane of its next probe.
    pub(super) const fn lane(&self) -> Lane {
        if self.inconclusive_streak > 0 || self.evaluator.is_failing() { Lane::Suspect } else { Lane::Sound }
    }

    /// Returns the address family for which a response is evidence of a network; `None` for loopback and host names.
    pub(super) fn network(&self) -> Option<Family> {
        let address = match &self.shown.target.address {
            ProbeAddress::Address(address) | ProbeAddress::OfHost(address, _) => *address,
            ProbeAddress::Socket(socket) => socket.ip(),
            ProbeAddress::Host(..) => return None,
        };
        (!address.is_loopback()).then_some(Family::of(address))
    }

    /// Sets the status to down, because this server may not connect to the target. No evidence has to be collected for that.
    pub(super) fn deny(&mut self, cause: &Cause, wall: SystemTime) {
        self.is_allowed = false;
        self.inconclusive_streak = 0;
        self.evaluator = Evaluator::new(HealthStatus::Down);
        self.shown.last_cause = Some(cause.clone());
        self.shown.last_probe = Some(wall);
    }

    /// Counts an observation; returns the new status and its cause if it changed.
    pub(super) fn observe(
        &mut self,
        outcome: Observation,
        took: Duration,
        awake: Duration,
        wall: SystemTime,
    ) -> Option<(HealthStatus, Cause)> {
        let to = self.evaluator.observe(&outcome, &self.shown.target.monitor);
        let conclusive = !matches!(outcome, Observation::Inconclusive(_));
        if conclusive {
            self.inconclusive_streak = 0;
            self.evidence = awake;
            self.shown.last_duration = Some(took);
            self.shown.last_probe = Some(wall);
        } else {
            self.inconclusive_streak = self.inconclusive_streak.saturating_add(1);
        }
        let (count, cause) = match outcome {
            Observation::Pass => (&mut self.shown.passes, None),
            Observation::Fail(cause) => (&mut self.shown.failures, Some(cause)),
            Observation::Inconclusive(cause) => (&mut self.shown.inconclusive, Some(cause)),
        };
        *count += 1;
        self.shown.last_cause.clone_from(&cause);
        let passes = self.evaluator.streak();
        Some((to?, cause.unwrap_or_else(|| Cause(format!("passes in a row: {passes}")))))
    }

    /// Expires the status if its last evidence is too old; returns the new status and its cause if it changed. A target that may not be
    /// probed stays down.
    pub(super) fn expire(&mut self, awake: Duration) -> Option<(HealthStatus, Cause)> {
        if !self.is_allowed {
            return None;
        }
        let age = awake.saturating_sub(self.evidence);
        let to = self.evaluator.expire(age / self.stretch, &self.shown.target.monitor)?;
        let why = self.shown.last_cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
        Some((to, Cause(format!("no evidence for {:.1}s{why}", age.as_secs_f64()))))
    }

    /// Adds a change of the status to the history.
    pub(super) fn changed(&mut self, to: HealthStatus, cause: Cause, wall: SystemTime) {
        self.shown.since = wall;
        if self.shown.history.len() == HISTORY_MAX {
            self.shown.history.remove(0);
        }
        // Most targets have one entry, and a vector that grows by itself has room for four.
        if self.shown.history.is_empty() {
            self.shown.history.reserve_exact(1);
        }
        self.shown.history.push(HistoryEntry { at: wall, to, cause });
    }

    fn state(&self) -> TargetState {
        TargetState { status: self.evaluator.status(), streak: self.evaluator.streak(), ..self.shown.clone() }
    }
}

/// All checked targets.
#[derive(Debug, Default)]
pub(super) struct TargetTable {
    /// In boxes: up to half of the places of a hash map are empty.
    pub(super) targets: HashMap<TargetKey, Box<CheckedTarget>>,
    /// Number of targets so far.
    count: u64,
    /// Keys in the order that was set.
    order: Vec<TargetKey>,
    epoch: u64,
    /// Number of addresses whose targets are probed less often than their monitors say.
    stretched: usize,
}

/// An address or a host name, at any port.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Host {
    Address(IpAddr),
    Name(String),
}

impl Host {
    fn of(address: &ProbeAddress) -> Self {
        match address {
            ProbeAddress::Address(address) | ProbeAddress::OfHost(address, _) => Self::Address(*address),
            ProbeAddress::Socket(socket) => Self::Address(socket.ip()),
            ProbeAddress::Host(name, _) => Self::Name(name.clone()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl TargetTable {
    /// Replaces the targets; returns the new keys and those to remove.
    pub(super) fn set(
        &mut self,
        entries: Vec<NewTarget>,
        awake: Duration,
        wall: SystemTime,
    ) -> (Vec<TargetKey>, Vec<TargetKey>) {
        // Equal monitors share a prepared one. A target keeps its own alive, so no other one can have the same address in memory.
        let name = |target: &Target, prepared: &Arc<_>| (target.address.clone(), Arc::as_ptr(prepared));
        let named = self.targets.iter().map(|(key, slot)| (name(&slot.shown.target, &slot.prepared), *key));
        let mut before: HashMap<_, _> = named.collect();
        let mut known = HashSet::new();
        let mut added = vec![];
        self.order.clear();
        self.epoch += 1;
        for entry in entries {
            let name = name(&entry.target, &entry.prepared);
            let there = before.remove(&name);
            if !known.insert(name) {
                continue;
            }
            let key = there.unwrap_or(TargetKey(self.count));
            if let Some(slot) = self.targets.get_mut(&key) {
                slot.shown.target = entry.target;
                slot.stretch_min = entry.stretch;
            } else {
                self.count += 1;
                self.targets.insert(key, Box::new(CheckedTarget::new(entry, awake, wall)));
                added.push(key);
            }
            self.order.push(key);
        }
        self.stretch_periods();
        (added, before.into_values().collect())
    }

    /// Stretches the periods of targets at addresses with too many of them.
    fn stretch_periods(&mut self) {
        let mut rates: HashMap<Host, f64> = HashMap::new();
        let probed = |slot: &&CheckedTarget| slot.prepared.fixed().is_none();
        for slot in self.order.iter().filter_map(|key| self.targets.get(key).map(|slot| &**slot)).filter(probed) {
            *rates.entry(Host::of(&slot.target().address)).or_default() += slot.monitor().period.as_secs_f64().recip();
        }
        rates.retain(|_, rate| *rate > ADDRESS_RATE_MAX);
        for slot in self.targets.values_mut() {
            let rate = if rates.is_empty() { None } else { rates.get(&Host::of(&slot.target().address)) };
            slot.stretch = rate.map_or(1, |rate| (rate / ADDRESS_RATE_MAX).ceil() as u32).max(slot.stretch_min);
        }
        let is_more = std::mem::replace(&mut self.stretched, rates.len()) < rates.len();
        if let Some((most, rate)) = rates.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|_| is_more) {
            let (addresses, per_second) = (rates.len(), rate.round());
            tracing::warn!(addresses, %most, per_second, "too many probes of one address, so their periods are longer");
        }
    }

    /// Returns at most `count` states from a position on, in the order that was set.
    pub(super) fn states(&self, from: usize, count: usize) -> StatesPage {
        let keys = self.order.get(from..).unwrap_or(&[]);
        let states = keys.iter().take(count).filter_map(|key| self.targets.get(key)).map(|slot| slot.state());
        StatesPage { epoch: self.epoch, states: states.collect(), last: keys.len() <= count }
    }
}

/// Consecutive states of targets.
#[derive(Debug)]
pub(super) struct StatesPage {
    /// Number of the set of targets.
    pub(super) epoch: u64,
    /// The states.
    pub(super) states: Vec<TargetState>,
    /// True if none follow.
    pub(super) last: bool,
}
