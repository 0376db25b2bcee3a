//! Scores of candidates.
//!
//! Policy `weighted` is weighted rendezvous hashing: each member draws a number from a hash of the client and itself, and the smallest
//! `-log2(draw) / weight` wins. Draws are independent. So a member that leaves loses its own clients only and gets exactly those back, and a
//! larger weight moves no clients among the others. The record type is not hashed: A and AAAA of a client have one cluster.

use fairway_model::{log2, mix};

use super::pool::Member;

/// Score of a candidate. The smallest `cost / weight` wins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Score {
    /// At most 2^47.
    pub(super) cost: u64,
    /// 1 to 65535.
    pub(super) weight: u16,
}

impl Score {
    /// Score that no other one beats.
    pub(super) const FIRST: Self = Self { cost: 0, weight: 1 };
    /// Score that every other one beats.
    pub(super) const LAST: Self = Self { cost: 1 << 48, weight: 1 };

    /// Returns the score of policy `failover`, which prefers members that are tried earlier.
    pub(super) fn by_place(index: usize, _member: &Member) -> Self {
        Self { cost: index as u64, weight: 1 }
    }

    /// Returns the score of policy `weighted`, which prefers members in proportion to their weight.
    #[inline]
    pub(super) fn weighted(seed: u64, key: u64, weight: u16) -> Self {
        Self { cost: log2::cost(mix(seed ^ key)), weight }
    }

    #[inline]
    pub(super) fn beats(&self, other: &Self) -> bool {
        // Fractions are compared by cross-multiplication: exact, without division, and below 2^64. Equal scores, about
        // one pair in 2^40, stay in declared order.
        self.cost * u64::from(other.weight) < other.cost * u64::from(self.weight)
    }
}
