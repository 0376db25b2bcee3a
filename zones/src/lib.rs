//! Packet in, packet out: zone text, snapshot, lookup, steering, answers.
//!
//! No sockets, no clock, no async. [`respond()`] is the whole border between sockets and DNS.
#![deny(unsafe_code)]

mod client;
mod conditions;
mod respond;
mod snapshot;
pub mod steer;
mod tally;
pub mod text;
mod view;

pub use client::{Client, Draw, Now, Transport};
pub use conditions::{Conditions, TargetIndex};
pub use respond::{Outcome, respond};
pub use snapshot::{ServerIdentity, Slot, Snapshot, compile};
pub use tally::{Tallies, Tally};
pub use view::View;
