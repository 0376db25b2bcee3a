//! Knowledge of balancing, and the step that decides from it. At the bound of demands a step takes a tenth of a second, so it runs on
//! a separate thread.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use fairway_health::balance::{Balancer, Heard};
use fairway_health::load::LoadUpdate;
use fairway_model::{ClusterName, Demand, Shares};
use fairway_zones::{
    DemandSample, Draw, RuntimeState, ServingState, Slot, Snapshot,
    steer::{ClientNet, SteerPool},
};

use crate::answers::Answered;

/// Numbers of pools in the snapshot by their key, and of clusters in the balancer by their name.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub pools: HashMap<u64, usize>,
    pub clusters: HashMap<ClusterName, usize>,
}

impl Numbers {
    fn pool<'a>(&self, key: u64, snapshot: &'a Snapshot) -> Option<&'a SteerPool> {
        Some(&snapshot.steer_pools()[*self.pools.get(&key)?])
    }
}

/// Knowledge from reports and queries.
#[derive(Debug)]
pub(super) struct Learnt {
    pub balancer: Balancer,
    /// Pool and client network of each demand.
    pub clients: HashMap<Demand, (u64, ClientNet)>,
}

impl Learnt {
    /// Decides the shares. To find the cluster that a client would get under other shares, it asks the code that answers queries.
    pub(super) fn step(&mut self, numbers: &Numbers, ServingState { snapshot, runtime }: &ServingState, now: Instant) {
        let Self { balancer, clients } = self;
        let mut routed = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            let alternative = runtime.with_shares(snapshot, &Arc::new(shares.clone()));
            let route = |demand: &Demand| {
                let (key, client) = clients.get(demand)?;
                let pool = numbers.pool(*key, snapshot)?;
                let route = pool.route(pool.answerable_kind(), &alternative, *client, Draw(0))?;
                numbers.clusters.get(route.cluster).copied()
            };
            demands.iter().map(route).collect()
        };
        balancer.step(now, &mut routed);
    }

    /// Adds a report.
    pub(super) fn add_report(&mut self, report: &LoadUpdate, now: Instant) {
        if self.balancer.report(&report.report, now) == Heard::Disbelieved {
            let (cluster, load) = (&report.report.cluster, report.report.load);
            tracing::debug!(%cluster, %load, "load report rejected: far below the load sent to the cluster");
        }
    }

    /// Adds the demand of one answer.
    pub(super) fn add_demand(&mut self, answer: &DemandSample, numbers: &Numbers, snapshot: &Snapshot, now: Instant) {
        let Some(pool) = numbers.pool(answer.pool, snapshot) else { return };
        let Some(cluster) = pool.clusters().nth(usize::from(answer.member)) else { return };
        let Some(cluster) = numbers.clusters.get(cluster) else { return };
        let client = pool.client_net(answer.client.address());
        let demand = pool.demand(client, Draw(0));
        self.remember(demand, (answer.pool, client));
        self.balancer.asked(demand, *cluster, now);
    }

    /// Remembers the client of a demand. If there are too many, those that the balancer has forgotten are dropped.
    fn remember(&mut self, demand: Demand, client: (u64, ClientNet)) {
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&demand) {
            let tracked: BTreeSet<Demand> = self.balancer.tracked().collect();
            self.clients.retain(|demand, _| tracked.contains(demand));
            if self.clients.len() >= CLIENTS_MAX {
                return;
            }
        }
        self.clients.insert(demand, client);
    }

    /// Finds the clients in a new snapshot, whose pools may divide them into other networks.
    pub(super) fn find_clients(&mut self, numbers: &Numbers, snapshot: &Snapshot) {
        let before = std::mem::take(&mut self.clients);
        for (key, client) in before.into_values() {
            let Some(pool) = numbers.pool(key, snapshot) else { continue };
            let client = pool.client_net(client.network().address());
            self.clients.insert(pool.demand(client, Draw(0)), (key, client));
        }
    }

    /// Returns the demand of each member, in pools that are balanced.
    pub(super) fn demand_by_member(&self, numbers: &Numbers, snapshot: &Snapshot, runtime: &RuntimeState) -> Answered {
        let mut demands = Answered::new();
        for (demand, load, ..) in self.balancer.keep().demands {
            let Some((key, client)) = self.clients.get(&demand) else { continue };
            let Some(pool) = numbers.pool(*key, snapshot) else { continue };
            let Some(route) = pool.route(pool.answerable_kind(), runtime, *client, Draw(0)) else { continue };
            let slot = Slot { pool: pool.name().clone(), cluster: route.cluster.clone() };
            *demands.entry(slot).or_default() += load;
        }
        demands
    }
}

/// Clients that are remembered: twice as many as the demands of the balancer, so that there is seldom anything to drop.
const CLIENTS_MAX: usize = 8192;
