//! What balancing goes on from: what it had learnt under another configuration, or in a process before this one.

use std::collections::{HashMap, HashSet};

use fairway_health::balance::{Kept, Settings};
use fairway_model::{Demand, Timestamp};
use fairway_zones::{Draw, Snapshot, steer::ClientNet};

use super::{clusters::balanced_pools, learnt::Learnt};
use fairway_store::SavedBalance;

/// What was learnt, and whose each demand is.
#[derive(Debug)]
pub(super) struct Past {
    pub learnt: Kept,
    pub clients: HashMap<Demand, (u64, ClientNet)>,
}

impl Past {
    /// What a process before this one had learnt, if it is still true at `now`: as old as a report may be until a cluster
    /// has faded to the declared split, it says as little as none. A clock that was set back by so much makes it old, too.
    ///
    /// Demands that the snapshot knows by another name, or not at all, are left out: nobody could say where they go.
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
        Some(Self { learnt, clients })
    }
}

/// What a later process should find.
pub(super) fn keep(Learnt { balancer, clients }: &Learnt, now: Timestamp) -> SavedBalance {
    let learnt = balancer.keep();
    let known: HashSet<Demand> = learnt.demands.iter().map(|(demand, ..)| *demand).collect();
    let whose = clients.iter().filter(|(demand, _)| known.contains(demand));
    let clients = whose.map(|(demand, (key, client))| (*demand, *key, client.network())).collect();
    SavedBalance { written: now, learnt, clients }
}

/// Report periods for which what was learnt holds; then it fades over so many TTLs. As the balancer does with reports.
const HOLD_PERIODS: u32 = 3;
const FADE_TTLS: u32 = 10;
