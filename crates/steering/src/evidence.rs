//! Decides which queries are evidence of demand, so that sending packets is not enough to move traffic.
//!
//! A query over UDP shows nothing: its source address and its client subnet can both be forged. A source that sent a
//! valid server cookie, or a query over TCP, has received an answer of ours, so it exists at its address. Only the
//! client networks behind such a *proven* source count, and within bounds:
//!
//! * A source brings at most [`NETWORKS_PER_SOURCE`] networks, however many subnets it sends. They share its weight, which is 1.
//! * New sources and new networks enter at a bounded rate, and all tables have a fixed maximum size.
//! * A network that is not seen for [`FORGET_TTLS`] TTLs is forgotten.
//!
//! All other queries count for nothing. A small part for them is not enough of a bound: where clusters are nearly full, a tenth
//! that comes and goes moved shares by ten points. Nor do they cost memory, since only proven sources have an entry.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use fairway_model::{Demand, SourceProof};

/// Maximum number of client networks that one source brings. Enough to know how demand splits to about 3 %
/// (1 / (2 √256)), and few enough that a single proven source is one among many.
pub const NETWORKS_PER_SOURCE: u32 = 256;
/// TTLs without a query after which a network is forgotten.
pub const FORGET_TTLS: u32 = 3;
/// Time for which a proof holds. A challenge comes once a day at a random moment, so two of them are up to two days
/// apart.
pub const PROOF_LASTS: Duration = Duration::from_secs(2 * 86_400);
/// Maximum number of proven sources: about 1 MiB.
pub const SOURCES_MAX: usize = 16_384;
/// Maximum number of networks: four times the demands that balancing knows one by one.
pub const NETWORKS_MAX: usize = 16_384;
/// Maximum number of sources that are proven for the first time within a TTL.
pub const NEW_SOURCES_PER_TTL: u32 = 1_024;
/// Maximum number of networks that enter within a TTL, or as many as are known already if that is more.
pub const NEW_NETWORKS_PER_TTL: u32 = 2_048;

/// The source of a query, usually a resolver: an IPv4 address, or the first 56 bits of an IPv6 address, since one host
/// usually has all addresses that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(u64);

impl Source {
    /// Returns the source that an address belongs to.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // 0:ffff::/32 is not assigned (RFC 4291), so no IPv6 source equals an IPv4 one.
            IpAddr::V4(address) => Self(0xffff << 32 | u64::from(address.to_bits())),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64 & !0xff),
        }
    }
}

/// One answered query.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Source of the query.
    pub source: Source,
    /// Proof of the source.
    pub proof: SourceProof,
    /// Demand of the client network.
    pub demand: Demand,
}

/// A proven source.
#[derive(Clone, Copy, Debug)]
struct Proven {
    until: Instant,
    seen: Instant,
    /// Networks that it brought.
    networks: u32,
    /// True if it was proven by a cookie. Such a source sends one with every query (RFC 7873), so others are forged.
    has_cookie: bool,
}

/// A known network.
#[derive(Clone, Copy, Debug)]
struct Network {
    /// The source that brought it.
    owner: Source,
    seen: Instant,
}

/// Limits a number of events per TTL.
#[derive(Debug)]
struct Admissions {
    since: Instant,
    left: u32,
}

impl Admissions {
    /// Admits one more event if some are left in this TTL, which began with `limit`.
    fn admit(&mut self, limit: u32, ttl: Duration, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= ttl {
            (self.since, self.left) = (now, limit);
        }
        let admits = self.left > 0;
        self.left -= u32::from(admits);
        admits
    }
}

/// Sources and networks that are known.
#[derive(Debug)]
pub struct Evidence {
    ttl: Duration,
    sources: HashMap<Source, Proven>,
    networks: HashMap<Demand, Network>,
    new_sources: Admissions,
    new_networks: Admissions,
    sources_max: usize,
    networks_max: usize,
}

impl Evidence {
    /// Begins with nothing known. `ttl` is the largest TTL of the answers.
    pub fn new(ttl: Duration, now: Instant) -> Self {
        let admissions = |left| Admissions { since: now, left };
        Self {
            ttl,
            sources: HashMap::new(),
            networks: HashMap::new(),
            new_sources: admissions(NEW_SOURCES_PER_TTL),
            new_networks: admissions(NEW_NETWORKS_PER_TTL),
            sources_max: SOURCES_MAX,
            networks_max: NETWORKS_MAX,
        }
    }

