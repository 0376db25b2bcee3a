//! Who is due, probe it, judge it.
//!
//! `schedule` and `judge` are pure: time comes in as an argument. `probe` talks to the network.
//! What operators force over a verdict is not known here; the daemon joins both.
#![forbid(unsafe_code)]

mod checker;

pub use checker::{Checker, CheckerSettings, Flip, HistoryEntry, Restored, TargetState};
