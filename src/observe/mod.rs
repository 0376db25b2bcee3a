//! Metrics and logs: what an operator's own tools read.

pub mod logs;
