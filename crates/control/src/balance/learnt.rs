//! Knowledge of balancing, and the step that decides from it. At the bound of demands a step takes a tenth of a second, so it runs on
//! a separate thread.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::balance::{Balancer, DemandKind, Heard, Settings};
use fairway_health::load::LoadUpdate;
use fairway_model::{ClusterName, Demand, Shares};
use fairway_steering::evidence::{Evidence, Query, Source};
use fairway_zones::{
    DemandSample, Draw, RuntimeState, ServingState, Slot, Snapshot,
    steer::{ClientNet, SteerPool},
};

use super::stand_ins::stand_ins;
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
    pub evidence: Evidence,
    /// Pool and client network of each demand.
    pub clients: HashMap<Demand, (u64, ClientNet)>,
    /// Demands that stand for clients of unproven sources, in the order in which they are used.
    stand_ins: Vec<Demand>,
    /// Number of rejected load reports since the last call of [`Learnt::take_rejected`].
    rejected: u64,
    /// Time of the last warning about a rejected report.
    warned: Option<Instant>,
}

impl Learnt {
    /// Begins with a balancer, and with the evidence and clients of an earlier configuration or process, if there are any.
    pub(super) fn new(
        balancer: Balancer,
        evidence: Option<Evidence>,
        clients: HashMap<Demand, (u64, ClientNet)>,
        settings: &Settings,
        now: Instant,
    ) -> Self {
        let evidence = match evidence {
            Some(evidence) => evidence.with_ttl(settings.ttl),
            None => Evidence::new(settings.ttl, now),
        };
        Self { balancer, evidence, clients, stand_ins: vec![], rejected: 0, warned: None }
    }

    /// Decides the shares. To find the cluster that a client would get under other shares, it asks the code that answers queries.
    pub(super) fn step(&mut self, numbers: &Numbers, ServingState { snapshot, runtime }: &ServingState, now: Instant) {
        let Self { balancer, clients, evidence, stand_ins, .. } = self;
        let route = |demand: &Demand, runtime: &RuntimeState| {
            let (key, client) = clients.get(demand)?;
            let pool = numbers.pool(*key, snapshot)?;
            let route = pool.route(pool.answerable_kind(), runtime, *client, Draw(0))?;
            numbers.clusters.get(route.cluster).copied()
        };
        evidence.expire(now);
        // As many as there are too few proven networks. After a restart, those of the process before count until they expire.
        let (proven, weight) = balancer.proven();
        let missing = stand_ins.len().saturating_sub(proven);
        // Each counts as much as a proven network in the mean.
        let weight = if proven > 0 { weight / proven as f64 } else { 1.0 };
        let (used, unused) = stand_ins.split_at(missing);
        unused.iter().for_each(|demand| balancer.forget(*demand));
        for demand in used.iter().filter(|demand| !evidence.is_known(**demand)) {
            if let Some(cluster) = route(demand, runtime) {
                balancer.asked_as((DemandKind::StandIn, weight), *demand, cluster, now);
            }
        }
        let mut routed = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            let alternative = runtime.with_shares(snapshot, &Arc::new(shares.clone()));
            demands.iter().map(|demand| route(demand, &alternative)).collect()
        };
        balancer.step(now, &mut routed);
    }

    /// Adds a report.
    pub(super) fn add_report(&mut self, report: &LoadUpdate, now: Instant) {
        if self.balancer.report(&report.report, now) != Heard::Disbelieved {
            return;
        }
        self.rejected += 1;
        if self.warned.is_none_or(|warned| now.saturating_duration_since(warned) >= WARNING_PERIOD) {
            self.warned = Some(now);
            let (cluster, load) = (&report.report.cluster, report.report.load);
            tracing::warn!(
                %cluster, %load,
                "load report rejected: far below the load sent to the cluster; further ones are counted in \
                 fairway_load_reports_rejected_total"
            );
        }
    }

    /// Returns the number of rejected load reports since the last call.
    pub(super) fn take_rejected(&mut self) -> u64 {
        std::mem::take(&mut self.rejected)
    }

    /// Adds the demand of one answer.
    pub(super) fn add_demand(&mut self, answer: &DemandSample, numbers: &Numbers, snapshot: &Snapshot, now: Instant) {
        let Some(pool) = numbers.pool(answer.pool, snapshot) else { return };
        let Some(cluster) = pool.clusters().nth(usize::from(answer.member)) else { return };
        let Some(cluster) = numbers.clusters.get(cluster) else { return };
        let client = pool.client_net(answer.client.address());
        let demand = pool.demand(client, Draw(0));
        let query = Query { source: Source::of(answer.source), proof: answer.proof, demand };
        if let Some(weight) = self.evidence.weight(&query, now) {
            self.remember(demand, (answer.pool, client));
            self.balancer.asked_as((DemandKind::Proven, weight), demand, *cluster, now);
        }
    }

    /// Remembers the client of a demand. If there are too many, those that the balancer has forgotten are dropped.
    fn remember(&mut self, demand: Demand, client: (u64, ClientNet)) {
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&demand) {
            let tracked = self.balancer.tracked().chain(self.stand_ins.iter().copied());
            let tracked: BTreeSet<Demand> = tracked.collect();
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
        for demand in self.stand_ins.drain(..) {
            self.balancer.forget(demand);
        }
        for (demand, client) in stand_ins(numbers, snapshot) {
            self.clients.insert(demand, client);
            self.stand_ins.push(demand);
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

/// Shortest time between two warnings about rejected reports.
const WARNING_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of clients that are remembered: twice as many as the demands of the balancer, so that there is seldom anything to drop.
const CLIENTS_MAX: usize = 8192;
