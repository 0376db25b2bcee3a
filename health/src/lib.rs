//! Health checks: schedules probes, sends them and evaluates their results; reads load.
//!
//! `schedule`, `evaluator` and `observer` are pure: time is an argument. `probe` and [`load`] do I/O; `checker`
//! is the loop around them; `fence` decides if a connection is allowed at all. Operator overrides are not known here; control combines them with the health status.
#![forbid(unsafe_code)]

mod checker;
mod evaluator;
mod fence;
pub mod load;
mod observer;
mod probe;
mod schedule;

pub use checker::{
    Checker, DeclaredTarget, HealthTransition, HistoryEntry, Observer, ProbeTotals, RestoredState, TargetState,
};
pub use evaluator::Evaluator;
pub use fence::{Fence, FenceRules, NotAllowed, ProbeNetworks};
pub use probe::{MonitorError, check_monitor};
