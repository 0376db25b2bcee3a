//! Random numbers for pools that choose a member per query.

use std::hash::{BuildHasher, RandomState};

use fairway_zones::Draw;

/// Numbers of one thread: a counter with a random start, so no two are equal. The policy that uses a number mixes it with a hash; most
/// queries use none, so the mixing is left to the policy. Not for secrets.
pub(super) struct DrawSource(u64);

impl DrawSource {
    /// Starts at a random number of the operating system.
    pub(super) fn new() -> Self {
        Self(RandomState::new().hash_one(()))
    }

    /// Returns the next number.
    #[inline]
    pub(super) fn next(&mut self) -> Draw {
        self.0 = self.0.wrapping_add(1);
        Draw(self.0)
    }
}
