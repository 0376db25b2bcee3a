//! Client networks that stand for those whose resolvers are not proven.
//!
//! Queries that show nothing about their source say nothing about where clients are. As long as few networks are proven,
//! clients are taken to be spread evenly over all addresses. Load reports then show how much they carry at each cluster, so
//! balancing works although nobody is known, and no packet can change it.

use fairway_model::Demand;
use fairway_zones::{Draw, Snapshot, steer::ClientNet};

use super::learnt::Numbers;
use crate::samples::samples;

/// Number of networks per cluster: none of them carries 5 % of a cluster, from which on it would be pinned.
const PER_CLUSTER: usize = 64;
/// Maximum number of networks. A step asks where each of them is answered, up to 400 times.
const MAX: usize = 1024;

/// Returns demands with their pool and network. Any number of the first ones is spread evenly, too.
pub(super) fn stand_ins(numbers: &Numbers, snapshot: &Snapshot) -> Vec<(Demand, (u64, ClientNet))> {
    let mut pools: Vec<(u64, usize)> = numbers.pools.iter().map(|(key, number)| (*key, *number)).collect();
    if pools.is_empty() {
        return vec![];
    }
    pools.sort_unstable();
    let count = (PER_CLUSTER * numbers.clusters.len().max(1)).next_power_of_two().min(MAX);
    let addresses: Vec<_> = samples(count).map(|(address, _)| address).collect();
    let stand_in = |number: usize| {
        // Numbers with their bits in reverse are spread evenly from the first one on.
        let address = addresses[number.reverse_bits() >> (usize::BITS - count.trailing_zeros())];
        let (key, pool) = pools[number % pools.len()];
        let pool = &snapshot.steer_pools()[pool];
        let client = pool.client_net(address.into());
        (pool.demand(client, Draw(0)), (key, client))
    };
    (0..count).map(stand_in).collect()
}
