//! Bodies of the HTTP API (JSON in camelCase), and the client that uses them.
//!
//! The crate `api` fills these bodies; the command line and tests read them.
#![forbid(unsafe_code)]

pub mod client;
pub mod contributions_wire;
pub mod endpoints;
pub mod explain_wire;
pub mod history_wire;
pub mod intent_status_wire;
pub mod intents_wire;
pub mod kubernetes_wire;
pub mod latency_wire;
pub mod load_wire;
pub mod objects_wire;
pub mod overrides_wire;
pub mod problem_wire;
pub mod publishing_wire;
pub mod state_wire;
pub mod watch_wire;
