//! The result of load control: a table of clusters for each location class.

use std::collections::BTreeMap;

use crate::ClusterName;

/// The demand of one client network on one pool, which is sent to one cluster as a whole. A stable hash of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand(pub u64);

impl Demand {
    /// Number of slots that the demands of a location class are divided into.
    pub const SLOTS: usize = 256;

    /// Returns the slot of the demand, below [`Demand::SLOTS`].
    #[inline]
    pub fn slot(self) -> usize {
        self.0 as usize % Self::SLOTS
    }
}

/// Proof of the source address of a query, which decides if the query is evidence of demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceProof {
    /// Nothing: it came over UDP, where addresses can be forged.
    None,
    /// It has a server cookie that this address received.
    Cookie,
    /// It came over TCP.
    Tcp,
}

impl SourceProof {
    /// All proofs, in declared order.
    pub const ALL: [Self; 3] = [Self::None, Self::Cookie, Self::Tcp];
}

/// The result of load control. Only pools with `load` in their policy use it.
///
/// Servers with equal shares, snapshot and health give equal answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Number of the decision.
    pub epoch: u64,
    /// Tables of the location classes.
    pub tables: Vec<SlotTable>,
    /// Part of the demand of its group that each cluster gets by the tables, in 65535ths. Answers do not depend on it.
    pub parts: BTreeMap<ClusterName, u16>,
}

/// The clusters that the clients of a location class are answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotTable {
    /// Clusters that the class can be answered with, sorted by name, and the cost of a unit of demand at each: thousandths of a rank by
    /// distance, from 0. They identify the class.
    pub costs: Vec<(ClusterName, u32)>,
    /// Cluster of each of the [`Demand::SLOTS`] slots: its index in `costs`, or [`SlotTable::NONE`].
    pub slots: Vec<u16>,
}

impl SlotTable {
    /// No cluster: clients of the slot get the nearest one.
    pub const NONE: u16 = u16::MAX;

    /// Returns how much the ranking of a class differs from this one: the sum of the squared differences of costs, 0 for the same. A cluster
    /// that only one of both has counts as far away.
    pub fn distance<'a>(&self, costs: impl ExactSizeIterator<Item = (&'a ClusterName, Option<u32>)>) -> u64 {
        let far = 2_000 * (costs.len() as u64 + 1);
        let own = |cluster: &ClusterName| {
            let place = self.costs.binary_search_by_key(&cluster, |(name, _)| name).ok()?;
            Some(u64::from(self.costs[place].1))
        };
        costs
            .map(|(cluster, cost)| match (cost, own(cluster)) {
                (None, None) => 0,
                (Some(cost), Some(own)) => u64::from(cost).abs_diff(own).pow(2),
                _ => far * far,
            })
            .sum()
    }
}
