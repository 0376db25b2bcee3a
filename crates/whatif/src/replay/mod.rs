//! What a changed configuration would do, before it is applied: recorded queries, played by the code that answers.
//!
//! `lines_wire` reads the query log, `compare` counts what two configurations answer, `report_wire` is what is printed.
//! Nothing is probed: every target is taken to be up, but for clusters that are played down.

mod compare;
mod lines_wire;
mod report_wire;

pub use compare::{Comparison, Sides};
pub use lines_wire::{Line, LogLines};
pub use report_wire::{ClusterShare, PoolReport, Report};
