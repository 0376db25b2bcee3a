//! Keyed hash of names, for tables whose names other people choose.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
};

use fairway_model::Name;

use super::name::lower;

/// Secret of the hash of names. A full compilation draws it; no answer, id, metric or log depends on it.
///
/// Who knows everything but the key cannot choose names that share slots or tags of a table more often than random names:
///
/// 1. Letters are folded to lower case and nothing else is, so different names stay different.
/// 2. A name becomes words of eight octets: those of its last 16 octets, then of the blocks of 16 from its start, and zeros. A
///    shorter name becomes its first and last eight octets, or one word. The last octet, which is 0 in every name, makes space for the
///    length, so different names become different words.
/// 3. The hash is the upper half of the sum of all words *x*, each times a key word *k* of 128 bits, modulo 2^128. This is
///    multiply-shift for vectors (Dietzfelbinger, "Universal hashing and k-wise independent random variables via integer
///    arithmetic without primes", STACS 1996). For two different names some *x* differ, by an odd multiple of 2^*s* with *s* of
///    at most 63. So over all keys the difference of the sums is uniform among the multiples of 2^*s*, and its upper half is
///    uniform. Any *t* neighbouring bits of the hashes are equal for at most three keys in 2^*t*, since two numbers with equal
///    bits differ there by 0 or a borrow.
///
/// What remains to chance, a long run of slots, is noticed when a table is filled (see
/// [`Table::is_crowded`](crate::table::Table::is_crowded)).
#[derive(Clone)]
pub(crate) struct NameKey {
    /// Key words for the last block, then for the others from the first on.
    blocks: [[u128; 2]; BLOCKS],
    /// For texts that are no names.
    texts: RandomState,
}

impl NameKey {
    /// Draws a key from the random numbers of the operating system.
    pub(crate) fn random() -> Self {
        // SipHash with a random key gives unrelated numbers for different inputs.
        let source = RandomState::new();
        let word = |place: (usize, usize)| {
            let half = |half: usize| u128::from(source.hash_one((place, half)));
            half(0) << 64 | half(1)
        };
        Self { blocks: std::array::from_fn(|block| [word((block, 0)), word((block, 1))]), texts: RandomState::new() }
    }

    /// Returns a key that gives all names one hash.
    #[cfg(test)]
    pub(crate) fn constant() -> Self {
        Self { blocks: [[0; 2]; BLOCKS], texts: RandomState::new() }
    }

    /// Returns the hash of a name in wire form, ignoring the case of letters.
    #[inline]
    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        // Most names are of this kind.
        if name.len() <= 2 * BLOCK
            && let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk())
            && !(has_upper(first) | has_upper(last))
        {
            let [end, start, ..] = &self.blocks;
            return top(sum(with_length(words(last), name), end).wrapping_add(sum(words(first), start)));
        }
        self.hash_other(name)
    }

    /// Returns the hash of a text, such as the name of a pool.
    pub(crate) fn text(&self, text: &impl Hash) -> u64 {
        self.texts.hash_one(text)
    }

    /// Returns the hash of a short or long name, or of one with upper-case letters.
    #[inline(never)]
    fn hash_other(&self, name: &[u8]) -> u64 {
        match name.last_chunk() {
            Some(last) => self.hash_long(name, last),
            None => top(sum(with_length(short(name), name), &self.blocks[0])),
        }
    }

    #[inline(never)]
    fn hash_long(&self, name: &[u8], last: &[u8; BLOCK]) -> u64 {
        let others = name[..(name.len() - 1).max(BLOCK)].as_chunks().0;
        match has_upper(last) || others.iter().any(has_upper) {
            false => self.hash_blocks(name, last, others, |word| word),
            true => self.hash_blocks(name, last, others, lower),
        }
    }

    #[inline(always)]
    fn hash_blocks(
        &self,
        name: &[u8],
        last: &[u8; BLOCK],
        others: &[[u8; BLOCK]],
        fold: impl Fn(u64) -> u64 + Copy,
    ) -> u64 {
        let [end, places @ ..] = &self.blocks;
        let last = sum(with_length(words(last).map(fold), name), end);
        let others = others.iter().zip(places).map(|(block, place)| sum(words(block).map(fold), place));
        top(others.fold(last, u128::wrapping_add))
    }
}

impl fmt::Debug for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameKey")
    }
}

/// Returns the sum of both words times their key words.
#[inline(always)]
fn sum([first, second]: [u64; 2], [for_first, for_second]: &[u128; 2]) -> u128 {
    let product = |word: u64, key: &u128| u128::from(word).wrapping_mul(*key);
    product(first, for_first).wrapping_add(product(second, for_second))
}

/// Returns the upper half of a sum.
#[inline(always)]
fn top(sum: u128) -> u64 {
    (sum >> 64) as u64
}

/// True if a block has upper-case letters. Four instructions on 16 octets.
#[inline(always)]
fn has_upper(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(false, |any, octet| any | octet.is_ascii_uppercase())
}

#[inline(always)]
fn words(block: &[u8; BLOCK]) -> [u64; 2] {
    let both = u128::from_le_bytes(*block);
    [both as u64, (both >> 64) as u64]
}

/// Puts the length of a name in place of its last octet.
#[inline(always)]
fn with_length([first, second]: [u64; 2], name: &[u8]) -> [u64; 2] {
    [first, second | (name.len() as u64) << 56]
}

