//! Webhook contributions: kept in the object store, read, merged, served.
//!
//! ```text
//! webhook ── changes ──► ledger ── parts of a client's rows ──► store ── events ──► Declared ── merge ──► desired state
//!         ◄── rows as they were adjusted ───────────────────────────────────────────┘              └──► warnings
//! ```
//! The rows of a client are divided into up to 1,024 objects of the store, by a hash of their names. So a change writes few objects, and
//! the largest request fits one batch. `fairway_contributions` reads and merges the rows, and weighs withdrawals.

mod evidence;
#[cfg(test)]
mod held_tests;
mod holds;
mod ledger;
mod parts;

pub(crate) use self::evidence::{FoundHealth, ServedHealth};
pub use self::{
    holds::{EndpointFilter, ReleaseCounts},
    ledger::ContributionLedger,
};
