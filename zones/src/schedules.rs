//! Schedules: the part of the runtime state that says which members are closed at a time.
//!
//! The controller calls [`RuntimeState::at`] about once a second. [`Schedule::state_at`] evaluates one schedule.

use std::{fmt, sync::Arc};

use fairway_model::{ClusterName, PoolName, Schedule, ScheduleState, Timestamp};

use crate::{runtime::RuntimeState, snapshot::Snapshot, steer::SteerPool};

/// States of the schedules of a snapshot at a time.
#[derive(Debug)]
pub(crate) struct ScheduleStates {
    /// One bit per member, set if it is closed, in whole words per pool. Only pools that use schedules have words.
    closed: Box<[u64]>,
    /// Status of each schedule, by its number.
    statuses: Box<[Arc<ScheduleStatus>]>,
    /// Time of the evaluation.
    at: Timestamp,
    /// Time of the next evaluation.
    due: Timestamp,
    /// Part of the closed members in the id of the runtime state.
    pub(crate) id: u64,
}

/// State of a member's schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleStatus {
    /// Open or closed, and until when.
    pub state: ScheduleState,
    /// Time of the next change in the schedule's time zone. `None` if no change is known.
    pub until: Option<String>,
}

impl fmt::Display for ScheduleStatus {
    /// `closed: opens 2026-11-23T08:00:00+01:00[Europe/Berlin]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.state.open, &self.until) {
            (true, Some(until)) => write!(f, "open: closes {until}"),
            (true, None) => f.write_str("open: closes at no known time"),
            (false, Some(until)) => write!(f, "closed: opens {until}"),
            (false, None) => f.write_str("closed: opens at no known time"),
        }
    }
}

impl ScheduleStatus {
    fn new(schedule: &Schedule, at: Timestamp) -> Self {
        let state = schedule.state_at(at);
        Self { state, until: state.until.map(|until| schedule.show(until)) }
    }

    /// True if the status still holds at a time that is not before its evaluation.
    fn holds(&self, at: Timestamp) -> bool {
        self.state.until.is_some_and(|until| at < until)
    }
}

/// A member that its schedule opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleChange {
    /// The pool.
    pub pool: PoolName,
    /// The member's cluster.
    pub cluster: ClusterName,
    /// New status of its schedule.
    pub status: Arc<ScheduleStatus>,
}

impl ScheduleStates {
    /// Evaluates the schedules. Reuses the states `before` that still hold, unless the clock was set back.
    pub(crate) fn new(snapshot: &Snapshot, at: Timestamp, before: Option<&Self>) -> Self {
        let schedules = &snapshot.targets.schedules;
        let known = before.filter(|before| before.at <= at && before.statuses.len() == schedules.len());
        let status = |(number, schedule): (usize, &Schedule)| {
            let known = known.map(|known| &known.statuses[number]).filter(|status| status.holds(at));
            known.map_or_else(|| Arc::new(ScheduleStatus::new(schedule, at)), Arc::clone)
        };
        let statuses: Box<[_]> = schedules.iter().enumerate().map(status).collect();
        let [_, closed_words] = snapshot.targets.words();
        let mut closed = vec![0; closed_words];
        let mut id = 0u64;
        for pool in snapshot.pools.iter() {
            let words = &mut closed[pool.closed_words()];
            for (member, schedule) in &pool.details.schedules {
                if !statuses[*schedule as usize].state.open {
                    words[usize::from(member / 64)] |= 1 << (member % 64);
                }
            }
            id = id.wrapping_add(pool.closed_hash(words));
        }
        let due = statuses.iter().filter_map(|status| status.state.until).fold(at.plus(LOOK_AGAIN), Timestamp::min);
        Self { closed: closed.into(), statuses, at, due, id }
    }

    /// Returns the time of the evaluation.
    pub(crate) fn evaluated_at(&self) -> Timestamp {
        self.at
    }

    /// True if an evaluation at this time would give the same. False if the clock was set back.
    pub(crate) fn holds(&self, at: Timestamp) -> bool {
        self.at <= at && at < self.due
    }

    /// Returns the closed members of a pool, one bit per number.
    pub(crate) fn closed(&self, pool: &SteerPool) -> &[u64] {
        self.closed.get(pool.closed_words()).unwrap_or_default()
    }
}

impl RuntimeState {
    /// Returns the status of a member's schedule, or `None` if it has none.
    pub fn schedule(&self, snapshot: &Snapshot, pool: &PoolName, cluster: &ClusterName) -> Option<&ScheduleStatus> {
        let pool = &snapshot.steer_pools()[snapshot.indices_of(pool).next()?];
        let number = pool.clusters().position(|of| of == cluster)?;
        pool.schedule_status(u8::try_from(number).ok()?, self).map(|status| &**status)
    }

    /// Returns when the next member of a pool opens or closes, or `None` if no change is known.
    pub fn next_schedule_change(&self, pool: &SteerPool) -> Option<Timestamp> {
        pool.details.schedules.iter().filter_map(|(member, _)| pool.schedule_status(*member, self)?.state.until).min()
    }

    /// Returns the members that are open here and closed in `before`, or the other way round.
    pub fn schedule_changes(&self, snapshot: &Snapshot, before: &Self) -> Vec<ScheduleChange> {
        let mut schedule_changes: Vec<ScheduleChange> = Vec::new();
        for pool in snapshot.pools.iter() {
            for (member, _) in &pool.details.schedules {
                let was_open = pool.schedule_status(*member, before).is_none_or(|status| status.state.open);
                let Some(status) = pool.schedule_status(*member, self).filter(|status| status.state.open != was_open)
                else {
                    continue;
                };
                let (name, cluster) = (pool.name().clone(), pool.cluster(*member).clone());
                let status = ScheduleChange { pool: name, cluster, status: Arc::clone(status) };
                // A pool may be compiled once per zone.
                if !schedule_changes.contains(&status) {
                    schedule_changes.push(status);
                }
            }
        }
        schedule_changes
    }
}

impl SteerPool {
    /// Returns the status of a member's schedule, by the member's number.
    pub(crate) fn schedule_status<'a>(&self, number: u8, runtime: &'a RuntimeState) -> Option<&'a Arc<ScheduleStatus>> {
        let (_, schedule) = self.details.schedules.iter().find(|(member, _)| *member == number)?;
        runtime.schedule_states.as_ref()?.statuses.get(*schedule as usize)
    }

    /// True if a member's schedule has closed it.
    pub fn is_closed(&self, number: u8, runtime: &RuntimeState) -> bool {
        self.schedule_status(number, runtime).is_some_and(|status| !status.state.open)
    }
}

/// Schedules without a known change are evaluated once a day. Changes are seen weeks ahead.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
