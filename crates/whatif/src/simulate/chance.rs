//! Random numbers of a simulation, which follow from a seed: the same on every machine.

use fairway_model::SplitMix;

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Chance(SplitMix);

impl Chance {
    /// The same seed gives the same stream.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// Evenly from 0 up to, not including, 1.
    pub fn part(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Evenly below a number.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }

    /// Exponentially with this mean.
    pub fn wait(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.part()).ln()
    }

    /// Puts a list in random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}
