//! Response rate limiting over UDP: settings, and the table of one socket that counts responses per client network.
//!
//! A server that answers forged queries sends the responses to a victim. Each network may get a number of responses per second of
//! each kind; others are dropped, or truncated so that a real client comes back over TCP. [`crate::write_limited`] applies it.
//!
//! The table has a fixed size and no entries to find or evict: a network and a kind of response have a slot by their hash. Slots are
//! shared by whatever has the same hash, so one network in 65,536 shares a slot with a given victim, and then its clients are answered
//! over TCP or with a cookie. The hash has a random key, so nobody can choose a network that shares the slot of another.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use fairway_model::{Network, mix};

use crate::{client::Now, proven::ProvenNetworks};

/// Kind of a response, as far as rates are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ResponseKind {
    /// Records of the name. Counted per name.
    Answer,
    /// A referral to the servers of a delegated zone. Counted per delegation.
    Referral,
    /// The name exists, but has no records of the type. Counted per name.
    NoData,
    /// The name does not exist. Counted per zone, because floods ask for random names.
    NxDomain,
    /// Errors, refusals, and answers about the server.
    Error,
    /// All responses to a network together.
    All,
    /// Responses to all networks together that are not [proven](ProvenNetworks), in bytes by which they exceed their queries.
    Excess,
}

impl ResponseKind {
    /// All kinds, in declared order.
    pub const ALL: [Self; 7] =
        [Self::Answer, Self::Referral, Self::NoData, Self::NxDomain, Self::Error, Self::All, Self::Excess];
}

/// Limits of responses over UDP to clients that have not shown that they receive at their address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Responses per second to a network, in the order of [`ResponseKind::ALL`], at most [`RateLimits::RATE_MAX`]; the last one is bytes
    /// per second to all networks that are not [proven](ProvenNetworks), at most [`RateLimits::EXCESS_MAX`]. 0 for no limit.
    pub per_second: [u32; ResponseKind::ALL.len()],
    /// Seconds for which a network that stops to send too many queries stays limited: 1 to [`RateLimits::WINDOW_MAX`].
    pub window: u32,
    /// One in so many responses over the limit is truncated, the others are dropped. 0 drops all.
    pub slip: u32,
    /// Prefix length of IPv4 networks: at most 32.
    pub ipv4_prefix: u8,
    /// Prefix length of IPv6 networks: at most 64.
    pub ipv6_prefix: u8,
    /// Networks without a limit. At most [`RateLimits::ALLOWLIST_MAX`] count.
    pub allowlist: Vec<Network>,
}

impl RateLimits {
    /// Largest rate. Times [`RateLimits::WINDOW_MAX`], it fits the 32 bits of a slot.
    pub const RATE_MAX: u32 = 1_000_000;
    /// Longest window in seconds.
    pub const WINDOW_MAX: u32 = 900;
    /// Maximum number of networks without a limit: each query is compared with all.
    pub const ALLOWLIST_MAX: usize = 64;
    /// Responses of one kind per second: more than a resolver sends for one name, since it caches the answer.
    pub const PER_SECOND: u32 = 50;
    /// All responses per second. An attacker who knows many names gets no more than this.
    pub const ALL_PER_SECOND: u32 = 1_000;
    /// Largest number of bytes per second. It fits the 32 bits of a balance.
    pub const EXCESS_MAX: u32 = 1_000_000_000;
    /// Bytes per second by which responses to all networks together exceed their queries, without a cookie and from networks that are
    /// not proven: 1,600 responses that are 60 bytes longer. A flood of 6,000 queries per second, each 90 bytes with all headers, gets
    /// at most 1.2 times its bytes; a faster one gets less.
    pub const EXCESS_PER_SECOND: u32 = 100_000;

    /// Returns the network of an address as a number. IPv4 networks lie in `::ffff:0:0/32`, which is no address of a client.
    pub(crate) fn network(&self, address: IpAddr) -> u64 {
        let length = if address.is_ipv4() { self.ipv4_prefix } else { self.ipv6_prefix };
        match Network::of(address, length).address() {
            IpAddr::V4(address) => IPV4 | u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        }
    }

    /// Returns the network with this number.
    pub(crate) fn network_of(&self, number: u64) -> Network {
        if number >> 32 == IPV4 >> 32 {
            return Network::of(IpAddr::V4((number as u32).into()), self.ipv4_prefix);
        }
        Network::of(IpAddr::V6((u128::from(number) << 64).into()), self.ipv6_prefix)
    }

    pub(crate) fn is_allowed(&self, address: IpAddr) -> bool {
        self.allowlist.iter().take(Self::ALLOWLIST_MAX).any(|network| network.contains(address))
    }
}

const IPV4: u64 = 0xffff << 32;

impl Default for RateLimits {
    fn default() -> Self {
        let mut per_second = [Self::PER_SECOND; ResponseKind::ALL.len()];
        per_second[ResponseKind::All as usize] = Self::ALL_PER_SECOND;
        per_second[ResponseKind::Excess as usize] = Self::EXCESS_PER_SECOND;
        Self { per_second, window: 15, slip: 2, ipv4_prefix: 24, ipv6_prefix: 56, allowlist: vec![] }
    }
}

