//! Pseudo-random numbers that follow from a seed, the same on every machine.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014): a generator of a few instructions, even enough to spread timers, to simulate and to
/// draw test inputs. Not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Returns the generator of this seed; equal seeds give equal numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to, not including, `end`; 0 for an `end` of 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// Returns a duration from zero up to, not including, `span`.
    pub fn within(&mut self, span: Duration) -> Duration {
        let part = (u128::from(self.bits()) * span.as_nanos()) >> 64;
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first outputs for seed 0, as other implementations give them.
        let mut numbers = SplitMix::new(0);
        assert_eq!(numbers.bits(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(numbers.bits(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn numbers_stay_below_their_end() {
        let mut numbers = SplitMix::new(7);
        assert!((0..1_000).all(|_| numbers.below(3) < 3));
        assert_eq!(numbers.below(0), 0);
        assert!((0..1_000).all(|_| numbers.within(Duration::from_millis(1)) < Duration::from_millis(1)));
    }
}
