//! The effect of a changed configuration on recorded queries, before it is applied.
//!
//! `lines_wire` reads the query log, `compare` answers the queries under two configurations and counts, `report_wire` is the report.
//! Nothing is probed: every target counts as up, except those of clusters that the caller declares down.

mod compare;
mod lines_wire;
mod report_wire;

pub use compare::{Comparison, Sides};
pub use lines_wire::{Line, LogLines};
pub use report_wire::{ClusterShare, PoolReport, Report};
