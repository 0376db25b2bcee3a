//! What balancing decided: how much of its traffic each cluster takes, and which demand is held where.

use std::collections::BTreeMap;

use crate::ClusterName;

/// How much of what falls to a cluster it takes, in 65535ths. What it does not take goes to each client's next best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcceptedShare {
    /// Of clients to whom it is the best.
    pub near: u16,
    /// Of clients whom a better cluster did not take.
    pub spill: u16,
}

impl AcceptedShare {
    /// Takes everything: what holds where nothing is balanced.
    pub const ALL: Self = Self { near: u16::MAX, spill: u16::MAX };
    /// Takes nothing, unless no other cluster is left.
    pub const NONE: Self = Self { near: 0, spill: 0 };
}

impl Default for AcceptedShare {
    fn default() -> Self {
        Self::ALL
    }
}

/// The demand of one client network on one pool: what a decision sends to one place as a whole. A stable hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand(pub u64);

/// What balancing decided. Only pools whose policy says `load` heed it.
///
/// It is data: equal shares give equal answers on every server that holds the same snapshot and health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Counts the decisions.
    pub epoch: u64,
    /// Clusters that do not take everything; all others do.
    pub acceptance: BTreeMap<ClusterName, AcceptedShare>,
    /// Demand that stays with a cluster while that can be answered, whatever the acceptance; at most
    /// [`Shares::PINS_MAX`].
    pub pins: BTreeMap<Demand, ClusterName>,
}

impl Shares {
    /// Most demands that are held.
    pub const PINS_MAX: usize = 1024;
}
