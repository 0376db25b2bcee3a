//! Joins sources, health and force into the serving state, and runs the daemon around it.
//!
//! ```text
//!  files ─ configured (read, compile; a thread of its own) ─┐
//!  checker ─ flips ─────────────────────────────────────────┼─ actor ─ ServingState ─▶ serve
//!  API, signals ─ commands (reload, overrides, stop) ───────┘    └─── Published ─▶ status, metrics, explain
//! ```
//! One task, the actor, owns everything that changes; others send it commands through [`Control`] and read what it
//! publishes. What it decides becomes a new [`ServingState`](fairway_zones::ServingState) by one pointer swap; the answer path never waits
//! for it, and it frees what the answer path has left behind.
#![forbid(unsafe_code)]

mod actor;
mod affected;
mod balance;
pub mod begin;
mod book;
mod changes;
pub mod command;
pub mod compile;
pub mod configured;
pub mod contributed;
pub mod declared;
mod drains;
mod handle;
mod intents;
mod keeper;
mod latency;
mod load;
mod merge;
pub mod objects;
mod offline;
mod pace;
pub mod publishing;
mod reload;
mod retired;
pub mod samples;
mod schedules;
pub mod shared;
mod status;
mod story;
mod traced;
mod transitions;
mod transports;
pub mod trial;
pub mod truth;
mod uses;
pub mod watch;

pub use configured::Configured;
pub use shared::{Published, Readiness, Shared};
pub use story::{PoolMoved, Story};

pub use handle::{AppliedTransition, Control, ControlError, ExplainedNow, Stopping};
pub use offline::{Offline, of_files};

#[cfg(test)]
mod tests;
