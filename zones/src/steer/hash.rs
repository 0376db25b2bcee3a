//! The hash that decides who gets what: part of the decision function, the same on every server for ever.
//!
//! Every constant here is fixed and pinned by tests: another constant would send most clients elsewhere, and two
//! servers that disagree would give one client two answers. Octets are read in little-endian order on every machine.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// Separates the hashes of the different kinds of input, so that equal octets of two kinds stay unrelated.
pub(super) mod seed {
    /// Names of pools.
    pub(in crate::steer) const POOL: u64 = 0x66_61_69_72_77_61_79_01;
    /// Names of clusters.
    pub(in crate::steer) const CLUSTER: u64 = 0x66_61_69_72_77_61_79_02;
    /// IPv4 networks of clients.
    pub(in crate::steer) const CLIENT_V4: u64 = 0x66_61_69_72_77_61_79_04;
    /// IPv6 networks of clients.
    pub(in crate::steer) const CLIENT_V6: u64 = 0x66_61_69_72_77_61_79_06;
    /// What pools remember.
    pub(in crate::steer) const MEMORY: u64 = 0x66_61_69_72_77_61_79_09;
    /// Members that are closed.
    pub(in crate::steer) const CLOSED: u64 = 0x66_61_69_72_77_61_79_0a;
    /// Whether a member takes a client.
    pub(in crate::steer) const OFFER: u64 = 0x66_61_69_72_77_61_79_0b;
    /// Who gets a client that nobody takes.
    pub(in crate::steer) const REST: u64 = 0x66_61_69_72_77_61_79_0c;
    /// Draws of single queries.
    pub(in crate::steer) const DRAW: u64 = 0x66_61_69_72_77_61_79_07;
    /// What is configured.
    pub(in crate::steer) const CONFIGURED: u64 = 0x66_61_69_72_77_61_79_0a;
    /// Targets.
    pub(in crate::steer) const TARGET: u64 = 0x66_61_69_72_77_61_79_08;
}

/// A bijection of 64 bits in which each input bit turns each output bit in half of all cases.
///
/// Shift and multiply constants: Pelle Evensen's "moremur".
#[inline]
pub(crate) const fn mix(mut x: u64) -> u64 {
    x ^= x >> 27;
    x = x.wrapping_mul(0x3c79_ac49_2ba7_b653);
    x ^= x >> 33;
    x = x.wrapping_mul(0x1c69_b3f7_4ac4_ae35);
    x ^ x >> 27
}

/// Hash of a text.
pub(super) fn text(seed: u64, text: &str) -> u64 {
    octets(seed, text.as_bytes())
}

/// Hash of octets that are part of what is configured.
pub(crate) fn digest(octets: &[u8]) -> u64 {
    self::octets(seed::CONFIGURED, octets)
}

fn octets(seed: u64, octets: &[u8]) -> u64 {
    let mut hasher = StableHasher::new(seed);
    hasher.write(octets);
    hasher.write_u64(octets.len() as u64);
    hasher.finish()
}

/// A [`Hasher`] that gives the same on every machine: no random state, no word size, no byte order.
///
/// Which calls a derived `Hash` makes is the standard library's choice; a test pins the outcome for a target, so that a
/// toolchain that changes it is noticed.
#[derive(Clone)]
pub(crate) struct StableHasher(u64);

impl StableHasher {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }
}

impl Default for StableHasher {
    fn default() -> Self {
        Self::new(seed::TARGET)
    }
}

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        // The rotation keeps two equal words in a row from undoing each other.
        self.0 = mix(self.0.rotate_left(23) ^ value);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as i64 as u64);
    }
}

/// A map by what is configured. Clients choose none of its keys, so no hash must keep them from clashing on purpose.
pub(crate) type StableMap<K, V> = HashMap<K, V, BuildHasherDefault<StableHasher>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_are_what_they_always_were() {
        assert_eq!(mix(1), 0x3c02_aa47_7582_92bd);
        assert_eq!(text(seed::POOL, "shop"), 0xd8a7_b8fd_6d0b_c709);
        assert_eq!(text(seed::CLUSTER, "a-cluster-with-a-long-name"), 0xd9d2_c04e_2476_717c);
    }

    #[test]
    fn each_input_bit_turns_each_output_bit_in_half_of_all_cases() {
        const SAMPLES: u64 = 4_096;
        for input in 0..64 {
            let mut turned = [0u32; 64];
            for sample in 0..SAMPLES {
                let x = sample.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let changed = mix(x) ^ mix(x ^ 1 << input);
                for (output, count) in turned.iter_mut().enumerate() {
                    *count += (changed >> output & 1) as u32;
                }
            }
            // 2,048 expected, standard deviation 32: ±256 is eight of them.
            assert!(turned.iter().all(|count| count.abs_diff(2_048) < 256), "bit {input}: {turned:?}");
        }
    }

    #[test]
    fn texts_that_differ_in_length_or_order_only_differ() {
        let hashes = ["", "\0", "ab", "ba", "ab\0", "abababababababab", "abababab"].map(|t| text(seed::POOL, t));
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash));
        }
    }
}
