//! The load of clusters: read from gateways and other sources, or pushed over the API, and combined in one table.
//!
//! ```text
//! due ──▶ read ──┬─▶ samples (exposition) ──▶ metrics of a gateway (gateway) ──▶ best signal (signals) ──┐
//!                └─▶ JSON, PromQL (answers_wire) ────────────────────────────────────────────────────────┼─▶ table ──▶ update
//! push ──────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! `exposition`, `gateway`, `signals` and `table` are pure: time is an argument. `reader` has the tasks around them. The
//! balancer decides what follows from a load.

mod answers_wire;
mod error;
mod exposition;
mod gateway;
mod get;
mod read;
mod reader;
mod services;
mod signals;
mod state;
mod table;

pub use error::ReadError;
pub use exposition::{Exposition, ExpositionError, LINE_MAX, Labels, Sample};
pub use gateway::{AMOUNT_MAX, GatewayCollector, GatewayError, GatewayMetrics, GatewayWarning, SERIES_MAX};
pub use read::{Gateways, check_load_source};
pub use reader::{LoadReader, LoadTotals};
pub use services::Services;
pub use state::{ClusterLoad, LoadStatus, SourceLoad};
pub use table::{ClusterLoadSettings, LoadAmount, LoadUpdate, PushError, PushedLoad};

#[cfg(test)]
mod tests;
