//! Scores of candidates.

/// How much a candidate is preferred: the smallest `cost / weight` is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Score {
    /// At most 2^47.
    pub(super) cost: u64,
    /// 1 to 65535.
    pub(super) weight: u16,
}

impl Score {
    /// What nothing beats.
    pub(super) const FIRST: Self = Self { cost: 0, weight: 1 };
    /// What every other one beats.
    pub(super) const LAST: Self = Self { cost: 1 << 48, weight: 1 };

    #[inline]
    pub(super) fn beats(&self, other: &Self) -> bool {
        // Fractions compared by cross-multiplication: exact, without a division, and under 2^64. Equals, about one pair
        // in 2^40, are left in declared order.
        self.cost * u64::from(other.weight) < other.cost * u64::from(self.weight)
    }
}
