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
    Judge,
    balance::{Balancer, Declared, Settings},
};
use fairway_model::{
    Cause, Check, Demand, Forced, Health, Load, LoadReport, LoadSignal, Monitor, Outcome, Permille, Shares, Standing,
    Verdict,
};
use fairway_zones::Conditions;

use super::{
    chance::Chance,
    clients::{Population, is_near},
    recording::{Drained, Recording, Sample},
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
    Sample,
}

/// One gateway and what the server knows of its health.
struct Gateway {
    serves: bool,
    lies: bool,
    cut_off: bool,
    drained: bool,
    judge: Judge,
    /// What it carries now, in the unit of its capacity.
    carried: f64,
    reports: u64,
}

impl Gateway {
    fn health(&self) -> Health {
        Health::new(self.judge.verdict(), self.drained.then_some(Forced::Drain))
    }
}

/// A cache of a network: where it sends its part of the network's demand.
#[derive(Clone, Copy)]
struct Cache {
    answer: Option<usize>,
}

pub(super) struct World<'a> {
    scenario: &'a Scenario,
    population: Population,
    steering: Steering,
    chance: Chance,
    queue: BinaryHeap<Reverse<(Duration, Next)>>,
    gateways: Vec<Gateway>,
    caches: Vec<Vec<Cache>>,
    monitor: Monitor,
    balancer: Balancer,
    /// What answers are given by.
    held: Arc<Conditions>,
    /// The clock that the server sees.
    start: Instant,
    pending: Vec<LoadReport>,
    silent: bool,
    queries: u64,
    near: f64,
    nearby: f64,
    recording: Recording,
}

