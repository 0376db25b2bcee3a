//! How a pool chooses: one file a policy, and why it chose.
//!
//! [`SteerPool::choose`] is the decision: a pure function of the pool, the runtime state, the client and, for pools that
//! draw per query, the draw. It works in integers only, allocates nothing, and looks at each member a bounded number of
//! times. What it returns is the number of an answer that was made when the pool was compiled ([`SteerPool::sets`]).
//!
//! The order of reading: [`choose`](SteerPool::choose) walks the stages (live, pending, down), `pick` walks the groups of
//! one stage in the `order` of the client's row, `load` does so where members take only their share, and `failover` and
//! `weighted` say which of two candidates is preferred.

mod address_lists;
mod answer;
mod choose;
mod client_net;
mod down;
mod eligibility;
mod explain;
mod failover;
mod fast_path;
mod last_good;
mod load;
mod log2;
mod order;
mod partition;
mod pick;
mod pool;
mod proof;
mod score;
mod sets;
mod target_uses;
mod targets;
mod trace;
mod variant;
mod views;
mod weighted;

#[cfg(test)]
mod tests;

pub use answer::{AcceptanceTest, Answer, Assignment, Basis, Candidacy, Choice, Family, Kind, Members};
pub use client_net::ClientNet;
pub use explain::{AddressNote, Explanation, HashInput, MemberNote, Reason, Recorder};
pub use load::Route;
pub use partition::{ClassRanks, ClientPartition, LocationClass, LocationRankings};
pub use pool::SteerPool;
pub use proof::{Proof, Terms};
pub use sets::SETS_MAX;
pub use targets::TargetTable;
pub use trace::Trace;

pub(crate) use target_uses::TargetUses;
pub(crate) use variant::Variant;
pub(crate) use views::MemberSet;