/// Returns the folded words of a name with fewer octets than a block.
#[inline(always)]
fn short(name: &[u8]) -> [u64; 2] {
    let both = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => [first, last].map(|octets| u64::from_le_bytes(*octets)),
        _ => [few(name), 0],
    };
    // Bit 6 without bit 5 in an octet: an upper-case letter, or one of a few others.
    let is_upper = |word: u64| word & !(word << 1) & 0x4040_4040_4040_4040 != 0;
    if is_upper(both[0]) | is_upper(both[1]) { both.map(lower) } else { both }
}

/// Returns fewer than eight octets as a word: the first and the last four, or all.
#[inline(always)]
fn few(octets: &[u8]) -> u64 {
    match (octets.first_chunk(), octets.last_chunk()) {
        (Some(first), Some(last)) => u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32,
        _ => octets.iter().fold(0, |word, octet| word << 8 | u64::from(*octet)),
    }
}

/// Octets of a block.
const BLOCK: usize = 16;
/// Blocks of the longest name.
const BLOCKS: usize = Name::OCTETS_MAX.div_ceil(BLOCK);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a name of this length with these octets in its label.
    fn name(octets: &[u8]) -> Vec<u8> {
        [&[octets.len() as u8][..], octets, &[0]].concat()
    }

    #[test]
    fn names_of_each_length_have_hashes_of_their_own_in_any_case() {
        let key = NameKey::random();
        for length in 1..=Name::OCTETS_MAX {
            let mut upper: Vec<u8> = (0..length).map(|at| b'A' + (at % 26) as u8).collect();
            upper[length - 1] = 0;
            let lower = upper.to_ascii_lowercase();
            assert_eq!(key.hash(&upper), key.hash(&lower), "{length}");
            for at in 0..length - 1 {
                for bit in [0x80, 0x20, 0x10, 1] {
                    let mut other = lower.clone();
                    other[at] = b'0';
                    let before = key.hash(&other);
                    other[at] ^= bit;
                    assert_ne!(key.hash(&other), before, "{length} {at} {bit:#x}");
                }
            }
            assert_ne!(key.hash(&lower[1..]), key.hash(&lower), "{length}");
            let mut mixed = lower.clone();
            mixed[length / 2] = upper[length / 2];
            assert_eq!(key.hash(&mixed), key.hash(&lower), "{length}");
        }
        assert_ne!(key.hash(b"\0"), NameKey::random().hash(b"\0"), "keys differ");
    }

    #[test]
    fn names_that_differ_in_the_case_bit_of_no_letter_have_different_hashes() {
        let key = NameKey::random();
        let pairs = [(b'0', 0x10), (b'-', 0x0d), (b'_', 0x7f), (b'@', b'`'), (b'[', b'{'), (0xc1, 0xe1)];
        for (one, other) in pairs {
            let hashes = [one, other].map(|octet| key.hash(&name(&[octet; 20])));
            assert_ne!(hashes[0], hashes[1], "{one:#x}");
        }
    }

    /// A name for a family of names, and its members by number.
    type Family = (&'static str, fn(u32) -> Vec<u8>);

    /// Families of names that are made alike: an attacker's, a counter's, and one that differs in two places that could
    /// cancel each other out.
    fn families() -> [Family; 5] {
        let digits = |number: u32| name(format!("{number:07}").as_bytes());
        let long = |number: u32| [&[60][..], &[b'x'; 60], &name(format!("{number:07}").as_bytes())].concat();
        let bits = |number: u32| name(&(0..20).map(|bit| b'a' + (number >> bit & 1) as u8).collect::<Vec<_>>());
        let case_bits =
            |number: u32| name(&(0..20).map(|bit| 0x10 + (number >> bit & 1) as u8 * 0x20).collect::<Vec<_>>());
        let cancelling = |number: u32| {
            let mut octets = [b'm'; 48];
            for at in 0..12 {
                let change = (number >> at & 1) as u8;
                (octets[at], octets[at + 16]) = (b'm' + change, b'm' - change);
            }
            octets[40..44].copy_from_slice(&(number >> 12).to_le_bytes());
            name(&octets)
        };
        [("digits", digits), ("long", long), ("bits", bits), ("case bits", case_bits), ("cancelling", cancelling)]
    }

    #[test]
    fn slots_and_tags_of_names_made_alike_are_as_even_as_random_ones() {
        const NAMES: u32 = 1 << 16;
        for (family, of) in families() {
            let key = NameKey::random();
            let hashes: Vec<u64> = (0..NAMES).map(|number| key.hash(&of(number))).collect();
            for shift in [0, 16, 32, 48] {
                let mut counts = vec![0u32; NAMES as usize];
                hashes.iter().for_each(|hash| counts[(hash >> shift) as usize & (NAMES as usize - 1)] += 1);
                let pairs: u64 = counts.iter().map(|count| u64::from(count * count.saturating_sub(1)) / 2).sum();
                // 32,768 pairs are expected of random hashes, and twice as many at most of universal ones on average.
                let most = counts.iter().max();
                assert!(pairs < 8 * 32_768 && most < Some(&64), "{family} {shift}: {pairs} pairs, {most:?} in a slot");
            }
        }
    }
}
