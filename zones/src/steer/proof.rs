//! The numbers behind a decision: enough to repeat it by hand from an explanation.
//!
//! `docs/internals/policies.md` has the formulas. A test repeats decisions with an implementation of its own.

use fairway_model::Demand;

use super::{
    client_net::ClientNet,
    pool::{Member, SteerPool},
};
use crate::{
    client::Draw,
    runtime::RuntimeState,
    shares::{SlotClusters, UNBALANCED},
    steer::LocationClass,
};

/// Numbers of a decision that are not of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Location class of the client.
    pub location_class: LocationClass,
    /// Hash of the client's network or of the draw; 0 if every client gets the same answer.
    pub seed: u64,
    /// Stable hash of the pool's name, and of the zone's monitor and visibility if they make a variant of the pool.
    pub pool_key: u64,
    /// Members by number, by group, in the order of the client's location class.
    pub groups: Vec<Vec<u8>>,
    /// Id of the client's demand, in a pool that balances by load.
    pub demand: Option<Demand>,
    /// Slot of the demand, if load control has a table for the client's class.
    pub slot: Option<Slot>,
}

/// Slot of a client's demand in the table of its class of load control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Number of the slot, below [`Demand::SLOTS`].
    pub number: u8,
    /// Member that the table has for it, by number. `None` if the pool does not have the cluster.
    pub member: Option<u8>,
}

/// Numbers of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Stable hash of the names of pool and cluster.
    pub key: u64,
    /// Effective weight: 1 for standby members, and if all weights are 0.
    pub share: u16,
    /// Number of slots that its cluster has in the table of the client's class. `None` without a table.
    pub slots: Option<u16>,
}

impl Proof {
    /// Computes the numbers that do not depend on a member.
    pub(super) fn new(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Self {
        let seed = pool.seed(client, draw);
        let mut groups: Vec<Vec<u8>> = Vec::new();
        for step in pool.orders.class(client.class()) {
            let number = pool.members[usize::from(step.index)].number;
            match groups.get_mut(usize::from(step.group)) {
                Some(group) => group.push(number),
                None => groups.push(vec![number]),
            }
        }
        let demand = pool.load.then(|| pool.demand_of(seed));
        let table = pool.table(runtime, client);
        let slot = demand.zip(table).map(|(demand, table)| {
            let cluster = table[demand.slot()];
            let member = pool.members.iter().find(|member| cluster != UNBALANCED && member.cluster == cluster);
            Slot { number: demand.slot() as u8, member: member.map(|member| member.number) }
        });
        Self { location_class: pool.location_class(client), seed, pool_key: pool.key, groups, demand, slot }
    }
}

impl Terms {
    pub(super) fn new(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet, member: &Member) -> Self {
        let slots = |table: &SlotClusters| {
            table.iter().filter(|cluster| **cluster == member.cluster && member.cluster != UNBALANCED).count() as u16
        };
        Self { key: member.key, share: member.weight, slots: pool.table(runtime, client).map(slots) }
    }
}

impl SteerPool {
    fn table<'a>(&self, runtime: &'a RuntimeState, client: ClientNet) -> Option<&'a SlotClusters> {
        runtime.balanced.as_deref().filter(|_| self.load)?.table(self.load_begin, client.class())
    }
}
