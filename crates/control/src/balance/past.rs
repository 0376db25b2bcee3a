//! Knowledge of balancing from another configuration or a previous process.

use std::collections::{HashMap, HashSet};

use fairway_health::balance::{Kept, Settings};
use fairway_model::{Demand, Timestamp};
use fairway_steering::evidence::Evidence;
use fairway_zones::{Draw, Snapshot, steer::ClientNet};

use super::{clusters::balanced_pools, learnt::Learnt};
use fairway_store::SavedBalance;

/// Earlier knowledge, and pool and client network of each demand.
#[derive(Debug)]
pub(super) struct Past {
    pub learnt: Kept,
    pub clients: HashMap<Demand, (u64, ClientNet)>,
    /// Evidence; of this process only.
    pub evidence: Option<Evidence>,
}

impl Past {
    /// Returns the knowledge of a previous process, or `None` if it is too old at `now`: after that time, a cluster without reports has
    /// returned to its declared share, too. A clock that was set back by as much also makes it too old.
    ///
    /// Demands that the snapshot does not have are dropped, since their cluster cannot be found.
    pub(super) fn of(kept: SavedBalance, now: Timestamp, settings: &Settings, snapshot: &Snapshot) -> Option<Self> {
        let oldest = HOLD_PERIODS * settings.period + FADE_TTLS * settings.ttl;
        let age = now.since(kept.written).max(kept.written.since(now));
        if age > oldest {
            tracing::info!(?age, ?oldest, "saved balance state ignored: too old");
            return None;
        }
        let pools: HashMap<u64, _> = balanced_pools(snapshot).map(|(_, pool)| (pool.key(), pool)).collect();
        let found = kept.clients.into_iter().filter_map(|(demand, key, network)| {
            let pool = pools.get(&key)?;
            let client = pool.client_net(network.address());
            (pool.demand(client, Draw(0)) == demand).then_some((demand, (key, client)))
        });
        let clients: HashMap<_, _> = found.collect();
        let mut learnt = kept.learnt;
        learnt.demands.retain(|(demand, ..)| clients.contains_key(demand));
        learnt.pins.retain(|(demand, _)| clients.contains_key(demand));
        tracing::info!(?age, demands = learnt.demands.len(), "balance state restored");
        Some(Self { learnt, clients, evidence: None })
    }
}

/// Returns the state for a later process.
pub(super) fn keep(Learnt { balancer, clients, .. }: &Learnt, now: Timestamp) -> SavedBalance {
    let learnt = balancer.keep();
    let known: HashSet<Demand> = learnt.demands.iter().map(|(demand, ..)| *demand).collect();
    let clients = clients.iter().filter(|(demand, _)| known.contains(demand));
    let clients = clients.map(|(demand, (key, client))| (*demand, *key, client.network())).collect();
    SavedBalance { written: now, learnt, clients }
}

/// Report periods for which a report counts in full, as in the balancer.
const HOLD_PERIODS: u32 = 3;
/// TTLs over which a report then fades, as in the balancer.
const FADE_TTLS: u32 = 10;
