//! What a decision followed from, in numbers: enough to make it again by hand, from an explanation alone.
//!
//! `docs/policies/README.md` has the formulas; a test computes answers from what is shown by an implementation of its own.

use fairway_model::{AcceptedShare, Demand};

use super::{
    client_net::ClientNet,
    pool::{Member, SteerPool},
};
use crate::{client::Draw, runtime::RuntimeState, steer::partition::LocationClass};

/// What a decision followed from, beside what is said of each member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Where the client is, as the pool tells places apart.
    pub place: LocationClass,
    /// Stands for the client, or for the draw of the query; 0 where every client gets the same.
    pub seed: u64,
    /// Stable hash of the pool's name, and of what makes another pool of it in some zones: the zone's monitor and visibility.
    pub pool_key: u64,
    /// Members by their number, group by group in the order of the client's row.
    pub groups: Vec<Vec<u8>>,
    /// What stands for the client's demand, in a pool that heeds load.
    pub demand: Option<Demand>,
    /// The member that holds that demand, by its number.
    pub pinned_to: Option<u8>,
}

/// What a member is in the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Stable hash of the names of pool and cluster.
    pub key: u64,
    /// Its weight as it counts: 1 for standby members, and where all weights are 0.
    pub share: u16,
    /// What it takes; none in a pool that does not heed load.
    pub acceptance: Option<AcceptedShare>,
}

impl Proof {
    /// What follows from pool, runtime state and client before a member is looked at.
    pub(super) fn new(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Self {
        let seed = pool.seed(client, draw);
        let mut groups: Vec<Vec<u8>> = Vec::new();
        for step in pool.orders.class(client.class()) {
            let number = pool.members[usize::from(step.place)].number;
            match groups.get_mut(usize::from(step.group)) {
                Some(group) => group.push(number),
                None => groups.push(vec![number]),
            }
        }
        let demand = pool.load.then(|| pool.demand_of(seed));
        let pinned = demand.zip(runtime.balanced()).and_then(|(demand, balanced)| balanced.pin(demand));
        let pinned_member = |cluster| pool.members.iter().find(|member| member.cluster == cluster);
        Self {
            place: pool.place(client),
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
        let taken = || runtime.balanced().map_or(AcceptedShare::ALL, |balanced| balanced.acceptance(member.cluster));
        Self { key: member.key, share: member.weight, acceptance: pool.load.then(taken) }
    }
}