/// Samples a TTL.
const SAMPLES: u32 = 40;

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let population = Population::new(scenario, &mut chance);
        let steering = Steering::new(scenario, &population);
        let start = Instant::now();
        let gateway = |_| Gateway {
            serves: true,
            lies: false,
            cut_off: false,
            drained: false,
            judge: Judge::new(Verdict::Up),
            carried: 0.0,
            reports: 0,
        };
        let balancer = Balancer::new(settings(scenario), start, None);
        let up = vec![Health::new(Verdict::Up, None); scenario.clusters.len()];
        let mut monitor = Monitor::new(Check::Tcp { port: 443 });
        (monitor.period, monitor.fall, monitor.rise) =
            (scenario.probes.period, scenario.probes.fall, scenario.probes.rise);
        let mut world = Self {
            held: steering.conditions(balancer.shares(), &up),
            caches: population.networks.iter().map(|n| vec![Cache { answer: None }; usize::from(n.caches)]).collect(),
            gateways: scenario.clusters.iter().map(gateway).collect(),
            recording: Recording::new(scenario),
            queue: BinaryHeap::new(),
            pending: Vec::new(),
            silent: false,
            queries: 0,
            near: 0.0,
            nearby: 0.0,
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
                Next::Arrive(report) => {
                    let report = self.pending[report].clone();
                    self.balancer.report(&report, self.start + now);
                }
                Next::Step => {
                    self.step(now);
                    self.put(now + self.scenario.reports.every, Next::Step);
                }
                Next::Sample => self.sample(now),
            }
        }
        self.recording
    }

    fn ask(&mut self, now: Duration, network: u32, cache: u16) {
        let answer = self.steering.answer(network, &self.held);
        let client = &self.population.networks[network as usize];
        let part = client.demand / f64::from(client.caches);
        let former = std::mem::replace(&mut self.caches[network as usize][usize::from(cache)].answer, answer);
        if former != answer {
            former.inspect(|place| self.gateways[*place].carried -= part);
            answer.inspect(|place| self.gateways[*place].carried += part);
            let order = &self.population.rows[usize::from(client.row)];
            self.near += part * (is_near(answer, order, 1) - is_near(former, order, 1));
            self.nearby += part * (is_near(answer, order, 2) - is_near(former, order, 2));
        }
        let stays = former.is_some_and(|place| self.is_up(place));
        self.recording.answered(stays && former != answer);
        self.queries += 1;
        if self.queries.is_multiple_of(u64::from(self.scenario.reports.sample))
            && let Some(place) = answer
        {
            self.balancer.asked(self.steering.demand(network), place, self.start + now);
        }
        let pause = client.gap + self.chance.wait(0.01 * self.scenario.ttl.as_secs_f64());
        self.put(now + Duration::from_secs_f64(pause), Next::Ask(network, cache));
    }

    fn is_up(&self, cluster: usize) -> bool {
        matches!(self.gateways[cluster].health().standing(), Standing::Up | Standing::Unknown)
    }

    fn probe(&mut self, now: Duration, cluster: usize) {
        let gateway = &mut self.gateways[cluster];
        let passes = gateway.serves && !gateway.cut_off;
        let outcome = if passes { Outcome::Pass } else { Outcome::Fail(Cause::new("timeout")) };
        let flip = gateway.judge.observe(&outcome, &self.monitor);
        let pause = if gateway.judge.is_wavering() { self.monitor.period / 10 } else { self.monitor.period };
        self.put(now + pause, Next::Probe(cluster));
        if flip.is_some() {
            self.flipped(now, cluster);
        }
    }

    fn flipped(&mut self, now: Duration, cluster: usize) {
        let up = self.is_up(cluster);
        self.balancer.available(cluster, up, self.start + now);
        self.step(now);
    }

    /// All gateways tell their load at the same time.
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
                at: self.start + now,
            });
            let arrives = Next::Arrive(self.pending.len() - 1);
            self.queue.push(Reverse((now + reports.late, arrives)));
        }
        self.put(now + reports.every, Next::Measure);
    }

    fn step(&mut self, now: Duration) {
        let health: Vec<Health> = self.gateways.iter().map(Gateway::health).collect();
        let steering = &self.steering;
        let mut places = |shares: &Shares, demands: &[Demand]| -> Vec<Option<usize>> {
            let held = steering.conditions(shares, &health);
            demands.iter().map(|demand| steering.place(*demand, &held)).collect()
        };
        self.balancer.step(self.start + now, &mut places);
        self.held = self.steering.conditions(self.balancer.shares(), &health);
    }

    fn sample(&mut self, now: Duration) {
        let clusters = self.scenario.clusters.iter().zip(&self.gateways);
        let load = |(cluster, gateway): (&super::scenario::SimulatedCluster, &Gateway)| {
            if gateway.serves { gateway.carried / cluster.capacity as f64 } else { 0.0 }
        };
        let sample = Sample { at: now, loads: clusters.map(load).collect(), near: self.near, nearby: self.nearby };
        let drains: Vec<_> = self.gateways.iter().map(|g| g.drained.then_some(g.carried)).collect();
        self.recording.sample(sample, &drains);
        self.put(now + self.scenario.ttl / SAMPLES, Next::Sample);
    }

    fn happens(&mut self, now: Duration, event: Event) {
        match event {
            Event::Dies(place) => self.gateways[place].serves = false,
            Event::Returns(place) => self.gateways[place].serves = true,
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
        }
    }

    fn restart(&mut self, now: Duration, kept: Option<&fairway_health::balance::Kept>) {
        self.balancer = Balancer::new(settings(self.scenario), self.start + now, kept);
        for place in 0..self.gateways.len() {
            if !self.is_up(place) {
                self.balancer.available(place, false, self.start + now);
            }
        }
        let health: Vec<Health> = self.gateways.iter().map(Gateway::health).collect();
        self.held = self.steering.conditions(self.balancer.shares(), &health);
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
        for (network, caches) in self.population.networks.iter_mut().zip(&self.caches) {
            if network.home != place {
                continue;
            }
            let more = network.grow(factor);
            for answer in caches.iter().filter_map(|cache| cache.answer) {
                self.gateways[answer].carried += more;
                let order = &self.population.rows[usize::from(network.row)];
                self.near += more * is_near(Some(answer), order, 1);
                self.nearby += more * is_near(Some(answer), order, 2);
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
