//! The load of clusters: read from their gateways and from other sources, pushed by operators, and joined on one board.
//!
//! ```text
//! due ──▶ errand (work) ──▶ samples (exposition) ──▶ what a gateway shows (gateway) ──┐
//!                       └─▶ JSON, PromQL (answers_wire) ───────────────────────────────┴─▶ board ──▶ news
//! push ────────────────────────────────────────────────────────────────────────────────▶ board
//! ```
//! `exposition`, `gateway`, `ladder` and `board` are pure: time comes in as an argument. `reader` is the loop around them.
//! What follows from a load is not decided here.

mod answers_wire;
pub mod board;
pub mod exposition;
pub mod failure;
pub mod gateway;
pub mod ladder;
mod reader;
pub mod state;
mod work;

pub use board::{ClusterFeed, LoadNews};
pub use reader::{LoadTotals, Loads};
pub use state::ClusterLoad;
pub use work::check_load_source;

#[cfg(test)]
mod tests;
