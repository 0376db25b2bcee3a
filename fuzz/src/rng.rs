//! Pseudo-random numbers that depend on the seed alone, so that a run can be repeated anywhere.

use fairway_model::SplitMix;

/// A generator of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix);

impl Rng {
    /// Returns the generator of a seed; equal seeds give equal numbers.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.bits()
    }

    /// Returns a number from 0 up to, not including, `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.number() % bound as u64) as usize }
    }

    /// Returns true with a probability of 1 in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of the items.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Returns an octet; values near limits are more frequent.
    pub fn octet(&mut self) -> u8 {
        const EDGES: [u8; 12] = [0, 1, 2, 0x0c, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xfe, 0xff];
        if self.one_in(2) { *self.pick(&EDGES) } else { self.number() as u8 }
    }
}
