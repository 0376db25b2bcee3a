//! Who is due, probe it, judge it; and how much each cluster takes.
//!
//! `schedule`, `judge`, `observer` and [`balance`] are pure: time comes in as an argument. `probe` talks to the network;
//! `checker` is the loop around them. What operators force over a verdict is not known here; the daemon joins both.
#![forbid(unsafe_code)]

pub mod balance;
mod checker;
mod evaluator;
pub mod load;
mod observer;
mod probe;
mod schedule;

pub use checker::{Checker, CheckerSettings, HealthTransition, HistoryEntry, Observer, Restored, TargetState, Totals};
pub use evaluator::Evaluator;
pub use probe::{MonitorError, check_monitor};
