//! The load of clusters: read from their gateways and from other sources, pushed by operators, and joined on one board.
//!
//! `exposition`, `gateway`, `ladder` and `board` are pure: time comes in as an argument.

pub mod board;
pub mod exposition;
pub mod failure;
pub mod gateway;
pub mod ladder;
pub mod state;

#[cfg(test)]
mod tests;
