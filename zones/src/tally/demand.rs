//! Samples of demand: the client and the member of each answer of a pool that balances by load.

use fairway_model::Network;

use super::{Tally, address_of, address_words, ring::Ring};
use crate::steer::ClientNet;

/// One answer of a pool that balances by load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandSample {
    /// Stable key of the pool.
    pub pool: u64,
    /// Client, as the pool groups clients.
    pub client: Network,
    /// First member of the answer, by number.
    pub member: u8,
}

/// Samples that may wait for the reader. At more than 4,096 per reading interval (a second) some are lost.
const ENTRIES: usize = 4096;
/// Pool, address in two words, prefix length and member.
const WORDS: usize = 4;

/// Ring of demand samples.
pub(super) type DemandRing = Ring<ENTRIES, WORDS>;

impl Tally {
    /// Adds a sample of demand: an answer of a pool that balances by load.
    #[inline]
    pub(crate) fn note_demand(&self, pool: u64, client: ClientNet, member: u8) {
        let network = client.network();
        let [high, low] = address_words(network.address());
        self.demand_samples.push([pool, high, low, u64::from(network.length()) << 8 | u64::from(member)]);
    }

    /// Calls `each` with the demand samples since the last call. Only one thread may call it.
    ///
    /// Samples that find the ring full are lost and counted in [`Tallies::demand_samples_lost`].
    ///
    /// [`Tallies::demand_samples_lost`]: super::Tallies::demand_samples_lost
    pub fn take_demand_samples(&self, mut each: impl FnMut(DemandSample)) {
        self.demand_samples.drain(|[pool, high, low, meta]| {
            let client = Network::of(address_of([high, low]), (meta >> 8) as u8);
            each(DemandSample { pool, client, member: meta as u8 });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_both_families_round_trip() {
        let tally = Tally::default();
        let clients = [("198.51.100.0", 24), ("2001:db8::", 56), ("0.0.0.0", 0)];
        let clients = clients.map(|(address, length)| ClientNet::new(address.parse().unwrap(), length, 0));
        clients.iter().zip(7..).for_each(|(client, member)| tally.note_demand(42, *client, member));
        let mut seen = vec![];
        tally.take_demand_samples(|asked| seen.push(asked));
        let expected =
            clients.iter().zip(7..).map(|(c, member)| DemandSample { pool: 42, client: c.network(), member });
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }
}
