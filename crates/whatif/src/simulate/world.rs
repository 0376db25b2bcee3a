//! The world around the server in virtual time: caches that ask, gateways that carry and tell, probes, mishaps.
//!
//! What answers, judges and balances is the server's own code; here is only what a network and its people do.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::{
    Evaluator,
    balance::{Balancer, Declared, Settings},
};
use fairway_model::{
    Cause, Check, Demand, Eligibility, Health, HealthStatus, LatencyTable, Load, LoadReport, LoadSignal, Monitor,
    Observation, OverrideAction, Permille, Pool, Shares, Spread, Timestamp,
};
use fairway_zones::{Draw, RuntimeState};

use super::{
    answer::Named,
    chance::Chance,
    clients::{Population, near_part},
    paths::Paths,
    recording::{Drained, Recording, Sample, Turned},
    scenario::{Event, Scenario},
    steering::Steering,
};

/// What comes next. The order of the variants is that of things at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Happens(usize),
    Ask(u32, u16),
    Probe(usize),
    Measure,
    Arrive(usize),
    Step,
    Look,
    Sample,
}

/// One gateway and what the server knows of its health.
struct Gateway {
    serves: bool,
    lies: bool,
    cut_off: bool,
    drained: bool,
    evaluator: Evaluator,
    /// What it carries now, in the unit of its capacity.
    carried: f64,
    reports: u64,
}

impl Gateway {
    fn health(&self) -> Health {
        Health::new(self.evaluator.status(), self.drained.then_some(OverrideAction::Drain))
    }
}

/// A cache of a network: where it sends its part of the network's demand.
#[derive(Clone, Copy)]
struct Cache {
    answer: Named,
}

pub(super) struct World<'a> {
    scenario: &'a Scenario,
    population: Population,
    /// The pool that holds, by its number.
    pool: usize,
    paths: Option<Paths>,
    table: Option<Arc<LatencyTable>>,
    steering: Steering,
    chance: Chance,
    queue: BinaryHeap<Reverse<(Duration, Next)>>,
    gateways: Vec<Gateway>,
    caches: Vec<Vec<Cache>>,
    monitor: Monitor,
    balancer: Balancer,
    /// What answers are given by.
    held: Arc<RuntimeState>,
    /// Whether each cluster's windows are open.
    open: Vec<bool>,
    /// The clock that the server sees.
    start: Instant,
    pending: Vec<LoadReport>,
    silent: bool,
    queries: u64,
    near: f64,
    nearby: f64,
    slower: f64,
    recording: Recording,
}

