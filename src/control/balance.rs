//! Balancing in the daemon: reports of load, who asks, and health go in; shares come out and into the conditions.
//!
//! What is decided is `fairway_health::balance`; where a client would be sent under other shares is asked of the very code
//! that answers. Nothing runs unless a pool's policy says `load`, and somebody tells the load of one of its clusters: else
//! there would be nothing to go by, and pools go by their other steps.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::{
    balance::{Balancer, Declared, Heard, Settings},
    load::LoadNews,
};
use fairway_model::{Acceptance, ClusterName, Demand, Desired, Permille, PoolName, Shares};
use fairway_zones::{
    Asked, Conditions, Draw, Slot, Snapshot,
    steer::{ClientNet, SteerPool},
};

use super::truth::Answered;

/// Balances the clusters of pools that heed load; nothing where there are none.
#[derive(Default)]
pub(super) struct Balance {
    running: Option<Running>,
    /// Whether anybody told a load since the start: what is pushed is not foreseen by the configuration.
    told: bool,
}

/// What runs while there is something to balance.
struct Running {
    balancer: Balancer,
    settings: Settings,
    /// Pools that heed load, by their key: the place in the snapshot.
    pools: HashMap<u64, usize>,
    /// Who asks for what, as far as it is known.
    clients: HashMap<Demand, (u64, ClientNet)>,
    /// Clusters whose gateways drain or are overloaded, until when that is known.
    exhausted: HashMap<usize, Instant>,
    /// Clusters that can be answered, as the balancer knows it.
    up: Vec<bool>,
    next_step: Instant,
}

impl Balance {
    /// Follows a configuration: what is learnt goes on where the clusters are the same.
    pub(super) fn follow(&mut self, desired: &Desired, snapshot: &Snapshot, now: Instant) {
        let settings = settings(desired, snapshot);
        let is_read = |settings: &Settings| settings.clusters.iter().any(|c| desired.load_feeds.contains_key(&c.name));
        let Some(settings) = settings.filter(|settings| self.told || is_read(settings)) else {
            self.running = None;
            return;
        };
        let pools = balanced_pools(snapshot).map(|(place, pool)| (pool.key(), place)).collect();
        match &mut self.running {
            Some(running) if running.settings == settings => {
                running.pools = pools;
                running.find_clients_again(snapshot);
            }
            before => {
                let kept = before.as_ref().map(|running| running.balancer.keep());
                let balancer = Balancer::new(settings.clone(), now, kept.as_ref());
                let up = vec![true; settings.clusters.len()];
                let mut running = Running {
                    balancer,
                    settings,
                    pools,
                    clients: before.take().map(|running| running.clients).unwrap_or_default(),
                    exhausted: HashMap::new(),
                    up,
                    next_step: now,
                };
                running.find_clients_again(snapshot);
                *before = Some(running);
            }
        }
    }

    /// Whether there is anything to balance.
    pub(super) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Takes a report; whether it is the first one of all, so that there may be something to balance now.
    pub(super) fn hear(&mut self, news: &LoadNews, now: Instant) -> bool {
        let is_first = !std::mem::replace(&mut self.told, true);
        self.take(news, now);
        is_first && self.running.is_none()
    }

    fn take(&mut self, news: &LoadNews, now: Instant) {
        let Some(running) = &mut self.running else { return };
        let Some(cluster) = running.place(&news.report.cluster) else { return };
        if running.balancer.report(&news.report, now) == Heard::Disbelieved {
            let (cluster, load) = (&news.report.cluster, news.report.load);
            tracing::debug!(%cluster, %load, "load is not believed: far less than what was sent there");
        }
        let end = news.exhausted.then(|| now + news.period * PERIODS_HELD);
        match end {
            Some(end) => running.exhausted.insert(cluster, end),
            None => running.exhausted.remove(&cluster),
        };
    }

    /// Takes who asked since the last call.
    pub(super) fn asked(&mut self, asked: &Asked, snapshot: &Snapshot, now: Instant) {
        let Some(running) = &mut self.running else { return };
        let Some(pool) = running.pools.get(&asked.pool).map(|place| &snapshot.steer_pools()[*place]) else { return };
        let Some(cluster) = pool.clusters().nth(usize::from(asked.member)) else { return };
        let Some(cluster) = running.place(cluster) else { return };
        let client = pool.client_net(asked.client.address());
        let demand = pool.demand(client, Draw(0));
        running.know(demand, (asked.pool, client));
        running.balancer.asked(demand, cluster, now);
    }

    /// Replaces counts of answers by the demand that goes to each member, in pools that are balanced.
    pub(super) fn weigh(&self, answered: &mut Answered, snapshot: &Snapshot, conditions: &Conditions) {
        let Some(Running { balancer, pools, clients, .. }) = &self.running else { return };
        let mut weighed = Answered::new();
        for (demand, load, ..) in balancer.keep().demands {
            let Some((key, client)) = clients.get(&demand) else { continue };
            let Some(pool) = pools.get(key).map(|place| &snapshot.steer_pools()[*place]) else { continue };
            let Some(route) = pool.route(pool.usual_kind(), conditions, *client, Draw(0)) else { continue };
            let slot = Slot { pool: pool.name().clone(), cluster: route.cluster.clone() };
            *weighed.entry(slot).or_default() += load;
        }
        let pools: BTreeSet<PoolName> = weighed.keys().map(|slot| slot.pool.clone()).collect();
        answered.retain(|slot, _| !pools.contains(&slot.pool));
        answered.extend(weighed);
    }

