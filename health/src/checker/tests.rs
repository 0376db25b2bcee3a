//! The loop in paused time, over probes that answer as a test says.

mod doubt;
mod pace;
mod targets;
mod world;
