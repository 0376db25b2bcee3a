//! Joins sources, health and force into the view that is served, and runs the daemon around it.
//!
//! One task owns everything that changes (`actor`); others send it commands through [`Control`]. What it decides becomes
//! a new [`View`](fairway_zones::View), published by one pointer swap; the answer path never waits for it.

mod daemon;
mod handle;

pub use daemon::{Daemon, Environment, Options, StartError};
pub use handle::{Control, ControlError, FlipApplied, Stopping};
