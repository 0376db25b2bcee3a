//! The result of load control: a table of clusters, or of services in them, for each location class.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ClusterName, IdError, PoolName};

/// A destination of demand in load control: a cluster, or the service of one pool there, whose load counts by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Backend {
    /// The cluster.
    pub cluster: ClusterName,
    /// The pool of the service; `None` for the cluster as a whole.
    pub pool: Option<PoolName>,
}

impl Backend {
    /// Returns the place of a service among all services: by the name of its pool, and after all others if an intent or a contribution declares
    /// it (their pools have a `+` in the name), so that tenants do not take the places of the operator's pools. `None` for a cluster.
    pub fn service_order(&self) -> Option<(bool, &PoolName)> {
        self.pool.as_ref().map(|pool| (pool.as_str().contains('+'), pool))
    }
}

impl From<ClusterName> for Backend {
    fn from(cluster: ClusterName) -> Self {
        Self { cluster, pool: None }
    }
}

/// `CLUSTER`, or `POOL@CLUSTER`.
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pool {
            Some(pool) => write!(f, "{pool}@{}", self.cluster),
            None => self.cluster.fmt(f),
        }
    }
}

impl FromStr for Backend {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (pool, cluster) = match text.split_once('@') {
            Some((pool, cluster)) => (Some(PoolName::new(pool)?), cluster),
            None => (None, text),
        };
        Ok(Self { cluster: ClusterName::new(cluster)?, pool })
    }
}

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Number of the decision.
    pub epoch: u64,
    /// Tables of the location classes.
    pub tables: Vec<SlotTable>,
    /// Part of the demand of its group that each backend gets by the tables, in 65535ths. Answers do not depend on it.
    pub parts: BTreeMap<Backend, u16>,
}

/// Cost and weight of a cluster for the clients of a location class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClusterCost {
    /// Cost of a unit of demand: thousandths of a rank by distance, from 0.
    pub cost: u32,
    /// Its part of the weights of all clusters of the class, in thousandths.
    pub weight: u32,
}

/// The clusters that the clients of a location class are answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotTable {
    /// Clusters that the class can be answered with, sorted by name, with their costs. They identify the class.
    pub costs: Vec<(Backend, ClusterCost)>,
    /// Cluster of each of the [`Demand::SLOTS`] slots: its index in `costs`, or [`SlotTable::NONE`].
    pub slots: Vec<u16>,
}

impl SlotTable {
    /// No cluster: clients of the slot get the nearest one.
    pub const NONE: u16 = u16::MAX;

    /// Returns how much a class differs from that of this table: the sum of the squared differences of costs and weights, 0 for the same. A
    /// cluster that only one of both has counts as far away.
    pub fn distance<'a>(&self, costs: impl ExactSizeIterator<Item = (&'a Backend, Option<ClusterCost>)>) -> u64 {
        let far = 2_000 * (costs.len() as u64 + 1);
        let own = |cluster: &Backend| {
            let place = self.costs.binary_search_by_key(&cluster, |(name, _)| name).ok()?;
            Some(self.costs[place].1)
        };
        let square = |a: u32, b: u32| u64::from(a.abs_diff(b)).pow(2);
        costs
            .map(|(cluster, cost)| match (cost, own(cluster)) {
                (None, None) => 0,
                (Some(of), Some(own)) => square(of.cost, own.cost) + square(of.weight, own.weight),
                _ => far * far,
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backend_is_written_as_it_is_read() {
        for text in ["eu1", "shop@eu1"] {
            assert_eq!(text.parse::<Backend>().unwrap().to_string(), text);
        }
        for wrong in ["", "@eu1", "shop@", "a@b@c"] {
            assert!(wrong.parse::<Backend>().is_err(), "{wrong}");
        }
    }
}
