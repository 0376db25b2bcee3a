//! Scheduling of threads: those that answer queries run before all others.
//!
//! A query costs microseconds. If another thread holds the core, the query waits until that thread's time slice ends: milliseconds.
//! Threads that answer therefore run in short time slices, which makes the scheduler prefer them after a wake-up. All other threads have
//! a smaller share of the core and preempt nobody when they wake up. Neither needs a privilege.

use std::time::Duration;

use super::{batch::Scheduling, spare::ComputeGuard};

/// The shortest time slice that Linux grants; enough for a few batches.
const SLICE: Duration = Duration::from_micros(100);

/// Niceness of all other threads. Ten steps give them a tenth of the core (each step is a factor of 1.25, sched(7)) while answering
/// could use all of it, and otherwise all that answering leaves.
const OTHER_NICENESS: i32 = 10;

/// Niceness of long computations: a third of the share of other threads (five more steps), so that probes and API requests come first.
const COMPUTATION_NICENESS: i32 = 15;

/// Gives the calling thread the priority of a thread that answers queries.
pub(super) fn raise() {
    apply(Scheduling { is_batch: false, nicer_by: 0, slice: Some(SLICE) });
}

/// Gives the calling thread, and threads that it starts, the priority of a thread that answers no queries.
pub fn lower_priority() {
    apply(Scheduling { is_batch: true, nicer_by: OTHER_NICENESS, slice: None });
}

/// Gives the calling thread the priority of a long computation. Spare workers run as long as the returned guard lives.
pub fn lower_priority_of_computation() -> ComputeGuard {
    apply(Scheduling { is_batch: true, nicer_by: COMPUTATION_NICENESS, slice: None });
    ComputeGuard::begin()
}

fn apply(scheduling: Scheduling) {
    if let Err(error) = scheduling.apply() {
        tracing::debug!(%error, ?scheduling, "CPU share of thread not set");
    }
}
