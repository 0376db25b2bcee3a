//! From maps, tables and pools to what a decision reads: which row a client is in, and how the members stand in each row.
//!
//! All of it is done when a configuration is compiled; nothing here is asked while a query waits, but the look-up of an
//! address in a [`ClientPartition`](crate::steer::Territory). Whole numbers only: every server comes to the same rows.

mod compile;
mod distance;
mod inputs;
mod note;
mod rank;

#[cfg(test)]
mod tests;

pub(crate) use compile::{CompiledRankings, RankingCache, TooLarge};
pub use note::LocationNote;
