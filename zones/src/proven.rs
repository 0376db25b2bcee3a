//! Networks that have shown, by a query over TCP, that they receive at their addresses.
//!
//! [`crate::RateTable`] limits by how many bytes the responses to all other networks together exceed their queries. A resolver without
//! cookies is truncated at most once a day for this limit: it comes back over TCP and is then known.
//!
//! The table has a fixed size: a network has the slot of its hash, and replaces what is there. The hash has a random key, so nobody can
//! choose a network that replaces another.

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{client::Now, rate_limit::RateLimits, snapshot::Snapshot};

/// Slots of the table: 512 KiB. A power of two.
const SLOTS: usize = 1 << 16;
/// Seconds for which a network is known: a day.
const KNOWN: u32 = 86_400;

/// Networks that receive at their addresses, as all sockets of a server know them.
#[derive(Debug, Default)]
pub struct ProvenNetworks {
    hasher: RandomState,
    /// The upper half of a network's hash, and the second of its last query over TCP. Allocated for the first one.
    slots: OnceLock<Box<[AtomicU64]>>,
}

impl ProvenNetworks {
    /// Returns the hash of a network's number.
    pub(crate) fn hash(&self, network: u64) -> u64 {
        self.hasher.hash_one(network)
    }

    /// Notes the network of a client that has sent a query over TCP, if responses over UDP are limited.
    pub fn prove(&self, snapshot: &Snapshot, address: IpAddr, now: Now) {
        if let Some(limits) = &snapshot.options.rate_limits {
            self.insert(limits, address, now);
        }
    }

    pub(crate) fn insert(&self, limits: &RateLimits, address: IpAddr, Now(now): Now) {
        let hash = self.hash(limits.network(address));
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        slots[hash as usize % SLOTS].store(hash >> 32 << 32 | now & u64::from(u32::MAX), Relaxed);
    }

    /// True if a network with this hash was noted within a day.
    pub(crate) fn contains(&self, hash: u64, Now(now): Now) -> bool {
        let word = self.slots.get().map_or(0, |slots| slots[hash as usize % SLOTS].load(Relaxed));
        word >> 32 == hash >> 32 && (now as u32).wrapping_sub(word as u32) < KNOWN
    }
}