    /// Decides anew where it is time, or where a cluster came or went; the conditions with the new shares, if they differ.
    ///
    /// `conditions` are what is to be served next, with the health of now.
    pub(super) fn step(&mut self, snapshot: &Snapshot, conditions: &Conditions, now: Instant) -> Option<Conditions> {
        let running = self.running.as_mut()?;
        let turned = running.see_health(snapshot, conditions, now);
        if !turned && now < running.next_step {
            return None;
        }
        running.next_step = now + running.settings.period;
        let Running { balancer, settings, pools, clients, .. } = running;
        let mut places = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            let tried = conditions.with_shares(snapshot, &Arc::new(shares.clone()));
            let route = |demand: &Demand| {
                let (pool, client) = clients.get(demand)?;
                let pool = &snapshot.steer_pools()[*pools.get(pool)?];
                let route = pool.route(pool.usual_kind(), &tried, *client, Draw(0))?;
                settings.clusters.iter().position(|cluster| cluster.name == *route.cluster)
            };
            demands.iter().map(route).collect()
        };
        balancer.step(now, &mut places);
        let shares = running.shares();
        let same = conditions.shares().map_or_else(|| shares == Shares::default(), |before| **before == shares);
        (!same).then(|| conditions.with_shares(snapshot, &Arc::new(shares)))
    }
}

impl Running {
    fn place(&self, cluster: &ClusterName) -> Option<usize> {
        self.settings.clusters.iter().position(|declared| declared.name == *cluster)
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
    fn find_clients_again(&mut self, snapshot: &Snapshot) {
        let before = std::mem::take(&mut self.clients);
        for (key, client) in before.into_values() {
            let Some(place) = self.pools.get(&key) else { continue };
            let pool = &snapshot.steer_pools()[*place];
            let client = pool.client_net(client.network().address());
            self.clients.insert(pool.demand(client, Draw(0)), (key, client));
        }
    }

    /// Tells the balancer which clusters can be answered; whether that changed.
    fn see_health(&mut self, snapshot: &Snapshot, conditions: &Conditions, now: Instant) -> bool {
        self.exhausted.retain(|_, end| *end > now);
        let answerable: BTreeSet<&ClusterName> =
            self.pools.values().flat_map(|place| snapshot.steer_pools()[*place].answerable(conditions)).collect();
        let mut turned = false;
        for (place, declared) in self.settings.clusters.iter().enumerate() {
            let up = answerable.contains(&declared.name) && !self.exhausted.contains_key(&place);
            if up != self.up[place] {
                self.up[place] = up;
                turned = true;
                self.balancer.available(place, up, now);
            }
        }
        turned
    }

    /// What was decided, with nothing for clusters that are exhausted.
    fn shares(&self) -> Shares {
        let mut shares = self.balancer.shares().clone();
        for place in self.exhausted.keys() {
            let cluster = &self.settings.clusters[*place].name;
            shares.acceptance.insert(cluster.clone(), Acceptance::NONE);
            shares.pins.retain(|_, held| held != cluster);
        }
        shares
    }
}

fn balanced_pools(snapshot: &Snapshot) -> impl Iterator<Item = (usize, &SteerPool)> {
    snapshot.steer_pools().iter().enumerate().filter(|(_, pool)| pool.is_balanced())
}

/// What there is to balance; none where no pool heeds load.
///
/// Clusters without capacity cannot be compared: they take everything.
fn settings(desired: &Desired, snapshot: &Snapshot) -> Option<Settings> {
    let names: BTreeSet<&ClusterName> = balanced_pools(snapshot).flat_map(|(_, pool)| pool.clusters()).collect();
    let declared = |name: &ClusterName| {
        let capacity = desired.clusters.get(name)?.capacity?;
        let part = |thousandths| Permille::new(thousandths).unwrap_or_default();
        let (soft, hard) = (part(TARGET), part(1000));
        Some(Declared { name: name.clone(), capacity, soft, hard, split: capacity })
    };
    let clusters: Vec<Declared> = names.iter().filter_map(|name| declared(name)).collect();
    let balanced = |(place, _): (usize, &SteerPool)| snapshot.pool_infos()[place].ttl;
    let ttl = balanced_pools(snapshot).map(balanced).max()?;
    let feeds = names.iter().filter_map(|name| desired.load_feeds.get(*name));
    let periods = feeds.filter_map(|feed| desired.load_sources.get(&feed.source)).map(|source| source.period);
    let period = periods.max().unwrap_or(Duration::from_secs(10));
    let ttl = Duration::from_secs(u64::from(ttl.secs().max(1)));
    (!clusters.is_empty()).then_some(Settings { clusters, period, ttl, sampled: 1 })
}

/// Load that is aimed at, in thousandths of the capacity.
const TARGET: u16 = 800;
/// Clients whose demand is known one by one: twice as many as the balancer keeps.
const CLIENTS_MAX: usize = 8192;
/// How many periods long the word counts that a cluster is exhausted.
const PERIODS_HELD: u32 = 3;
