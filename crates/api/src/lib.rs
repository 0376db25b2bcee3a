//! The HTTP API: routes, auth middleware, OpenAPI, watch streams, metrics, the page.
//!
//! The HTTP listener and the control socket serve the same routes. Over HTTP the crate `access` decides if a caller has a route's
//! permission; over the control socket root and the daemon's own user may do everything. What a route does is decided by the crate
//! `control`.
#![forbid(unsafe_code)]

mod auth;
mod connections;
mod contributions;
mod explain;
mod explain_words;
mod handover;
mod health;
mod history;
mod idempotency;
mod intents;
mod latency;
mod listen;
mod load;
#[cfg(test)]
mod manual_tests;
pub mod metrics;
mod objects;
mod openapi;
mod outcome_wire;
mod overrides;
mod page;
mod permission;
mod problem;
mod publishing;
mod render;
mod route;
mod routes;
mod server;
mod serving;
mod state;
mod traced;
mod watch;
mod webhook;

pub use explain::{TargetNote, explanation, show_pins, show_weights};
pub use explain_words::percent;
pub use listen::{Api, bind_socket};
pub use render::state;
pub use webhook::Webhook;
