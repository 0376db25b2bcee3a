//! Rankings by location, compiled from maps and latency tables: the location class of a client, and the ranks of
//! members in each class.
//!
//! A query only looks its address up in a [`ClientPartition`](fairway_model::ClientPartition); everything else runs at
//! compile time. All numbers are integers, so that every server derives the same classes.

mod compile;
mod note;

#[cfg(test)]
mod tests;

pub(crate) use compile::{CompiledRankings, RankingCache, TooLarge};
