//! What the daemon shows and takes over HTTP: health, metrics, state, explain, objects, commands.
//!
//! Two listeners speak the same routes. Who may do what over the TCP one (loopback by default) is decided by `access`; over the unix
//! socket in the data folder root and the daemon's own user may do all. Nothing here decides: `control` does.

pub mod client;
mod contributions;
pub mod contributions_wire;
pub mod explain_wire;
mod explain_words;
mod gate;
mod handover;
mod intents;
pub mod intents_wire;
mod latency;
pub mod latency_wire;
mod listen;
mod load;
pub mod load_wire;
pub(crate) mod metrics;
mod need;
mod objects;
pub mod objects_wire;
mod openapi;
mod operations;
mod patient_body;
mod problem;
mod publishing;
pub mod publishing_wire;
mod routes;
pub mod state_wire;
mod table;
mod traced;
mod watch;
pub mod watch_wire;
mod webhook;

pub(crate) use explain_words::percent;
pub(crate) use listen::{Api, bind_socket};
pub(crate) use webhook::Webhook;
