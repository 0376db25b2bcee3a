//! Policy `weighted`: shares by weight. Each client keeps its member while that member's share lasts.
//!
//! Weighted rendezvous hashing: each member draws a number from a hash of the client and itself, and the smallest
//! `-log2(draw) / weight` wins. Draws are independent. So a member that leaves loses its own clients only and gets
//! exactly those back, and a larger weight moves no clients among the others. The record type is not hashed: A and AAAA
//! of a client have one cluster.

use fairway_model::{Spread, log2, mix};

use super::client_net::ClientNet;
use crate::{client::Draw, hash::seed, steer::score::Score};

/// Returns the hash of the client's network, or of the draw.
#[inline]
pub(super) fn seed(spread: Spread, client: ClientNet, draw: Draw) -> u64 {
    match spread {
        Spread::Client => client.hash(),
        Spread::Query => mix(seed::DRAW ^ draw.0),
    }
}

/// Returns the score, which prefers members in proportion to their weight.
#[inline]
pub(super) fn score(seed: u64, key: u64, weight: u16) -> Score {
    Score { cost: log2::cost(mix(seed ^ key)), weight }
}