/// Slots of a table: 512 KiB. A power of two.
const SLOTS: usize = 1 << 16;

/// Balances of networks at one socket. The worker of the socket and its spare workers share it without locks: if two count at the
/// same instant, one response may stay uncounted.
#[derive(Debug)]
pub struct RateTable {
    /// Networks without the limit of all networks. Its hash finds the slots, too.
    proven: Arc<ProvenNetworks>,
    /// Workers that share the traffic of the address, and thus its limits.
    workers: u32,
    /// The second of the last response in the upper half, the balance then in the lower half.
    slots: Box<[AtomicU64]>,
    /// The balance of all networks together that are not proven, in bytes, in the form of a slot.
    excess: AtomicU64,
}

/// A response over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverLimit {
    /// The limit.
    pub(crate) kind: ResponseKind,
    /// The network, as a number; 0 for the limit of all networks.
    pub(crate) network: u64,
}

impl RateTable {
    /// Returns a table in which nothing has been counted, for one of `workers` sockets of an address.
    pub fn new(proven: Arc<ProvenNetworks>, workers: u32) -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { proven, workers: workers.max(1), slots, excess: AtomicU64::new(0) }
    }

    /// Counts a response about `subject` (a name or a zone). Returns the hash of the network, or the limit that the response exceeds.
    pub(crate) fn count(
        &self,
        limits: &RateLimits,
        address: IpAddr,
        (kind, subject): (ResponseKind, u32),
        Now(now): Now,
    ) -> Result<u64, OverLimit> {
        let network = limits.network(address);
        let hash = self.proven.hash(network);
        // A network over the limit of all responses does not get to the slots of single names.
        if !self.admits(hash, limits, ResponseKind::All, now as u32) {
            return Err(OverLimit { kind: ResponseKind::All, network });
        }
        let slot = mix(hash ^ ((kind as u64 + 1) << 32 | u64::from(subject)));
        if self.admits(slot, limits, kind, now as u32) { Ok(hash) } else { Err(OverLimit { kind, network }) }
    }

    /// Takes one from the balance of a slot. A second adds as much as the limit, and a balance never exceeds that. A network that
    /// stays over the limit gets into debt, up to what the window adds, and gets no response before that is paid.
    fn admits(&self, hash: u64, limits: &RateLimits, kind: ResponseKind, now: u32) -> bool {
        let limit = limits.per_second[kind as usize];
        if limit == 0 {
            return true;
        }
        let rate = i64::from(limit.min(RateLimits::RATE_MAX).div_ceil(self.workers));
        let window = i64::from(limits.window.clamp(1, RateLimits::WINDOW_MAX));
        let slot = &self.slots[hash as usize % SLOTS];
        let balance = (balance(slot, rate, window, now) - 1).max(-rate * window);
        slot.store(word(now, balance), Relaxed);
        balance >= 0
    }

    /// True if the network with this hash has shown that it receives at its address.
    pub(crate) fn is_proven(&self, hash: u64, now: Now) -> bool {
        self.proven.contains(hash, now)
    }

    /// Returns the limit of all networks together if it is used up: no further response may be larger than its query.
    pub(crate) fn excess(&self, limits: &RateLimits, Now(now): Now) -> Option<OverLimit> {
        let rate = self.excess_rate(limits);
        let is_over = rate > 0 && balance(&self.excess, rate, 1, now as u32) <= 0;
        is_over.then_some(OverLimit { kind: ResponseKind::Excess, network: 0 })
    }

    /// Counts the bytes by which a response exceeds its query towards the limit of all networks.
    pub(crate) fn count_excess(&self, limits: &RateLimits, bytes: usize, Now(now): Now) {
        let rate = self.excess_rate(limits);
        if rate > 0 && bytes > 0 {
            let balance = balance(&self.excess, rate, 1, now as u32) - bytes as i64;
            self.excess.store(word(now as u32, balance), Relaxed);
        }
    }

    fn excess_rate(&self, limits: &RateLimits) -> i64 {
        let limit = limits.per_second[ResponseKind::Excess as usize];
        i64::from(limit.min(RateLimits::EXCESS_MAX).div_ceil(self.workers))
    }
}

/// Returns the balance of a slot: `rate` is added per second since the last response, for one second more than the window at most.
fn balance(slot: &AtomicU64, rate: i64, window: i64, now: u32) -> i64 {
    let word = slot.load(Relaxed);
    // After a clock was set back, much time seems to have passed, so everybody starts anew.
    let passed = i64::from(now.wrapping_sub((word >> 32) as u32)).min(window + 1);
    (i64::from(word as u32 as i32) + rate * passed).min(rate)
}

/// Returns the content of a slot. Limits times windows fit the 32 bits of a balance.
fn word(now: u32, balance: i64) -> u64 {
    u64::from(now) << 32 | u64::from(balance as i32 as u32)
}

#[cfg(test)]
#[path = "rate_limit_tests.rs"]
mod tests;