/// Samples a TTL.
const SAMPLES: u32 = 40;
/// So often the clock is looked at for members that open or close, as the server does.
const LOOK: Duration = Duration::from_secs(1);

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let population = Population::new(scenario, &mut chance);
        let paths = Paths::new(scenario, &population, seed);
        let table = paths.as_ref().map(|paths| Arc::new(paths.measure(scenario, 0.0, &mut Chance::new(seed))));
        let steering = Steering::new(scenario, &population, &scenario.pools[0], table.as_ref());
        let start = Instant::now();
        let gateway = |_| Gateway {
            serves: true,
            lies: false,
            cut_off: false,
            drained: false,
            evaluator: Evaluator::new(HealthStatus::Up),
            carried: 0.0,
            reports: 0,
        };
        let balancer = Balancer::new(settings(scenario), start, None);
        let up = vec![Health::new(HealthStatus::Up, None); scenario.clusters.len()];
        let mut monitor = Monitor::new(Check::Tcp { port: 443 });
        (monitor.period, monitor.fall, monitor.rise) =
            (scenario.probes.period, scenario.probes.fall, scenario.probes.rise);
        let held = steering.runtime(balancer.shares(), &up, scenario.begins);
        let nowhere = Cache { answer: Named::default() };
        let mut world = Self {
            open: steering.open(up.len(), &held),
            held,
            caches: population.networks.iter().map(|n| vec![nowhere; usize::from(n.caches)]).collect(),
            gateways: scenario.clusters.iter().map(gateway).collect(),
            recording: Recording::new(scenario),
            queue: BinaryHeap::new(),
            pending: Vec::new(),
            silent: false,
            queries: 0,
            near: 0.0,
            nearby: 0.0,
            slower: 0.0,
            pool: 0,
            paths,
            table,
            scenario,
            population,
            steering,
            chance,
            monitor,
            balancer,
            start,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let ttl = self.scenario.ttl.as_secs_f64();
        for network in 0..self.caches.len() {
            for cache in 0..self.caches[network].len() {
                let gap = self.population.networks[network].gap.max(ttl);
                let at = Duration::from_secs_f64(self.chance.part() * gap.min(ttl));
                self.put(at, Next::Ask(network as u32, cache as u16));
            }
        }
        for (place, (at, _)) in self.scenario.events.iter().enumerate() {
            self.queue.push(Reverse((*at, Next::Happens(place))));
        }
        for cluster in 0..self.gateways.len() {
            let at = self.scenario.probes.period.mul_f64(self.chance.part());
            self.put(at, Next::Probe(cluster));
        }
        self.put(self.scenario.reports.every, Next::Measure);
        self.put(self.scenario.reports.every, Next::Step);
        self.put(self.scenario.ttl / SAMPLES, Next::Sample);
        if self.scenario.pools.iter().any(|pool| pool.policy.schedule) {
            self.put(LOOK, Next::Look);
        }
    }

    /// What the clock on the wall shows.
    fn wall(&self, now: Duration) -> Timestamp {
        self.scenario.begins.plus(now)
    }

    fn pool(&self) -> &Pool {
        &self.scenario.pools[self.pool]
    }

    fn put(&mut self, at: Duration, next: Next) {
        self.queue.push(Reverse((at, next)));
    }

    /// Plays to the end.
    pub(super) fn play(mut self) -> Recording {
        while let Some(Reverse((now, next))) = self.queue.pop() {
            if now > self.scenario.length {
                break;
            }
            match next {
                Next::Happens(place) => self.happens(now, self.scenario.events[place].1),
                Next::Ask(network, cache) => self.ask(now, network, cache),
                Next::Probe(cluster) => self.probe(now, cluster),
                Next::Measure => self.measure(now),
                Next::Arrive(report) => self.arrive(now, report),
                Next::Step => {
                    self.step(now);
                    self.put(now + self.scenario.reports.every, Next::Step);
                }
                Next::Look => {
                    self.look(now);
                    self.put(now + LOOK, Next::Look);
                }
                Next::Sample => self.sample(now),
            }
        }
        self.recording
    }

    fn ask(&mut self, now: Duration, network: u32, cache: u16) {
        let draw = if self.pool().spread == Spread::Query { Draw(self.chance.bits()) } else { Draw(0) };
        let answer = self.steering.answer(network, draw, &self.held);
        let former = std::mem::replace(&mut self.caches[network as usize][usize::from(cache)].answer, answer);
        if former != answer {
            self.moves(network, former, answer);
        }
        let stays = former.len() > 0 && former.iter().all(|place| self.is_up(place));
        self.recording.answered(stays && former != answer);
        self.queries += 1;
        if self.pool().policy.load
            && self.queries.is_multiple_of(u64::from(self.scenario.reports.sample))
            && let Some(place) = answer.first()
        {
            self.balancer.asked(self.steering.demand(network), place, self.start + now);
        }
        let gap = self.population.networks[network as usize].gap;
        let pause = gap + self.chance.wait(0.01 * self.scenario.ttl.as_secs_f64());
        self.put(now + Duration::from_secs_f64(pause), Next::Ask(network, cache));
    }

    /// A cache's part of its network's demand goes over from one answer to another.
    fn moves(&mut self, network: u32, former: Named, answer: Named) {
        let client = &self.population.networks[network as usize];
        let (part, row) = (client.demand / f64::from(client.caches), usize::from(client.row));
        self.bear(former, -part);
        self.bear(answer, part);
        let order = &self.population.rows[row];
        self.near += part * (near_part(answer, order, 1) - near_part(former, order, 1));
        self.nearby += part * (near_part(answer, order, 2) - near_part(former, order, 2));
        if let Some(paths) = &self.paths {
            let slower = |named: Named| named.mean(|place| paths.slower(network, place));
            self.slower += part * (slower(answer) - slower(former));
        }
    }

    /// Demand comes to the clusters of an answer, evenly; or goes, where it is below 0.
    fn bear(&mut self, answer: Named, demand: f64) {
        let reached = answer.reached(|place| self.gateways[place].serves);
        for place in reached.iter() {
            self.gateways[place].carried += demand / reached.len() as f64;
        }
    }

    /// Whether a client could be sent there.
    fn is_up(&self, cluster: usize) -> bool {
        let standing = self.gateways[cluster].health().eligibility();
        self.open[cluster] && matches!(standing, Eligibility::Up | Eligibility::Unknown)
    }

    fn probe(&mut self, now: Duration, cluster: usize) {
        let gateway = &mut self.gateways[cluster];
        let passes = gateway.serves && !gateway.cut_off;
        let outcome = if passes { Observation::Pass } else { Observation::Fail(Cause::new("timeout")) };
        let transition = gateway.evaluator.observe(&outcome, &self.monitor);
        let pause = if gateway.evaluator.is_wavering() { self.monitor.period / 10 } else { self.monitor.period };
        self.put(now + pause, Next::Probe(cluster));
        if transition.is_some() {
            self.flipped(now, cluster);
        }
    }

    fn flipped(&mut self, now: Duration, cluster: usize) {
        let up = self.is_up(cluster);
        self.balancer.available(cluster, up, self.start + now);
        self.step(now);
    }

    /// All gateways tell their load at the same time, and not how old that is when it arrives.
    fn measure(&mut self, now: Duration) {
        let reports = &self.scenario.reports;
        for (place, gateway) in self.gateways.iter_mut().enumerate() {
            let error = 1.0 + reports.noise * (2.0 * self.chance.part() - 1.0);
            let lost = self.chance.part() < reports.loss;
            if self.silent || gateway.cut_off || !gateway.serves || lost {
                continue;
            }
            let cluster = &self.scenario.clusters[place];
            let load = if gateway.lies { 0.0 } else { gateway.carried.max(0.0) / cluster.capacity as f64 * error };
            gateway.reports += 1;
            self.pending.push(LoadReport {
                cluster: cluster.name.clone(),
                load: Load((load * 1000.0).round() as u32),
                signal: LoadSignal::InFlight,
                sequence: gateway.reports,
                at: self.start + now + reports.late,
            });
            let arrives = Next::Arrive(self.pending.len() - 1);
            self.queue.push(Reverse((now + reports.late, arrives)));
        }
        self.put(now + reports.every, Next::Measure);
    }

    fn arrive(&mut self, now: Duration, report: usize) {
        if self.pool().policy.load {
            let report = self.pending[report].clone();
            self.balancer.report(&report, self.start + now);
        }
    }

    /// Looks at the clock.
    fn look(&mut self, now: Duration) {
        if let Some(held) = self.steering.at(&self.held, self.wall(now)) {
            self.held = held;
        }
        let open = self.steering.open(self.gateways.len(), &self.held);
        let before = std::mem::replace(&mut self.open, open);
        for cluster in (0..before.len()).filter(|cluster| before[*cluster] != self.open[*cluster]).collect::<Vec<_>>() {
            self.recording.turned.push(Turned { at: now, place: cluster, open: self.open[cluster] });
            self.flipped(now, cluster);
        }
    }

    fn hold(&mut self, now: Duration) {
        let health: Vec<Health> = self.gateways.iter().map(Gateway::health).collect();
        self.held = self.steering.runtime(self.balancer.shares(), &health, self.wall(now));
    }

    fn step(&mut self, now: Duration) {
        if self.pool().policy.load {
            self.balance(now);
        }
        self.hold(now);
    }

    fn balance(&mut self, now: Duration) {
        let health: Vec<Health> = self.gateways.iter().map(Gateway::health).collect();
        let (steering, wall) = (&self.steering, self.wall(now));
        let mut places = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            let held = steering.runtime(shares, &health, wall);
            demands.iter().map(|demand| steering.place(*demand, &held)).collect()
        };
        self.balancer.step(self.start + now, &mut places);
    }

    fn sample(&mut self, now: Duration) {
        let clusters = self.scenario.clusters.iter().zip(&self.gateways);
        let load = |(cluster, gateway): (&super::scenario::SimulatedCluster, &Gateway)| {
            if gateway.serves { gateway.carried / cluster.capacity as f64 } else { 0.0 }
        };
        let lost = self.gateways.iter().filter(|gateway| !gateway.serves).map(|gateway| gateway.carried.max(0.0)).sum();
        let (near, nearby, slower) = (self.near, self.nearby, self.slower);
        let sample = Sample { at: now, loads: clusters.map(load).collect(), near, nearby, lost, slower };
        let drains: Vec<_> = self.gateways.iter().map(|g| g.drained.then_some(g.carried)).collect();
        self.recording.sample(sample, &drains);
        self.put(now + self.scenario.ttl / SAMPLES, Next::Sample);
    }

    fn happens(&mut self, now: Duration, event: Event) {
        match event {
            Event::Dies(place) => self.serves(place, false),
            Event::Returns(place) => self.serves(place, true),
            Event::Demand(place, offered) => self.demand(place, offered),
            Event::ReportsLost => self.silent = true,
            Event::ReportsBack => self.silent = false,
            Event::Lies(place) => self.gateways[place].lies = true,
            Event::Honest(place) => self.gateways[place].lies = false,
            Event::Partition(place) => self.gateways[place].cut_off = true,
            Event::Heal(place) => self.gateways[place].cut_off = false,
            Event::Drain(place) => self.drain(now, place, true),
            Event::Undrain(place) => self.drain(now, place, false),
            Event::Restart => {
                let kept = self.balancer.keep();
                self.restart(now, Some(&kept));
            }
            Event::RestartBlank => self.restart(now, None),
            Event::Pool(pool) => self.configure(now, pool),
            Event::Measured(off) => {
                let paths = self.paths.as_ref();
                self.table = paths.map(|paths| Arc::new(paths.measure(self.scenario, off, &mut self.chance)));
                self.configure(now, self.pool);
            }
        }
    }

    /// A gateway begins or ceases to serve: clients who know others go over.
    fn serves(&mut self, place: usize, serves: bool) {
        let mut torn: Vec<(Named, f64)> = Vec::new();
        for (network, caches) in self.population.networks.iter().zip(&self.caches) {
            let part = network.demand / f64::from(network.caches);
            let several = |cache: &&Cache| cache.answer.len() > 1 && cache.answer.iter().any(|named| named == place);
            torn.extend(caches.iter().filter(several).map(|cache| (cache.answer, part)));
        }
        torn.iter().for_each(|(answer, part)| self.bear(*answer, -part));
        self.gateways[place].serves = serves;
        torn.iter().for_each(|(answer, part)| self.bear(*answer, *part));
    }

    /// A reload: the pool or the table of latencies is another one.
    fn configure(&mut self, now: Duration, pool: usize) {
        let balanced = self.pool().policy.load;
        self.pool = pool;
        self.steering = Steering::new(self.scenario, &self.population, self.pool(), self.table.as_ref());
        self.hold(now);
        self.open = self.steering.open(self.gateways.len(), &self.held);
        if self.pool().policy.load && !balanced {
            self.restart(now, None);
        }
    }

    fn restart(&mut self, now: Duration, kept: Option<&fairway_health::balance::Kept>) {
        self.balancer = Balancer::new(settings(self.scenario), self.start + now, kept);
        for place in 0..self.gateways.len() {
            if !self.is_up(place) {
                self.balancer.available(place, false, self.start + now);
            }
        }
        self.hold(now);
    }

    fn drain(&mut self, now: Duration, place: usize, drained: bool) {
        self.gateways[place].drained = drained;
        self.flipped(now, place);
        if drained {
            let drain = self.balancer.drain(place, self.start + now);
            let over = drain.over.saturating_duration_since(self.start);
            self.recording.drained.push(Drained { place, at: now, stated: over, over: None });
        }
    }

    /// The demand near one cluster grows or shrinks, so that the whole is what is offered.
    fn demand(&mut self, place: usize, offered: f64) {
        let capacity: f64 = self.scenario.clusters.iter().map(|c| c.capacity as f64).sum();
        let factor = self.population.growth(place, offered * capacity);
        let mut grown = Vec::new();
        for (number, (network, caches)) in (0..).zip(self.population.networks.iter_mut().zip(&self.caches)) {
            if network.home != place {
                continue;
            }
            let more = network.grow(factor);
            for cache in caches {
                let order = &self.population.rows[usize::from(network.row)];
                self.near += more * near_part(cache.answer, order, 1);
                self.nearby += more * near_part(cache.answer, order, 2);
                grown.push((number, cache.answer, more));
            }
        }
        for (network, answer, more) in grown {
            self.bear(answer, more);
            if let Some(paths) = &self.paths {
                self.slower += more * answer.mean(|place| paths.slower(network, place));
            }
        }
        self.recording.whole = offered * capacity;
    }
}

fn settings(scenario: &Scenario) -> Settings {
    let declared = |cluster: &super::scenario::SimulatedCluster| Declared {
        name: cluster.name.clone(),
        capacity: cluster.capacity,
        soft: cluster.soft,
        hard: Permille::new(1000).unwrap_or_default(),
        split: cluster.capacity,
    };
    Settings {
        clusters: scenario.clusters.iter().map(declared).collect(),
        period: scenario.reports.every,
        ttl: scenario.ttl,
        sampled: scenario.reports.sample,
    }
}
