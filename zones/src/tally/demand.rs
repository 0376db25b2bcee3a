//! Samples of demand: the client and the member of each answer of a pool that balances by load.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fairway_model::{Network, SourceProof};

use super::{Tally, address_of, address_words, ring::Ring};
use crate::steer::ClientNet;

/// One answer of a pool that balances by load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandSample {
    /// Source address of the query; of an IPv6 address only the first 64 bits.
    pub source: IpAddr,
    /// Proof of the source.
    pub proof: SourceProof,
    /// Stable key of the pool.
    pub pool: u64,
    /// Client, as the pool groups clients.
    pub client: Network,
    /// First member of the answer, by number.
    pub member: u8,
}

/// Samples that may wait for the reader. At more than 4,096 per reading interval (a second) some are lost.
const ENTRIES: usize = 4096;
/// Pool, client in two words, source, and one word of fields: proof from bit 16, prefix length from bit 8, member.
const WORDS: usize = 5;

/// Ring of demand samples.
pub(super) type DemandRing = Ring<ENTRIES, WORDS>;

impl Tally {
    /// Adds a sample of demand: an answer of a pool that balances by load.
    #[inline]
    pub(crate) fn note_demand(&self, pool: u64, client: ClientNet, member: u8, (source, proof): (IpAddr, SourceProof)) {
        let network = client.network();
        let [high, low] = address_words(network.address());
        let meta = (proof as u64) << 16 | u64::from(network.length()) << 8 | u64::from(member);
        self.demand_samples.push([pool, high, low, source_word(source), meta]);
    }

    /// Calls `each` with the demand samples since the last call. Only one thread may call it.
    ///
    /// Samples that find the ring full are lost and counted in [`Tallies::demand_samples_lost`].
    ///
    /// [`Tallies::demand_samples_lost`]: super::Tallies::demand_samples_lost
    pub fn take_demand_samples(&self, mut each: impl FnMut(DemandSample)) {
        self.demand_samples.drain(|[pool, high, low, source, meta]| {
            let client = Network::of(address_of([high, low]), (meta >> 8) as u8);
            let proof = SourceProof::ALL[(meta >> 16) as usize % SourceProof::ALL.len()];
            each(DemandSample { source: source_of(source), proof, pool, client, member: meta as u8 });
        });
    }
}

/// Returns a source as one word. An IPv4 address is one in `0:ffff::/32`, which IPv6 does not use.
pub(super) fn source_word(source: IpAddr) -> u64 {
    match source {
        IpAddr::V4(source) => V4_SOURCES << 32 | u64::from(source.to_bits()),
        IpAddr::V6(source) => (source.to_bits() >> 64) as u64,
    }
}

/// Returns the source from the word of [`source_word`].
fn source_of(word: u64) -> IpAddr {
    match word >> 32 {
        V4_SOURCES => Ipv4Addr::from_bits(word as u32).into(),
        _ => Ipv6Addr::from_bits(u128::from(word) << 64).into(),
    }
}

const V4_SOURCES: u64 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_round_trip() {
        let tally = Tally::default();
        let clients = [("198.51.100.0", 24), ("2001:db8::", 56), ("0.0.0.0", 0)];
        let clients = clients.map(|(address, length)| ClientNet::new(address.parse().unwrap(), length, 0));
        let sources = ["255.0.2.1", "2001:db8:1:2:3::4", "::1"].map(|source| source.parse().unwrap());
        let mut expected = vec![];
        for (number, client) in clients.into_iter().enumerate() {
            let (member, proof) = (7 + number as u8, SourceProof::ALL[number]);
            tally.note_demand(42, client, member, (sources[number], proof));
            let source = ["255.0.2.1", "2001:db8:1:2::", "::"][number].parse().unwrap();
            expected.push(DemandSample { source, proof, pool: 42, client: client.network(), member });
        }
        let mut seen = vec![];
        tally.take_demand_samples(|sample| seen.push(sample));
        assert_eq!(seen, expected);
    }
}
