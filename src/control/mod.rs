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

pub(crate) mod actor;
pub(crate) mod affected;
pub(crate) mod balance;
pub(crate) mod begin;
pub(crate) mod book;
pub(crate) mod changes;
pub(crate) mod command;
pub(crate) mod compile;
pub(crate) mod configured;
pub(crate) mod contributed;
pub(crate) mod declared;
pub(crate) mod drains;
pub(crate) mod handle;
pub(crate) mod intents;
pub(crate) mod keeper;
pub(crate) mod latency;
pub(crate) mod load;
pub(crate) mod merge;
pub(crate) mod objects;
pub(crate) mod offline;
pub(crate) mod pace;
pub(crate) mod publishing;
pub(crate) mod reload;
pub(crate) mod retired;
pub(crate) mod samples;
pub(crate) mod schedules;
pub(crate) mod shared;
pub(crate) mod status;
pub(crate) mod story;
pub(crate) mod traced;
pub(crate) mod transitions;
pub(crate) mod transports;
pub(crate) mod trial;
pub(crate) mod truth;
pub(crate) mod uses;
pub(crate) mod watch;

pub(crate) use configured::Configured;
pub(crate) use shared::{Published, Readiness, Shared};
pub(crate) use story::{PoolMoved, Story};

pub use handle::{AppliedTransition, Control, ControlError, ExplainedNow, Stopping};
pub use offline::{Offline, of_files};

#[cfg(test)]
mod tests;
