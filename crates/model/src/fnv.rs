//! FNV-1a, for hashes that are stored or shown and so must never change: names and keys derived from a text, digests.
//!
//! Not for steering, which needs better mixing: see `stable_hash`. Constants: draft-eastlake-fnv.

/// Returns the FNV-1a hash with 64 bits.
pub fn fnv1a_64(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Returns the FNV-1a hash with 32 bits.
pub fn fnv1a_32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    bytes.into_iter().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_vectors() {
        assert_eq!([fnv1a_64(*b""), fnv1a_64(*b"a")], [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c]);
        assert_eq!(fnv1a_64(*b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!([fnv1a_32(*b""), fnv1a_32(*b"a")], [0x811c_9dc5, 0xe40c_292c]);
        assert_eq!(fnv1a_32(*b"foobar"), 0xbf9c_f968);
    }
}
