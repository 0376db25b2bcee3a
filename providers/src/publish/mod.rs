//! Publishing: what is wanted at a DNS provider is compared with what is there, and the difference carried out.
//!
//! ```text
//!  wanted ─┐
//!          ├─► plan ─► policy ─► bounds ─► registry: units ─► apply, in batches; what is refused is found and left out
//!  read ───┘    ▲
//!               └── registry: whose is what
//! ```
//! Everything up to the units is pure. A set that is not ours is never in a plan.

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
mod publisher;
mod registry;
mod sync;

pub use affix::{Affix, AffixError};
pub use apply::{Applied, apply};
pub use bounds::{Bounds, RefusedDeletions};
pub use handover::{Handed, Handover, HandoverError, Step};
pub use mark::{NoSealKey, SealKey};
pub use notes_wire::Notes;
pub use pacing::Pacing;
pub use plan::{Obstacle, Plan, Scope, Wanted, plan};
pub use policy::Policy;
pub use provider::{Limits, Provider, ProviderError, Weights};
pub use publisher::{
    Condition, Counts, HandedOver, Publisher, Setup, Standing as SetStanding, Status, TakeError, Wishes,
};
pub use registry::{Claims, Current, Owner, Ownership, Standing, Unit};
pub use sync::{Draft, Outcome, Rules};
