//! Derives the runtime state: health, schedules, shares and TTLs of the snapshot that is served.
//!
//! ```text
//! health transitions ─┐
//! overrides ──────────┤
//! exhausted gateways ─┤
//! clock ──────────────┼─► next(serving state, event, time) ─► runtime state ─► swap
//! demand, shares ─────┘
//! ```
//! Nothing here reads a clock, waits or does I/O: the result follows from the state, the event, the time and earlier events.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_model::{Check, Health, HealthStatus, Monitor, OverrideAction, Target, Timestamp};
use fairway_zones::{RuntimeState, ServingState, Snapshot, TargetIndex};

use super::{
    adaptive_ttl::AdaptiveTtls, balance::Balance, configured::Configured, exhausted::ExhaustedClusters,
    lifecycle::Moment, served::CurrentState, uses::TargetUses,
};

/// A reason to derive the runtime state again.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// Targets whose health status changed.
    Health(&'a [(TargetIndex, HealthStatus)]),
    /// Overrides changed: the action of each target, by its index.
    Overrides(Vec<Option<OverrideAction>>),
    /// The targets of exhausted clusters changed to these.
    Exhausted(HashSet<TargetIndex>),
    /// A second has passed.
    Second,
    /// The demand was sampled.
    Demand,
    /// Shares were decided, here or by the leader.
    Shares,
}

/// The inputs of the runtime state besides the events.
#[derive(Default)]
pub(crate) struct RuntimeInputs {
    /// The override of each target, by its index in the snapshot that is served.
    pub(crate) overrides: Vec<Option<OverrideAction>>,
    /// Clusters whose gateways drain or are overloaded.
    pub(crate) exhausted: ExhaustedClusters,
    /// Shares of clusters that are balanced by load.
    pub(crate) balance: Balance,
    /// TTLs of pools with bounds.
    pub(crate) ttls: AdaptiveTtls,
}

impl RuntimeInputs {
    /// Returns the runtime state after an event, or `None` if nothing changed.
    ///
    /// The order is fixed: health and schedules decide which clusters are available, these decide shares, and all of them decide TTLs.
    pub(crate) fn next(&mut self, state: &ServingState, event: Event<'_>, now: Moment) -> Option<RuntimeState> {
        let (snapshot, before) = (&state.snapshot, &*state.runtime);
        let is_demand = matches!(event, Event::Demand);
        let mut is_share_due = matches!(event, Event::Shares);
        let mut next = match event {
            Event::Health(statuses) => with_statuses(state, statuses),
            Event::Overrides(overrides) => self.with_overrides(state, overrides),
            Event::Exhausted(targets) => with_exhausted(state, &targets),
            Event::Second => before.at(snapshot, now.wall),
            Event::Demand | Event::Shares => None,
        };
        // A cluster that becomes available or unavailable changes the tables at once, not only after the next report.
        is_share_due |= self.balance.advance(next.as_ref().unwrap_or(before), now.monotonic);
        if is_share_due {
            next = self.balance.with_shares(snapshot, next.as_ref().unwrap_or(before)).or(next);
        }
        // Demand is sampled 20 times a second, and changes no TTL unless it changed something else.
        if next.is_some() || !is_demand {
            next = self.ttls.with_ttls(snapshot, next.as_ref().unwrap_or(before), &self.balance, now).or(next);
        }
        next
    }

    /// Returns the serving state of a new snapshot. Health status, shares and memories of the previous state are kept.
    pub(crate) fn reload(&mut self, reload: Reload<'_>, now: Moment) -> ServingState {
        let Reload { snapshot, previous, configured, statuses, overrides } = reload;
        let exhausted = self.exhausted.targets(&configured.uses);
        let health = |target: TargetIndex| {
            let at = target.0 as usize;
            Health::new(statuses[at], overrides[at]).with_exhausted(exhausted.contains(&target))
        };
        let mut state = serving_state(snapshot, previous, now.wall, health);
        self.overrides = overrides;
        self.balance.follow(&configured.merged.desired, &state.snapshot, now.monotonic);
        self.ttls.follow(&state.snapshot);
        if let Some(runtime) = self.next(&state, Event::Shares, now) {
            state.runtime = Arc::new(runtime);
        }
        state
    }

    fn with_overrides(&mut self, state: &ServingState, overrides: Vec<Option<OverrideAction>>) -> Option<RuntimeState> {
        let targets = (0..).map(TargetIndex);
        let changes: Vec<_> = targets
            .zip(self.overrides.iter().zip(&overrides))
            .filter(|(_, (before, after))| before != after)
            .map(|(target, (_, after))| (target, state.runtime.health(target).with_override(*after)))
            .collect();
        self.overrides = overrides;
        with_changes(state, &changes)
    }
}

fn with_statuses(state: &ServingState, statuses: &[(TargetIndex, HealthStatus)]) -> Option<RuntimeState> {
    let health =
        |(target, status): &(TargetIndex, HealthStatus)| (*target, state.runtime.health(*target).with_status(*status));
    with_changes(state, &statuses.iter().map(health).collect::<Vec<_>>())
}

