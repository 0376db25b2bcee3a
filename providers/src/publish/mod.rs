//! Publishing: compares the wanted record sets with those at a provider, and applies the difference.
//!
//! ```text
//!  wanted ─┐
//!          ├─► plan ─► policy ─► bounds ─► registry: units ─► apply, in batches; a rejected set is found by halving
//!  read ───┘    ▲
//!               └── registry: the owner of each set
//! ```
//! Everything before `apply` is pure. A plan never contains a set of another owner.

mod affix;
mod apply;
mod bounds;
mod handover;
mod mark;
#[cfg(test)]
mod memory;
mod notes_wire;
mod pacing;
mod plan;
mod policy;
mod provider;
mod published_weights;
mod publisher;
mod registry;
#[cfg(test)]
mod schedule_tests;
mod status;
mod sync;

pub use affix::{Affix, AffixError};
pub use apply::{Applied, apply};
pub use bounds::{Bounds, RefusedDeletions};
pub use handover::{Handover, HandoverError, HandoverPlan, Step};
pub use mark::{NoSealKey, SealKey};
pub use notes_wire::Notes;
pub use pacing::Pacing;
pub use plan::{Obstacle, Plan, Scope, Wanted, plan};
pub use policy::Policy;
pub use provider::{Leadership, Limits, Provider, ProviderError, Weights};
pub use published_weights::{MemberWeight, PublishedWeights};
pub use publisher::{HandoverOutcome, Publisher, Setup, WantedUpdates};
pub use registry::{Claim, Claims, Current, CurrentSet, Owner, Ownership, Unit};
pub use status::{Condition, Counts, SetCondition, Status, SyncState};
pub use sync::{Draft, Outcome, PlanId, Rules};
