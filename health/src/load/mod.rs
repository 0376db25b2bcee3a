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
mod board;
mod exposition;
mod failure;
mod gateway;
mod ladder;
mod reader;
mod state;
mod work;

pub use board::{ClusterLoadSettings, LoadAmount, LoadUpdate, PushError, PushedLoad};
pub use exposition::{Exposition, ExpositionError, LINE_MAX, Labels, Sample};
pub use failure::ReadError;
pub use gateway::{AMOUNT_MAX, GatewayCollector, GatewayError, GatewayMetrics, GatewayWarning, SERIES_MAX};
pub use reader::{LoadReader, LoadTotals};
pub use state::{ClusterLoad, LoadStatus, SourceLoad};
pub use work::check_load_source;

#[cfg(test)]
mod tests;