fn with_exhausted(state: &ServingState, exhausted: &HashSet<TargetIndex>) -> Option<RuntimeState> {
    let targets = (0..).map(TargetIndex).zip(state.snapshot.targets());
    let changes = targets.filter_map(|(target, _)| {
        let before = state.runtime.health(target);
        let after = before.with_exhausted(exhausted.contains(&target));
        (after != before).then_some((target, after))
    });
    with_changes(state, &changes.collect::<Vec<_>>())
}

fn with_changes(state: &ServingState, changes: &[(TargetIndex, Health)]) -> Option<RuntimeState> {
    (!changes.is_empty()).then(|| state.runtime.with(&state.snapshot, changes))
}

/// A new snapshot, with what its runtime state begins with.
pub(crate) struct Reload<'a> {
    pub(crate) snapshot: Snapshot,
    /// `None` at the start.
    pub(crate) previous: Option<&'a ServingState>,
    /// The configuration of the snapshot.
    pub(crate) configured: &'a Configured,
    /// Health status of each target, by its index in the snapshot.
    pub(crate) statuses: Vec<HealthStatus>,
    /// The override of each target, by its index in the snapshot.
    pub(crate) overrides: Vec<Option<OverrideAction>>,
}

/// Returns a snapshot with its runtime state at a moment. Pools keep what they remember from the previous state.
pub fn serving_state(
    snapshot: Snapshot,
    previous: Option<&ServingState>,
    now: Timestamp,
    health: impl Fn(TargetIndex) -> Health,
) -> ServingState {
    let runtime = match previous {
        Some(previous) => RuntimeState::after(&snapshot, (&previous.snapshot, &previous.runtime), now, health),
        None => RuntimeState::new_at(&snapshot, now, health),
    };
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

/// Health of targets that left, for an hour: load balancers rotate their addresses, and services lose their endpoints for a while.
#[derive(Debug, Default)]
pub(crate) struct DepartedTargets(HashMap<Target, (HealthStatus, Instant)>);

impl DepartedTargets {
    /// Returns the status of each target of a new snapshot, with these uses. Known targets keep theirs.
    pub(crate) fn statuses_after(
        &mut self,
        previous: &CurrentState,
        snapshot: &Snapshot,
        uses: &TargetUses,
        now: Instant,
    ) -> Vec<HealthStatus> {
        let before = &previous.published.configured.uses;
        let status = |target| previous.runtime.health(target).status();
        self.0.retain(|_, (_, left)| now.saturating_duration_since(*left) < DEPARTED_KEPT);
        let is_same = Arc::ptr_eq(previous.snapshot.target_indexes(), snapshot.target_indexes());
        let before_all = if is_same { &[][..] } else { previous.snapshot.targets() };
        for (index, target) in (0..).map(TargetIndex).zip(before_all) {
            let is_evaluated = status(index) != HealthStatus::Pending && target.monitor.check != Check::Never;
            if is_evaluated && self.0.len() < DEPARTED_MAX && uses.number_of(target).is_none() {
                self.0.insert(target.clone(), (status(index), now));
            }
        }
        let targets = (0..).map(TargetIndex).zip(snapshot.targets());
        let statuses = targets.map(|(index, target)| match before.number_of(target) {
            Some(known) => status(known),
            None => {
                let departed = self.0.remove(target).map(|(status, _)| status);
                let of_others = previous_targets(before, uses, index)
                    .filter(|other| previous.snapshot.targets()[other.0 as usize].monitor.check != Check::Never);
                status_of_new(&target.monitor, departed.into_iter().chain(of_others.map(status)))
            }
        });
        statuses.collect()
    }
}

/// Time for which the health of a target that left is kept.
const DEPARTED_KEPT: Duration = Duration::from_secs(3_600);
/// Maximum number of such targets.
const DEPARTED_MAX: usize = 65_536;

/// Returns the status of a target that was never evaluated. `previous` are the statuses of the targets that it replaces, if any.
///
/// A changed monitor must not change answers before its first result: otherwise all members of a pool would be pending at once, and those
/// that are down would be answered. The evidence of the previous monitor is kept as what it is: stale.
pub(crate) fn status_of_new(monitor: &Monitor, mut previous: impl Iterator<Item = HealthStatus>) -> HealthStatus {
    match monitor.check {
        Check::Always => return HealthStatus::Up,
        Check::Never => return HealthStatus::Down,
        _ => {}
    }
    match previous.find(|status| *status != HealthStatus::Pending) {
        Some(HealthStatus::Up | HealthStatus::Unknown) => HealthStatus::Unknown,
        Some(status) => status,
        None => HealthStatus::Pending,
    }
}

/// Returns the previous targets of the same addresses in the same pools: those of another monitor.
fn previous_targets<'a>(
    before: &'a TargetUses,
    uses: &'a TargetUses,
    target: TargetIndex,
) -> impl Iterator<Item = TargetIndex> + use<'a> {
    let pools = uses.pools(target).keys();
    pools.flat_map(move |pool| uses.addresses(target).flat_map(move |address| before.targets(pool, address)))
}
