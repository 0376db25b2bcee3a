//! Policy `failover`: the first live member by tier, then by declared order. The same for every client.

use super::pick::Score;

/// Prefers the member that is tried earlier.
pub(super) fn score(place: u8) -> Score {
    Score { cost: place.into(), weight: 1 }
}
