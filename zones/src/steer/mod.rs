//! How a pool chooses: one file a policy, and why it chose.
//!
//! [`SteerPool::choose`] is the decision: a pure function of the pool, the runtime state, the client and, for pools that
//! draw per query, the draw. It works in integers only, allocates nothing, and looks at each member a bounded number of
//! times. What it returns is the number of an answer that was made when the pool was compiled ([`SteerPool::sets`]).
//!
//! The order of reading: [`choose`](SteerPool::choose) walks the stages (live, pending, down), `pick` walks the groups of
//! one stage in the `order` of the client's row, `load` does so where members take only their share, and `failover` and
//! `weighted` say which of two candidates is preferred.

mod choose;
mod client_net;
mod down;
mod explain;
mod failover;
mod load;
mod log2;
mod memory;
mod order;
mod pick;
mod pool;
mod proof;
mod quick;
mod sets;
mod standing;
mod targets;
mod territory;
mod trace;
mod variant;
mod views;
mod weighted;

#[cfg(test)]
mod tests;

pub use choose::{Answer, Basis, Choice, Family, Kind, Members};
pub use client_net::ClientNet;
pub use explain::{AddressNote, Explanation, HashInput, MemberNote, Reason, Recorder};
pub use load::{Offer, Reach, Route};
pub use pool::SteerPool;
pub use proof::{ClientPlace, Proof, Terms};
pub use sets::SETS_MAX;
pub use targets::TargetTable;
pub use territory::{Placement, Rows, Territory};
pub use trace::{Sight, Trace};

pub(crate) use targets::{TargetUses, target_hash};
pub(crate) use variant::Variant;
pub(crate) use views::MemberSet;
