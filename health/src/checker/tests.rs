//! The checker in paused time, with a simulated network.

mod inconclusive;
mod network;
mod targets;
mod timing;
