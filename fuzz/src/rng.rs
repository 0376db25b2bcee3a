//! Pseudo-random numbers that depend on the seed alone, so that a run can be repeated anywhere.

use fairway_model::SplitMix;

/// A generator of numbers.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number from 0 up to, not including, `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.number() % bound as u64) as usize }
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// An octet; the values at which limits stand come more often.
    pub fn octet(&mut self) -> u8 {
        const EDGES: [u8; 12] = [0, 1, 2, 0x0c, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xfe, 0xff];
        if self.one_in(2) { *self.pick(&EDGES) } else { self.number() as u8 }
    }
}
