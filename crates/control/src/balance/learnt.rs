//! What balancing has learnt, and the step that decides from it: at the bound it takes a tenth of a second, so that it
//! runs on a thread of its own while everything else goes on.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use fairway_health::balance::{Balancer, Heard};
use fairway_health::load::LoadUpdate;
use fairway_model::{ClusterName, Demand, Shares};
use fairway_zones::{
    Asked, Draw, RuntimeState, Slot, Snapshot,
    steer::{ClientNet, SteerPool},
};

use crate::truth::Answered;

/// What is known by places: of pools in the snapshot by their key, and of clusters in the balancer by their name.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub pools: HashMap<u64, usize>,
    pub clusters: HashMap<ClusterName, usize>,
}

impl Places {
    fn pool<'a>(&self, key: u64, snapshot: &'a Snapshot) -> Option<&'a SteerPool> {
        Some(&snapshot.steer_pools()[*self.pools.get(&key)?])
    }
}

/// What was learnt from reports and queries.
#[derive(Debug)]
pub(super) struct Learnt {
    pub balancer: Balancer,
    /// Who asks for what, as far as it is known.
    pub clients: HashMap<Demand, (u64, ClientNet)>,
}

/// A step that is due, with all that it needs.
#[derive(Debug)]
pub(super) struct Step {
    pub learnt: Learnt,
    pub places: Arc<Places>,
    pub snapshot: Arc<Snapshot>,
    pub runtime: Arc<RuntimeState>,
    pub now: Instant,
}

impl Step {
    /// Decides; where a client would be sent under other shares is asked of the very code that answers.
    pub(super) fn run(self) -> Learnt {
        let Self { learnt: Learnt { mut balancer, clients }, places, snapshot, runtime, now } = self;
        let mut sent = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            let tried = runtime.with_shares(&snapshot, &Arc::new(shares.clone()));
            let route = |demand: &Demand| {
                let (key, client) = clients.get(demand)?;
                let pool = places.pool(*key, &snapshot)?;
                let route = pool.route(pool.usual_kind(), &tried, *client, Draw(0))?;
                places.clusters.get(route.cluster).copied()
            };
            demands.iter().map(route).collect()
        };
        balancer.step(now, &mut sent);
        Learnt { balancer, clients }
    }
}

impl Learnt {
    /// Takes a report.
    pub(super) fn hear(&mut self, news: &LoadUpdate, now: Instant) {
        if self.balancer.report(&news.report, now) == Heard::Disbelieved {
            let (cluster, load) = (&news.report.cluster, news.report.load);
            tracing::debug!(%cluster, %load, "load report rejected: far below the load sent to the cluster");
        }
    }

    /// Takes who asked.
    pub(super) fn asked(&mut self, asked: &Asked, places: &Places, snapshot: &Snapshot, now: Instant) {
        let Some(pool) = places.pool(asked.pool, snapshot) else { return };
        let Some(cluster) = pool.clusters().nth(usize::from(asked.member)) else { return };
        let Some(cluster) = places.clusters.get(cluster) else { return };
        let client = pool.client_net(asked.client.address());
        let demand = pool.demand(client, Draw(0));
        self.know(demand, (asked.pool, client));
        self.balancer.asked(demand, *cluster, now);
    }

    /// Keeps in mind who has a demand; where too many are known, those that the balancer has forgotten go.
    fn know(&mut self, demand: Demand, client: (u64, ClientNet)) {
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&demand) {
            let tracked: BTreeSet<Demand> = self.balancer.tracked().collect();
            self.clients.retain(|demand, _| tracked.contains(demand));
            if self.clients.len() >= CLIENTS_MAX {
                return;
            }
        }
        self.clients.insert(demand, client);
    }

    /// Another snapshot may tell clients apart by other places.
    pub(super) fn find_clients_again(&mut self, places: &Places, snapshot: &Snapshot) {
        let before = std::mem::take(&mut self.clients);
        for (key, client) in before.into_values() {
            let Some(pool) = places.pool(key, snapshot) else { continue };
            let client = pool.client_net(client.network().address());
            self.clients.insert(pool.demand(client, Draw(0)), (key, client));
        }
    }

    /// The demand that goes to each member, in pools that are balanced.
    pub(super) fn weigh(&self, places: &Places, snapshot: &Snapshot, runtime: &RuntimeState) -> Answered {
        let mut weighed = Answered::new();
        for (demand, load, ..) in self.balancer.keep().demands {
            let Some((key, client)) = self.clients.get(&demand) else { continue };
            let Some(pool) = places.pool(*key, snapshot) else { continue };
            let Some(route) = pool.route(pool.usual_kind(), runtime, *client, Draw(0)) else { continue };
            let slot = Slot { pool: pool.name().clone(), cluster: route.cluster.clone() };
            *weighed.entry(slot).or_default() += load;
        }
        weighed
    }
}

/// Clients whose demand is known one by one: twice as many as the balancer keeps.
const CLIENTS_MAX: usize = 8192;
