//! Policy `weighted`: shares by weight, each client keeping its member while that member's share lasts.
//!
//! Weighted rendezvous hashing: every member draws a number for the client from a hash of both; the smallest
//! `-log2(draw) / weight` wins. A member's draw does not depend on the others, so a member that leaves gives away its own
//! clients only, one that comes back gets exactly those, and a grown weight takes clients without moving any among the
//! others. The record type is not in the hash: A and AAAA of a client come to one cluster.

use fairway_model::{Spread, mix};

use super::{client_net::ClientNet, log2};
use crate::{client::Draw, hash::seed, steer::score::Score};

/// What stands for the client: its network, or the draw of this query.
#[inline]
pub(super) fn seed(spread: Spread, client: ClientNet, draw: Draw) -> u64 {
    match spread {
        Spread::Client => client.hash(),
        Spread::Query => mix(seed::DRAW ^ draw.0),
    }
}

/// Prefers members in proportion to their weight.
#[inline]
pub(super) fn score(seed: u64, key: u64, weight: u16) -> Score {
    Score { cost: log2::cost(mix(seed ^ key)), weight }
}
