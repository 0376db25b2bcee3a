//! Answers DNS queries: compiles zones and pools to a snapshot, looks names up, steers, writes responses.
//!
//! The crate has no sockets, no clock and no async code. [`respond()`] is the whole interface between transports and
//! DNS.
#![deny(unsafe_code)]

mod adaptive_ttl;
mod balanced_pools;
mod client;
mod compile;
mod cookie;
mod entries;
mod explain;
mod hash;
mod location;
mod lookup;
mod memory;
mod names;
mod play;
mod proven;
mod rate_limit;
mod respond;
mod runtime;
mod saved;
mod schedules;
mod serving;
mod shares;
mod snapshot;
pub mod steer;
mod table;
mod tally;
mod target;
mod wire;

use fairway_model::chunks;

pub use balanced_pools::BalancedPools;
pub use client::{Client, Draw, Now, Request, Transport};
pub use compile::{ChangedItems, compile, recompile, revise};
pub use cookie::{CookieKey, CookieKeys, CookieStatus, ServerCookieKey};
pub use explain::{Decoded, Explained, ExplainedRecord, ExplainedStep, NodeKind, StateIds, decode, explain};
pub use memory::{WipingAllocator, bound_free_memory, give_back_memory};
pub use play::{PlayedQuery, Player, PoolChoice};
pub use proven::ProvenNetworks;
pub use rate_limit::{RateLimits, RateTable, ResponseKind};
pub use respond::{Outcome, Query, find, read, read_ahead, respond, write, write_limited};
pub use runtime::RuntimeState;
pub use saved::SavedRuntime;
pub use schedules::{ScheduleChange, ScheduleStatus};
pub use serving::ServingState;
pub use snapshot::{PoolInfo, ServerIdentity, ServerOptions, Slot, Snapshot, ZoneInfo};
pub use tally::{
    COUNTED_TYPES, DemandSample, Dropped, Exempt, LimitAction, LimitCounts, RCODES, SLOTS_MAX, Sample, Tallies, Tally,
};
pub use target::TargetIndex;
