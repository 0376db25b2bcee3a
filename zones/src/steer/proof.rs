//! The numbers behind a decision: enough to repeat it by hand from an explanation.
//!
//! `docs/policies/README.md` has the formulas. A test repeats decisions with an implementation of its own.

use fairway_model::{AcceptedShare, Demand};

use super::{
    client_net::ClientNet,
    pool::{Member, SteerPool},
};
use crate::{client::Draw, runtime::RuntimeState, steer::partition::LocationClass};

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
    /// Member that the demand is pinned to, by number.
    pub pinned_to: Option<u8>,
}

/// Numbers of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Stable hash of the names of pool and cluster.
    pub key: u64,
    /// Effective weight: 1 for standby members, and if all weights are 0.
    pub share: u16,
    /// Accepted share. `None` in a pool that does not balance by load.
    pub acceptance: Option<AcceptedShare>,
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
        let pinned = demand.zip(runtime.balanced.as_deref()).and_then(|(demand, balanced)| balanced.pin(demand));
        let pinned_member = |cluster| pool.members.iter().find(|member| member.cluster == cluster);
        Self {
            location_class: pool.location_class(client),
            seed,
            pool_key: pool.key,
            groups,
            demand,
            pinned_to: pinned.and_then(pinned_member).map(|member| member.number),
        }
    }
}

impl Terms {
    pub(super) fn new(pool: &SteerPool, runtime: &RuntimeState, member: &Member) -> Self {
        let accepted =
            || runtime.balanced.as_ref().map_or(AcceptedShare::ALL, |balanced| balanced.acceptance(member.cluster));
        Self { key: member.key, share: member.weight, acceptance: pool.load.then(accepted) }
    }
}
