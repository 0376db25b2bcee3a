//! Metrics, logs and traces: what an operator's own tools read.
//!
//! Nothing is counted here: counters live where things happen, and are gathered when somebody asks.

pub mod logs;
mod process;
pub(crate) mod query_log;
mod sheet;
pub(crate) mod traces;

pub(crate) use sheet::Sheet;
