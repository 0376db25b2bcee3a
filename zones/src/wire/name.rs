//! Compares names in wire form, eight octets at a time, ignoring case and without a copy.

use fairway_model::Name;

/// Returns the end of the uncompressed name at `start` and its number of labels without the root.
///
/// Returns `None` if the name is cut off, too long, or has other than plain labels.
#[inline]
pub(crate) fn name_end(message: &[u8], start: usize) -> Option<(usize, u8)> {
    // A name that is too long is treated as cut off.
    let name = message.get(start..message.len().min(start + Name::OCTETS_MAX))?;
    let (mut at, mut labels) = (0, 0u8);
    loop {
        let length = *name.get(at)?;
        at += usize::from(length) + 1;
        // One comparison for both ends, since a label is never 0 octets long.
        if length.wrapping_sub(1) >= Name::LABEL_MAX as u8 {
            return (length == 0).then_some((start + at, labels));
        }
        labels = labels.wrapping_add(1); // at most 127 in 255 octets
    }
}

/// Returns the ancestors of a name, from the parent to the root: number of labels and offset.
pub(crate) fn ancestors(name: &[u8], labels: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    (0..labels).rev().map(move |labels| {
        start += usize::from(name[start]) + 1;
        (labels, start)
    })
}

/// True if a name equals the name of the same length in these words, ignoring case. The words are lower-case, padded
/// with zeros.
///
/// Not inlined, so that the loop over a table keeps its registers.
#[inline(never)]
pub(crate) fn same_name(name: &[u8], lower_words: &[[u8; 8]]) -> bool {
    // Most names are lower-case. The last word ends with the name and may overlap the one before.
    let wanted = lower_words.as_flattened().get(..name.len());
    if let (Some(last), Some(wanted)) = (name.last_chunk::<8>(), wanted)
        && wanted.last_chunk() == Some(last)
        && name.as_chunks::<8>().0.iter().zip(wanted.as_chunks().0).all(|(word, wanted)| word == wanted)
    {
        return true;
    }
    same_folded(name, lower_words)
}

/// Compares a name that is short or has upper-case letters.
#[inline(never)]
fn same_folded(name: &[u8], lower_words: &[[u8; 8]]) -> bool {
    let (words, rest) = name.as_chunks::<8>();
    let Some((wanted, last)) = lower_words.split_at_checked(words.len()) else { return false };
    let same = |word: u64, wanted: &[u8; 8]| lower(word) == u64::from_le_bytes(*wanted);
    words.iter().zip(wanted).all(|(word, wanted)| same(u64::from_le_bytes(*word), wanted))
        && (rest.is_empty() || last.first().is_some_and(|wanted| same(rest_of(name, rest), wanted)))
}

/// Returns the 1 to 7 octets after the whole words as a word, padded with zeros.
#[inline]
fn rest_of(name: &[u8], rest: &[u8]) -> u64 {
    match name.last_chunk::<8>() {
        // Read as a word that ends with the name.
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        None => rest.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet)),
    }
}

/// Converts eight octets to ASCII lower case: adds 0x20 to 'A' to 'Z' and changes nothing else. Length octets are at
/// most 63 and so no letters.
#[inline]
pub(super) const fn lower(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * ONES);
    let over_z = low + (0x7f - b'Z' as u64) * ONES;
    let from_a = low + (0x80 - b'A' as u64) * ONES;
    let upper = !word & (from_a ^ over_z) & (0x80 * ONES);
    word | upper >> 2
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn lower_folds_every_octet_like_ascii() {
        for octet in 0..=255u8 {
            let word = u64::from_le_bytes([octet; 8]);
            assert_eq!(lower(word).to_le_bytes(), [octet.to_ascii_lowercase(); 8], "{octet:#x}");
        }
    }

    #[test]
    fn ancestors_run_from_parent_to_root() {
        assert_eq!(ancestors(b"\x03WWW\x07Example\x00", 2).collect::<Vec<_>>(), [(1, 4), (0, 12)]);
        assert_eq!(ancestors(b"\0", 0).count(), 0);
    }

    fn same_name(name: &[u8], lower: &[u8]) -> bool {
        let mut filled = lower.to_vec();
        filled.resize(lower.len().next_multiple_of(8), 0);
        name.len() == lower.len() && super::same_name(name, filled.as_chunks().0)
    }

    #[test]
    fn names_are_compared_ignoring_case() {
        for length in 1..=63u8 {
            let mut upper = vec![length];
            upper.extend(iter::repeat_n(b'X', length.into()));
            upper.extend(b"\x02BC\x00");
            let lower = upper.to_ascii_lowercase();
            assert!(same_name(&upper, &lower), "{length}");
            for at in 0..lower.len() {
                let mut other = lower.clone();
                other[at] ^= 0x10;
                assert!(!same_name(&upper, &other), "{length} {at}");
            }
            assert!(!same_name(&upper, &lower[1..]));
        }
    }

    #[test]
    fn octets_that_differ_in_case_bit_only_are_different_names() {
        let at_sign = b"\x08@@@@@@@@\x00";
        assert!(same_name(at_sign, at_sign));
        assert!(!same_name(b"\x08````````\x00", at_sign) && !same_name(at_sign, b"\x08````````\x00"));
    }

    #[test]
    fn too_long_and_cut_names_have_no_end() {
        let mut wire = vec![];
        for _ in 0..4 {
            wire.push(62);
            wire.extend([b'x'; 62]);
        }
        wire.extend([1, b'y', 0]);
        assert_eq!((wire.len(), name_end(&wire, 0)), (255, Some((255, 5))));
        wire.splice(252..254, [2, b'y', b'y']);
        assert_eq!(name_end(&wire, 0), None);
        for broken in [&b"\x03ab"[..], b"\xc0\x0c", b"", b"\x01a"] {
            assert_eq!(name_end(broken, 0), None, "{broken:?}");
        }
    }
}
