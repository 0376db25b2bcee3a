//! Random numbers for pools that draw per query.

use std::hash::{BuildHasher, RandomState};

use fairway_zones::Draw;

/// Random numbers of one thread: xorshift, seeded apart from every other thread's. Not for secrets.
pub(super) struct Draws(u64);

impl Draws {
    /// A seed of the operating system's.
    pub(super) fn new() -> Self {
        // Xorshift stays at 0 for ever, so at least one bit is set.
        Self(RandomState::new().hash_one(()) | 1)
    }

    /// The next number; never 0.
    pub(super) fn next(&mut self) -> Draw {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Draw(self.0)
    }
}
