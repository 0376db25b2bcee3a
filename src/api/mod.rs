//! What the daemon shows and takes over HTTP: health, metrics, state, explain; and, on a local socket, commands.
//!
//! Two listeners speak the same routes. The TCP one (loopback by default) only shows. The unix socket in the data folder
//! also takes commands, from root and from the daemon's own user alone. Nothing here decides: `control` does.

pub mod client;
pub mod explain_wire;
mod explain_words;
mod latency;
pub mod latency_wire;
mod listen;
mod load;
pub mod load_wire;
mod objects;
pub mod objects_wire;
mod problem;
mod routes;
pub mod state_wire;
mod watch;
pub mod watch_wire;

pub(crate) use explain_words::percent;
pub(crate) use listen::{Api, bind_socket};
