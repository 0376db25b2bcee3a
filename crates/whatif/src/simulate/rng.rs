//! Random numbers of a simulation, from a seed: the same on every machine.

use fairway_model::SplitMix;

/// Source of random numbers. Equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix);

impl Rng {
    /// Returns a source for a seed.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Returns the next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// Returns a number from 0 up to, but not including, 1; uniformly distributed.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an integer below `end`, uniformly distributed.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }

    /// Returns an exponentially distributed number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }

    /// Returns 1 plus a relative error of at most `most` in either direction, uniformly distributed.
    pub fn error(&mut self, most: f64) -> f64 {
        1.0 + most * (2.0 * self.fraction() - 1.0)
    }

    /// Shuffles a list.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}
