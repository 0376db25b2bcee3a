//! Shares from balancing, compiled for one snapshot: accepted shares by cluster number, and pinned demand.

use std::{collections::HashMap, sync::Arc};

use fairway_model::{AcceptedShare, ClusterName, Demand, Shares, stable_hash};

/// Numbers of the clusters in pools that balance by load.
pub(crate) type ClusterNumbers = HashMap<ClusterName, u16>;

/// Number of a cluster that is not balanced. It accepts every client.
pub(crate) const UNBALANCED: u16 = u16::MAX;

/// Shares, compiled for one snapshot.
#[derive(Debug)]
pub(crate) struct CompiledShares {
    /// Shares as balancing gave them, for the next snapshot.
    pub(crate) shares: Arc<Shares>,
    acceptance: Box<[AcceptedShare]>,
    /// Number of the cluster that a demand is pinned to, in the order of the demands. Queries search it, and clients choose
    /// demands, so it is no table of hashes: a search reads at most 11 of them (see [`Shares::PINS_MAX`]).
    pins: Box<[(Demand, u16)]>,
    /// Part of the shares in the id of the runtime state.
    pub(crate) id: u64,
}

impl CompiledShares {
    pub(crate) fn new(clusters: &ClusterNumbers, shares: Arc<Shares>) -> Self {
        let mut acceptance = vec![AcceptedShare::ALL; clusters.len()];
        let mut id = 0u64;
        for (cluster, given) in shares.accepted.iter().filter(|(_, given)| **given != AcceptedShare::ALL) {
            if let Some(slot) = clusters.get(cluster).and_then(|number| acceptance.get_mut(usize::from(*number))) {
                *slot = *given;
                id = id.wrapping_add(stable_hash(&(cluster.as_str(), given.local, given.overflow)));
            }
        }
        let known =
            shares.pins.iter().filter_map(|(demand, cluster)| Some((*demand, cluster, *clusters.get(cluster)?)));
        let mut pins = Vec::new();
        for (demand, cluster, number) in known.take(Shares::PINS_MAX) {
            id = id.wrapping_add(stable_hash(&(demand.0, cluster.as_str())));
            pins.push((demand, number));
        }
        Self { acceptance: acceptance.into(), pins: pins.into(), id, shares }
    }

    /// Returns the share of clients that a cluster accepts.
    #[inline]
    pub(crate) fn acceptance(&self, cluster: u16) -> AcceptedShare {
        self.acceptance.get(usize::from(cluster)).copied().unwrap_or(AcceptedShare::ALL)
    }

    /// True if any demand is pinned.
    #[inline]
    pub(crate) fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// Returns the number of the cluster that a demand is pinned to.
    #[inline]
    pub(crate) fn pin(&self, demand: Demand) -> Option<u16> {
        let place = self.pins.binary_search_by_key(&demand, |(pinned, _)| *pinned).ok()?;
        Some(self.pins[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(names: &[&str]) -> ClusterNumbers {
        names.iter().map(|name| ClusterName::new(name).unwrap()).zip(0..).collect()
    }

    fn shares(pins: impl IntoIterator<Item = (u64, &'static str)>) -> Arc<Shares> {
        let pins = pins.into_iter().map(|(demand, name)| (Demand(demand), ClusterName::new(name).unwrap()));
        Arc::new(Shares { pins: pins.collect(), ..Shares::default() })
    }

    #[test]
    fn only_the_first_pins_up_to_the_maximum_are_used() {
        // Every demand belongs in one slot: the worst that the table can be given.
        let demand = |i: u64| i << 32 | 7;
        let most = Shares::PINS_MAX as u64;
        let balanced = CompiledShares::new(
            &clusters(&["a", "b"]),
            shares((0..most + 5).map(|i| (demand(i), ["a", "b"][i as usize % 2]))),
        );
        for i in 0..most {
            assert_eq!(balanced.pin(Demand(demand(i))), Some((i % 2) as u16));
        }
        for beyond in [demand(most), demand(most + 4), 7 | 1 << 60, 0] {
            assert_eq!(balanced.pin(Demand(beyond)), None);
        }
    }

    #[test]
    fn pin_of_cluster_that_is_not_balanced_is_ignored() {
        let balanced = CompiledShares::new(&clusters(&["a"]), shares([(1, "a"), (2, "gone")]));
        assert_eq!([1, 2, 3].map(|demand| balanced.pin(Demand(demand))), [Some(0), None, None]);
        assert_eq!(balanced.id, CompiledShares::new(&clusters(&["a"]), shares([(1, "a")])).id);
        assert_ne!(balanced.id, CompiledShares::new(&clusters(&["a"]), shares([(1, "a"), (2, "a")])).id);
    }

    #[test]
    fn cluster_without_share_accepts_everything() {
        let a = ClusterName::new("a").unwrap();
        let half = AcceptedShare { local: 30_000, overflow: 0 };
        let given = Shares { accepted: [(a, half)].into(), ..Shares::default() };
        let balanced = CompiledShares::new(&clusters(&["a", "b"]), Arc::new(given));
        assert_eq!([0, 1, UNBALANCED].map(|c| balanced.acceptance(c)), [half, AcceptedShare::ALL, AcceptedShare::ALL]);
    }
}
