//! Numbers for pools that draw per query.

use std::hash::{BuildHasher, RandomState};

use fairway_zones::Draw;

/// Numbers of one thread, no two of them equal: they count on from a random one of its own. What makes random numbers of them is the
/// mixing hash of whoever draws; most queries do not. Not for secrets.
pub(super) struct Draws(u64);

impl Draws {
    /// A seed of the operating system's.
    pub(super) fn new() -> Self {
        Self(RandomState::new().hash_one(()))
    }

    /// The next number.
    #[inline]
    pub(super) fn next(&mut self) -> Draw {
        self.0 = self.0.wrapping_add(1);
        Draw(self.0)
    }
}