    /// Returns the same evidence for another TTL.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Returns the weight that the demand of a query has, 0 to 1; `None` if the query is no evidence. All networks that a source brought
    /// share its weight, so it does not grow with the number of subnets or of queries. Times never decrease from one call to the next.
    pub fn weight(&mut self, query: &Query, now: Instant) -> Option<f64> {
        if !self.has_proven_source(query, now) {
            return None;
        }
        if let Some(network) = self.networks.get_mut(&query.demand) {
            network.seen = now;
            let owner = self.sources.get(&network.owner)?;
            return Some(1.0 / f64::from(owner.networks));
        }
        if !self.admits(query.source, now) {
            return None;
        }
        self.networks.insert(query.demand, Network { owner: query.source, seen: now });
        let source = self.sources.get_mut(&query.source)?;
        source.networks += 1;
        Some(1.0 / f64::from(source.networks))
    }

    /// Forgets networks and proofs that are too old.
    pub fn expire(&mut self, now: Instant) {
        let oldest = FORGET_TTLS * self.ttl;
        self.forget(|network| now.saturating_duration_since(network.seen) >= oldest);
        // Networks outlive the proof of their source for a moment, and count until they are forgotten.
        self.sources.retain(|_, source| source.until > now || source.networks > 0);
    }

    /// Returns the number of known networks.
    pub fn networks(&self) -> usize {
        self.networks.len()
    }

    /// Returns the number of proven sources.
    pub fn proven_sources(&self) -> usize {
        self.sources.len()
    }

    /// Returns true if the network of a demand is known.
    pub fn is_known(&self, demand: Demand) -> bool {
        self.networks.contains_key(&demand)
    }

    /// Returns true if the source of a query is proven, maybe by this query.
    fn has_proven_source(&mut self, query: &Query, now: Instant) -> bool {
        let known = self.sources.get_mut(&query.source).filter(|source| source.until > now);
        match (known, query.proof) {
            (None, SourceProof::None) => false,
            // The source sends cookies, and this query has no valid one: it is forged.
            (Some(source), SourceProof::None) if source.has_cookie => false,
            (Some(source), proof) => {
                source.seen = now;
                if proof != SourceProof::None {
                    source.until = now + PROOF_LASTS;
                    source.has_cookie |= proof == SourceProof::Cookie;
                }
                true
            }
            (None, proof) => {
                if !self.new_sources.admit(NEW_SOURCES_PER_TTL, self.ttl, now) {
                    return false;
                }
                let networks = self.sources.remove(&query.source).map_or(0, |expired| expired.networks);
                self.make_room_for_source();
                let (until, has_cookie) = (now + PROOF_LASTS, proof == SourceProof::Cookie);
                self.sources.insert(query.source, Proven { until, seen: now, networks, has_cookie });
                true
            }
        }
    }

    /// Removes the source that was not seen for the longest time, with its networks, if there are too many.
    fn make_room_for_source(&mut self) {
        if self.sources.len() < self.sources_max {
            return;
        }
        let oldest = self.sources.iter().min_by_key(|(source, proven)| (proven.seen, **source));
        let Some(oldest) = oldest.map(|(source, _)| *source) else { return };
        self.forget(|network| network.owner == oldest);
        self.sources.remove(&oldest);
    }

    /// Returns true if a proven source may bring one more network.
    fn admits(&mut self, source: Source, now: Instant) -> bool {
        let has_room = self.networks.len() < self.networks_max
            && self.sources.get(&source).is_some_and(|source| source.networks < NETWORKS_PER_SOURCE);
        has_room && self.new_networks.admit(NEW_NETWORKS_PER_TTL.max(self.networks.len() as u32), self.ttl, now)
    }

    /// Forgets the networks that `is_gone`.
    fn forget(&mut self, is_gone: impl Fn(&Network) -> bool) {
        let sources = &mut self.sources;
        self.networks.retain(|_, network| {
            let stays = !is_gone(network);
            if !stays && let Some(source) = sources.get_mut(&network.owner) {
                source.networks -= 1;
            }
            stays
        });
    }
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
