//! What would happen: scenarios in virtual time, recorded queries against another configuration, and what fails with what.
//!
//! Nothing here probes, opens a socket or changes a running server. What decides is the server's own code.
#![forbid(unsafe_code)]

pub mod impact;
pub mod replay;
pub mod simulate;
