//! Joins sources, health and force into the view that is served, and runs the daemon around it.
//!
//! ```text
//!  files ─ configured (read, compile; a thread of its own) ─┐
//!  checker ─ flips ─────────────────────────────────────────┼─ actor ─ View ─▶ serve
//!  API, signals ─ commands (reload, overrides, stop) ───────┘    └─── Published ─▶ status, metrics, explain
//! ```
//! One task, the actor, owns everything that changes; others send it commands through [`Control`] and read what it
//! publishes. What it decides becomes a new [`View`](fairway_zones::View) by one pointer swap; the answer path never waits
//! for it, and it frees what the answer path has left behind.

mod actor;
mod affected;
mod announce;
mod balance;
mod book;
mod bound;
mod changes;
mod command;
mod compile;
mod configured;
pub(crate) mod contributed;
mod daemon;
pub(crate) mod declared;
mod drains;
mod flips;
mod handle;
mod intents;
mod keeper;
mod latency;
mod load;
mod merge;
pub(crate) mod objects;
mod offline;
mod pace;
mod publishing;
mod reload;
mod replace;
mod retired;
pub(crate) mod schedules;
mod shared;
mod signals;
mod start;
mod status;
mod story;
mod traced;
mod transports;
pub(crate) mod trial;
pub(crate) mod truth;
mod uses;
mod watch;

pub(crate) use configured::Configured;
pub(crate) use shared::{Published, Readiness, Shared};
pub(crate) use story::{PoolMoved, Story};

pub use daemon::{Daemon, Environment, Options};
pub use handle::{Control, ControlError, ExplainedNow, FlipApplied, Stopping};
pub use offline::{Offline, of_files};
pub use start::StartError;

#[cfg(test)]
mod tests;
