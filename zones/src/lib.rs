//! Packet in, packet out: snapshot, lookup, steering, answers.
//!
//! No sockets, no clock, no async. [`respond()`] is the whole border between sockets and DNS.
#![deny(unsafe_code)]

mod balanced;
mod chunks;
mod client;
mod compile;
mod entries;
mod explain;
mod hash;
mod lookup;
mod memory;
mod paces;
mod place;
mod play;
mod respond;
mod runtime;
mod serving;
mod snapshot;
pub mod steer;
mod table;
mod tally;
mod times;
mod wire;

pub use chunks::{Chunks, ChunksIter};
pub use client::{Client, Draw, Now, Request, Transport};
pub use compile::{Touched, compile, recompile, revise};
pub use explain::{Explained, ExplainedRecord, ExplainedStep, NodeKind, StateIds, decode, explain};
pub use memory::give_back_memory;
pub use place::PlaceNote;
pub use play::{Heard, Played, Player};
pub use respond::{Outcome, Query, find, read, read_ahead, respond, write};
pub use runtime::{RuntimeState, TargetIndex};
pub use serving::ServingState;
pub use snapshot::{PoolInfo, ServerIdentity, ServerOptions, Slot, Snapshot, ZoneInfo};
pub use tally::{Asked, Dropped, RCODES, SLOTS_MAX, Sample, Tallies, Tally};
pub use times::{MemberTurn, ScheduleTurn};
