//! Policies: choose the members of a pool, with one file per policy, and explain a choice.
//!
//! [`SteerPool::choose`] is the decision: a pure function of the pool, the runtime state, the client and, for pools
//! with `spread: query`, the draw. It uses integers only, allocates nothing, and reads each member a bounded number of
//! times. It returns the number of an answer that was written when the pool was compiled ([`SteerPool::sets`]).
//!
//! Reading order: [`choose`](SteerPool::choose) tries the stages (live, pending, down). `pick` walks the groups of a
//! stage, in the `order` of the client's location class; `load` does so for pools that balance by load. `failover` and
//! `weighted` score candidates.

mod address_lists;
mod answer;
mod choose;
mod client_net;
mod down;
mod eligibility;
mod explain;
mod fast_path;
mod last_good;
mod load;
mod load_classes;
mod order;
mod pick;
mod pool;
mod proof;
mod score;
mod sets;
mod subnet;
mod target_uses;
mod targets;
mod trace;
mod variant;
mod views;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Assignment, Basis, Candidacy, Choice, Family, Kind, Members};
pub use client_net::{ClientNet, LocationClass};
pub use explain::{AddressNote, Explanation, HashInput, MemberNote, Reason, Recorder};
pub use load::Route;
pub use load_classes::{LoadClasses, LoadGroup};
pub use pool::SteerPool;
pub use proof::{Proof, Slot, Terms};
pub use sets::SETS_MAX;
pub use targets::TargetTable;
pub use trace::Trace;

pub(crate) use target_uses::TargetUses;
pub(crate) use variant::Variant;
pub(crate) use views::MemberSet;
