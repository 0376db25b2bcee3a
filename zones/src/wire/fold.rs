//! Names folded to lower case, and hashed so that every ancestor's hash falls out of one walk.
//!
//! The hash of a name is built from the root label to the left: `hash(label.parent) = step(hash(parent), label)`. So the walk
//! to the closest encloser (RFC 4592 section 3.3.1) hashes nothing twice.

use fairway_model::Name;

/// A name in lower case with its label starts: what the table is asked for.
#[derive(Clone)]
pub(crate) struct Key {
    /// Lower-cased wire form. What stands behind it is of no meaning; there is room to read eight octets from any place.
    octets: [u8; OCTETS],
    /// Start of each label but the root's, from the leftmost on.
    starts: [u8; 128],
    length: u16,
    labels: u8,
}

/// 255 octets of a name, and a word behind.
const OCTETS: usize = 264;

impl Key {
    /// The root's.
    pub(crate) const ROOT: Self = Self { octets: [0; OCTETS], starts: [0; 128], length: 1, labels: 0 };

    /// Reads the uncompressed name at the start of `wire`: none if it is cut off, too long, or not plain labels.
    pub(crate) fn read(wire: &[u8]) -> Option<Self> {
        let mut key = Self::ROOT;
        key.set(wire).then_some(key)
    }

    /// The same in place: one that waits in a batch is read over the last one.
    #[inline]
    pub(crate) fn set(&mut self, wire: &[u8]) -> bool {
        let (mut at, mut labels) = (0usize, 0usize);
        loop {
            let Some(&length) = wire.get(at) else { return false };
            if length == 0 {
                break;
            }
            let next = at + usize::from(length) + 1;
            if usize::from(length) > Name::LABEL_MAX || next >= Name::OCTETS_MAX {
                return false;
            }
            self.starts[labels & 127] = at as u8;
            labels += 1;
            at = next;
        }
        self.labels = labels as u8;
        self.length = at as u16 + 1;
        lowercase_into(wire, at + 1, &mut self.octets);
        true
    }

    /// Octets of the name, its root label included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Labels, the root's not counted.
    #[inline]
    pub(crate) fn labels(&self) -> usize {
        usize::from(self.labels)
    }

    /// The whole name in lower case.
    #[inline]
    pub(crate) fn name(&self) -> &[u8] {
        &self.octets[..self.len()]
    }

    /// The ancestor that keeps the last `labels` labels, in lower case.
    pub(crate) fn suffix(&self, labels: usize) -> &[u8] {
        &self.octets[self.suffix_start(labels)..self.len()]
    }

    /// Where that ancestor begins within the name.
    pub(crate) fn suffix_start(&self, labels: usize) -> usize {
        match self.labels().checked_sub(labels) {
            Some(skip) if labels > 0 => usize::from(self.starts[skip]),
            _ => self.len() - 1,
        }
    }

    /// The hash of the name with one more label than the one with hash `parent`: its last `labels` labels.
    #[inline]
    pub(crate) fn step(&self, parent: u64, labels: usize) -> u64 {
        self.step_at(parent, self.suffix_start(labels))
    }

    #[inline]
    fn step_at(&self, parent: u64, start: usize) -> u64 {
        let length = usize::from(self.octets[start]);
        let mut hash = begin(parent, length);
        let (mut at, mut left) = (start + 1, length);
        while left >= 8 {
            hash = fold(hash ^ word_at(&self.octets, at));
            (at, left) = (at + 8, left - 8);
        }
        fold(hash ^ word_at(&self.octets, at) & !(u64::MAX << (8 * left)))
    }

    /// The hash of the whole name.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let starts = &self.starts[..self.labels()];
        starts.iter().rev().fold(SEED, |hash, start| self.step_at(hash, usize::from(*start)))
    }
}

/// The hash of `label` in front of a name with hash `parent`. Octets of any kind can be digested so.
pub(crate) fn step(parent: u64, label: &[u8]) -> u64 {
    let mut hash = begin(parent, label.len());
    let mut words = label.chunks_exact(8);
    for chunk in &mut words {
        hash = fold(hash ^ word_at(chunk, 0));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    fold(hash ^ u64::from_le_bytes(last))
}

#[inline]
fn begin(parent: u64, length: usize) -> u64 {
    parent ^ (length as u64).wrapping_mul(FACTOR_B)
}

#[inline]
fn word_at(octets: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&octets[at..at + 8]);
    u64::from_le_bytes(word)
}

/// A full 64x64 multiplication folded onto itself: every input bit reaches every output bit.
#[inline]
fn fold(word: u64) -> u64 {
    let wide = u128::from(word ^ FACTOR_B) * u128::from(FACTOR_A);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Copies `length` octets in lower case, eight at a time; what comes behind them in `from` may come along. Length octets are
/// at most 63 and so never letters.
#[inline]
fn lowercase_into(from: &[u8], length: usize, to: &mut [u8; OCTETS]) {
    let mut at = 0;
    while at < length && at + 8 <= from.len() {
        to[at..at + 8].copy_from_slice(&lower(word_at(from, at)).to_le_bytes());
        at += 8;
    }
    while at < length {
        to[at] = from[at].to_ascii_lowercase();
        at += 1;
    }
}

/// Eight octets to ASCII lower case: 0x20 is added to each of 'A' to 'Z', nothing else changes.
#[inline]
const fn lower(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * ONES);
    let over_z = low + (0x7f - b'Z' as u64) * ONES;
    let from_a = low + (0x80 - b'A' as u64) * ONES;
    let upper = !word & (from_a ^ over_z) & (0x80 * ONES);
    word | upper >> 2
}

/// Start of every hash. The table is private to a process: nothing outside sees these numbers.
pub(crate) const SEED: u64 = 0x2545_f491_4f6c_dd1d;
const FACTOR_A: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR_B: u64 = 0xd6e8_feb8_6659_fd93;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_folds_as_ascii_says() {
        for octet in 0..=255u8 {
            let word = u64::from_le_bytes([octet; 8]);
            assert_eq!(lower(word).to_le_bytes(), [octet.to_ascii_lowercase(); 8], "{octet:#x}");
        }
    }

    #[test]
    fn suffixes_and_labels_are_counted_from_the_root() {
        let key = Key::read(b"\x03WWW\x07Example\x00junk").unwrap();
        assert_eq!((key.len(), key.labels()), (13, 2));
        assert_eq!(key.suffix(2), b"\x03www\x07example\x00");
        assert_eq!(key.suffix(1), b"\x07example\x00");
        assert_eq!(key.suffix(0), b"\x00");
        assert_eq!(key.name(), key.suffix(2));
    }

    #[test]
    fn a_name_hashes_as_its_label_before_its_parents_hash() {
        let whole = Key::read(b"\x01a\x0ca-long-label\x02bc\x00").unwrap();
        assert_eq!(whole.hash(), step(Key::read(b"\x0ca-long-label\x02bc\x00").unwrap().hash(), b"a"));
    }

    #[test]
    fn names_over_255_octets_and_cut_names_are_none() {
        let mut wire = vec![];
        for _ in 0..4 {
            wire.push(62);
            wire.extend([b'x'; 62]);
        }
        wire.extend([1, b'y', 0]);
        assert_eq!(wire.len(), 255);
        assert_eq!(Key::read(&wire).unwrap().len(), 255);
        wire.splice(252..254, [2, b'y', b'y']);
        assert!(Key::read(&wire).is_none());
        assert!(Key::read(b"\x03ab").is_none() && Key::read(b"\xc0\x0c").is_none() && Key::read(b"").is_none());
    }
}
