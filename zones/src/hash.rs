//! Hashes of the inputs of a decision: equal on every server and in every release.
//!
//! The constants are fixed, and tests pin them. Another constant would move most clients to another cluster, and two
//! servers that disagree would give one client two answers.

use std::hash::Hasher;

use fairway_model::StableHasher;

/// One seed for each kind of input, so that equal bytes of two kinds have unrelated hashes.
pub(crate) mod seed {
    /// Names of pools.
    pub(crate) const POOL: u64 = 0x66_61_69_72_77_61_79_01;
    /// Names of clusters.
    pub(crate) const CLUSTER: u64 = 0x66_61_69_72_77_61_79_02;
    /// IPv4 networks of clients.
    pub(crate) const CLIENT_V4: u64 = 0x66_61_69_72_77_61_79_04;
    /// IPv6 networks of clients.
    pub(crate) const CLIENT_V6: u64 = 0x66_61_69_72_77_61_79_06;
    /// Draws of single queries.
    pub(crate) const DRAW: u64 = 0x66_61_69_72_77_61_79_07;
    /// Last-good members of pools.
    pub(crate) const MEMORY: u64 = 0x66_61_69_72_77_61_79_09;
    /// Members closed by a schedule.
    pub(crate) const CLOSED: u64 = 0x66_61_69_72_77_61_79_0a;
    /// Parts of the configuration. Equal to `CLOSED`, but never compared with it: hashes of the configuration are summed in the
    /// id of a snapshot, those of closed members in the id of the runtime state.
    pub(crate) const CONFIGURED: u64 = 0x66_61_69_72_77_61_79_0a;
}

/// Returns the hash of a text.
pub(crate) fn text(seed: u64, text: &str) -> u64 {
    of_bytes(seed, text.as_bytes())
}

/// Returns the hash of bytes that are part of the configuration.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    of_bytes(seed::CONFIGURED, bytes)
}

fn of_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hasher = StableHasher::new(seed);
    hasher.write(bytes);
    hasher.write_u64(bytes.len() as u64);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_names_are_pinned() {
        assert_eq!(text(seed::POOL, "shop"), 0xd8a7_b8fd_6d0b_c709);
        assert_eq!(text(seed::CLUSTER, "a-cluster-with-a-long-name"), 0xd9d2_c04e_2476_717c);
    }

    #[test]
    fn texts_of_different_length_or_order_have_different_hashes() {
        let hashes = ["", "\0", "ab", "ba", "ab\0", "abababababababab", "abababab"].map(|t| text(seed::POOL, t));
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash));
        }
    }
}
