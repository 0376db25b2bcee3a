//! Policy `failover`: the first live member by tier, then in declared order. The same for every client.

use super::pool::Member;
use crate::steer::score::Score;

/// Returns the score, which prefers members that are tried earlier.
pub(super) fn score(index: usize, _member: &Member) -> Score {
    Score { cost: index as u64, weight: 1 }
}
