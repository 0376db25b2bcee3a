//! The load of clusters: read from their gateways and from other sources, pushed by operators, and joined on one board.
//!
//! `exposition`, `gateway`, `ladder` and `board` are pure: time comes in as an argument.

pub mod exposition;
pub mod gateway;
pub mod ladder;

#[cfg(test)]
mod tests;
