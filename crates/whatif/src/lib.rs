//! Tools that predict: a simulator in virtual time, a replay of recorded queries against another configuration, and the impact of failures.
//!
//! Nothing here probes, opens a socket or changes a running server. All decisions are made by the server's own code.
#![forbid(unsafe_code)]

pub mod impact;
mod offline;
pub mod replay;
pub mod simulate;

pub use self::offline::{Offline, of_files};
