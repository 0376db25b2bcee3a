//! Scores of candidates.

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

    #[inline]
    pub(super) fn beats(&self, other: &Self) -> bool {
        // Fractions are compared by cross-multiplication: exact, without division, and below 2^64. Equal scores, about
        // one pair in 2^40, stay in declared order.
        self.cost * u64::from(other.weight) < other.cost * u64::from(self.weight)
    }
}
