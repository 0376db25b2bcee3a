//! What the daemon shows and takes over HTTP: health, metrics, state, explain, objects, commands.
//!
//! Two listeners speak the same routes. Who may do what over the TCP one (loopback by default) is decided by `access`; over the unix
//! socket in the data folder root and the daemon's own user may do all. Nothing here decides: `control` does.
#![forbid(unsafe_code)]

mod contributions;
pub mod explain;
mod explain_words;
mod gate;
mod handover;
mod intents;
mod latency;
mod listen;
mod load;
#[cfg(test)]
mod manual_tests;
pub mod metrics;
mod objects;
mod once;
mod openapi;
mod overrides;
mod page;
mod permission;
mod problem;
mod publishing;
mod route;
mod routes;
mod server;
mod traced;
mod watch;
pub mod watch_wire;
mod webhook;

pub use explain::explanation;
pub use explain_words::percent;
pub use listen::{Api, bind_socket};
pub use webhook::Webhook;
