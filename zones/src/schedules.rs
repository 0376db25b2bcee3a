//! Which members are closed by their schedules at a moment, for one snapshot.
//!
//! A bit a member stands beside health in [`RuntimeState`]; whoever looks at a clock asks now and then for the runtime state of the
//! moment. What a schedule says at a moment is [`Schedule::state_at`].

use std::{fmt, sync::Arc};

use fairway_model::{ClusterName, PoolName, Schedule, ScheduleState, Timestamp};

use crate::{chunks::Chunks, runtime::RuntimeState, snapshot::Snapshot, steer::SteerPool};

/// How schedules stand at a moment.
#[derive(Debug)]
pub(crate) struct ScheduleStates {
    /// One bit a member that is closed, by its number, in whole words a pool; only pools that heed schedules have some.
    closed: Box<[u64]>,
    /// Each schedule by its number.
    statuses: Box<[Arc<ScheduleStatus>]>,
    /// When this was looked at.
    at: Timestamp,
    /// When it is to be looked at again.
    due: Timestamp,
    /// What they add to the id of runtime state.
    pub(crate) id: u64,
}

/// How the schedule of a member stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleStatus {
    /// Whether it takes part, and until when.
    pub state: ScheduleState,
    /// That moment by the clock of the schedule's zone; none where no change is in sight.
    pub until: Option<String>,
}

impl fmt::Display for ScheduleStatus {
    /// `closed: opens 2026-11-23T08:00:00+01:00[Europe/Berlin]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.state.open, &self.until) {
            (true, Some(until)) => write!(f, "open: closes {until}"),
            (true, None) => f.write_str("open: closes at no time that is in candidacy"),
            (false, Some(until)) => write!(f, "closed: opens {until}"),
            (false, None) => f.write_str("closed: opens at no time that is in candidacy"),
        }
    }
}

impl ScheduleStatus {
    fn new(schedule: &Schedule, at: Timestamp) -> Self {
        let state = schedule.state_at(at);
        Self { state, until: state.until.map(|until| schedule.show(until)) }
    }

    /// Whether it still says what it said at a moment that is not past this one.
    fn holds(&self, at: Timestamp) -> bool {
        self.state.until.is_some_and(|until| at < until)
    }
}

/// A member whose schedule opened or closed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleChange {
    /// The pool.
    pub pool: PoolName,
    /// The member's cluster.
    pub cluster: ClusterName,
    /// How its schedule stands now.
    pub status: Arc<ScheduleStatus>,
}

impl ScheduleStates {
    /// How schedules stand; of those that were looked at before and not later, only what may have changed is looked at anew.
    pub(crate) fn new(schedules: &[Schedule], pools: &Chunks<SteerPool>, at: Timestamp, before: Option<&Self>) -> Self {
        let known = before.filter(|before| before.at <= at && before.statuses.len() == schedules.len());
        let status = |(number, schedule): (usize, &Schedule)| {
            let known = known.map(|known| &known.statuses[number]).filter(|status| status.holds(at));
            known.map_or_else(|| Arc::new(ScheduleStatus::new(schedule, at)), Arc::clone)
        };
        let statuses: Box<[_]> = schedules.iter().enumerate().map(status).collect();
        let mut closed = vec![0; pools.iter().map(|pool| pool.closed_words().end).max().unwrap_or_default()];
        let mut id = 0u64;
        for pool in pools {
            let words = &mut closed[pool.closed_words()];
            for (member, schedule) in pool.schedules() {
                if !statuses[*schedule as usize].state.open {
                    words[usize::from(member / 64)] |= 1 << (member % 64);
                }
            }
            id = id.wrapping_add(pool.closed_hash(words));
        }
        let due = statuses.iter().filter_map(|status| status.state.until).fold(at.plus(LOOK_AGAIN), Timestamp::min);
        Self { closed: closed.into(), statuses, at, due, id }
    }

    /// Whether it is what a look at this moment would give. A clock that was set back says no.
    fn holds(&self, at: Timestamp) -> bool {
        self.at <= at && at < self.due
    }

    /// The members of a pool that are closed, by number, one bit each.
    pub(crate) fn closed(&self, pool: &SteerPool) -> &[u64] {
        self.closed.get(pool.closed_words()).unwrap_or_default()
    }

    /// How the schedule of this number stands.
    pub(crate) fn schedule_status(&self, schedule: u32) -> Option<&Arc<ScheduleStatus>> {
        self.statuses.get(schedule as usize)
    }
}

impl RuntimeState {
    /// The same runtime state at a moment; none where they are those of that moment already.
    ///
    /// To be asked each second or so: until the next member opens or closes that is two comparisons.
    pub fn at(&self, snapshot: &Snapshot, now: Timestamp) -> Option<Self> {
        let is_known = self.schedule_states().is_some_and(|schedule_states| schedule_states.holds(now));
        (!is_known && !snapshot.schedules().is_empty()).then(|| {
            let pools = snapshot.steer_pools();
            self.timed(pools, ScheduleStates::new(snapshot.schedules(), pools, now, self.schedule_states()))
        })
    }

    /// How the schedule of a pool's member stands; none for a member that has none.
    pub fn schedule(&self, snapshot: &Snapshot, pool: &PoolName, cluster: &ClusterName) -> Option<&ScheduleStatus> {
        let pool = &snapshot.steer_pools()[snapshot.indices_of(pool).next()?];
        let number = pool.clusters().position(|of| of == cluster)?;
        pool.schedule_status(u8::try_from(number).ok()?, self).map(|status| &**status)
    }

    /// When the next member of a pool opens or closes by its schedule; none where no change is in sight.
    pub fn next_schedule_change(&self, pool: &SteerPool) -> Option<Timestamp> {
        pool.schedules().iter().filter_map(|(member, _)| pool.schedule_status(*member, self)?.state.until).min()
    }

    /// Members that are open now and were closed in another runtime state of this snapshot, or the other way round.
    pub fn schedule_changes(&self, snapshot: &Snapshot, before: &Self) -> Vec<ScheduleChange> {
        let mut schedule_changes: Vec<ScheduleChange> = Vec::new();
        for pool in snapshot.steer_pools() {
            for (member, _) in pool.schedules() {
                let was_open = pool.schedule_status(*member, before).is_none_or(|status| status.state.open);
                let Some(status) = pool.schedule_status(*member, self).filter(|status| status.state.open != was_open)
                else {
                    continue;
                };
                let (name, cluster) = (pool.name().clone(), pool.cluster(*member).clone());
                let status = ScheduleChange { pool: name, cluster, status: Arc::clone(status) };
                // A pool may be compiled for several zones.
                if !schedule_changes.contains(&status) {
                    schedule_changes.push(status);
                }
            }
        }
        schedule_changes
    }
}

impl SteerPool {
    /// How the schedule of a member stands, by the member's number.
    pub(crate) fn schedule_status<'a>(&self, number: u8, runtime: &'a RuntimeState) -> Option<&'a Arc<ScheduleStatus>> {
        let (_, schedule) = self.schedules().iter().find(|(member, _)| *member == number)?;
        runtime.schedule_states()?.schedule_status(*schedule)
    }

    /// Whether the schedule of a member keeps it out under this runtime state.
    pub fn is_closed(&self, number: u8, runtime: &RuntimeState) -> bool {
        self.schedule_status(number, runtime).is_some_and(|status| !status.state.open)
    }
}

/// Schedules without a change in sight are looked at so often; a change is seen weeks ahead.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
