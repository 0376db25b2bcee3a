//! A hash function that returns the same value on every server, in every process and release.
//!
//! Steering and the ids of snapshots depend on it: two servers that disagree would give one client two answers, and another
//! constant would move most clients to another cluster. So every constant is fixed, tests pin results, and bytes are read in
//! little-endian order on every machine.

use std::hash::{Hash, Hasher};

/// Seed of [`StableHasher::default`]. The value is arbitrary: ASCII "fairway" and 8.
const DEFAULT_SEED: u64 = 0x66_61_69_72_77_61_79_08;

/// Maps 64 bits to 64 bits one to one, so that each input bit changes each output bit in half of all cases.
///
/// The shifts and factors are those of Pelle Evensen's "moremur".
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x ^= x >> 27;
    x = x.wrapping_mul(0x3c79_ac49_2ba7_b653);
    x ^= x >> 33;
    x = x.wrapping_mul(0x1c69_b3f7_4ac4_ae35);
    x ^ x >> 27
}

/// Returns the hash of a value, equal on every server.
pub fn stable_hash(value: &impl Hash) -> u64 {
    let mut hasher = StableHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A [`Hasher`] without random state whose result does not depend on word size or byte order. It is no hasher for tables:
/// a client that chooses keys can give many of them one hash.
///
/// The standard library decides which calls a derived `Hash` makes. A test in `fairway-zones` pins the hash of a target, so
/// that it fails if a new toolchain changes those calls.
#[derive(Clone, Debug)]
pub struct StableHasher(u64);

impl StableHasher {
    /// Returns a hasher with a seed; hashes of different seeds are unrelated.
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }
}

impl Default for StableHasher {
    #[inline]
    fn default() -> Self {
        Self::new(DEFAULT_SEED)
    }
}

impl Hasher for StableHasher {
    #[inline]
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        // Without the rotation, two equal words in a row would cancel each other out.
        self.0 = mix(self.0.rotate_left(23) ^ value);
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as i64 as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_result_is_pinned() {
        assert_eq!(mix(1), 0x3c02_aa47_7582_92bd);
    }

    #[test]
    fn each_input_bit_changes_each_output_bit_in_half_of_all_cases() {
        const SAMPLES: u64 = 4_096;
        for input in 0..64 {
            let mut changes = [0u32; 64];
            for sample in 0..SAMPLES {
                let x = crate::SplitMix::new(sample).bits();
                let changed = mix(x) ^ mix(x ^ 1 << input);
                for (output, count) in changes.iter_mut().enumerate() {
                    *count += (changed >> output & 1) as u32;
                }
            }
            // 2,048 expected, standard deviation 32: ±256 is eight of them.
            assert!(changes.iter().all(|count| count.abs_diff(2_048) < 256), "bit {input}: {changes:?}");
        }
    }
}
