//! Logs, metrics, traces and the query log: what an operator's own tools read.
//!
//! Nothing is counted here: counters live where events happen, and are gathered at each scrape.
#![forbid(unsafe_code)]

pub mod logs;
mod memory;
mod process;
pub mod query_log;
mod sheet;
pub mod traces;

pub use memory::usable_memory;
pub use sheet::Sheet;
