//! The result of load steering: the share of clients each cluster takes, and pinned demand.

use std::collections::BTreeMap;

use crate::ClusterName;

/// The share of clients that a cluster takes, in 65535ths. The rest goes to each client's next preferred cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcceptedShare {
    /// Local share: of clients that prefer this cluster most.
    pub local: u16,
    /// Overflow share: of clients that a more preferred cluster passed on.
    pub overflow: u16,
}

impl AcceptedShare {
    /// Takes all clients: the value without load steering.
    pub const ALL: Self = Self { local: u16::MAX, overflow: u16::MAX };
    /// Takes no client unless no other cluster is left.
    pub const NONE: Self = Self { local: 0, overflow: 0 };
}

impl Default for AcceptedShare {
    fn default() -> Self {
        Self::ALL
    }
}

/// The demand of one client network on one pool, which is sent to one cluster as a whole. A stable hash of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand(pub u64);

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

/// The result of load steering. Only pools with `load` in their policy use it.
///
/// Servers with equal shares, snapshot and health give equal answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Number of the decision.
    pub epoch: u64,
    /// Shares of clusters that do not take all clients; others do.
    pub accepted: BTreeMap<ClusterName, AcceptedShare>,
    /// Demand that stays with a cluster as long as that is eligible, whatever its share; at most [`Shares::PINS_MAX`].
    pub pins: BTreeMap<Demand, ClusterName>,
}

impl Shares {
    /// Largest number of pinned demands.
    pub const PINS_MAX: usize = 1024;
}
