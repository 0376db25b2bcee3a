//! A log-linear histogram with 32 buckets per power of two, each about 3 % wide.

/// Histogram of durations in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; 64 * STEPS], count: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        let ns = ns.max(STEPS as u64);
        let exponent = 63 - ns.leading_zeros() as usize;
        self.buckets[exponent * STEPS + (ns >> (exponent - 5) & 31) as usize] += 1;
        self.count += 1;
    }

    /// Returns the upper edge of the bucket with the quantile, in nanoseconds; 0 if nothing was counted.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let wanted = ((self.count as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, |at| ((STEPS + at % STEPS + 1) as u64) << (at / STEPS) >> 5)
    }
}

/// Buckets per power of two.
const STEPS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_exact_to_one_bucket() {
        let mut histogram = Histogram::default();
        (1..=1000u64).for_each(|i| histogram.add(i * 1000));
        for (quantile, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let ratio = histogram.quantile(quantile) as f64 / exact;
            assert!((1.0..1.04).contains(&ratio), "{quantile}: {ratio}");
        }
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
