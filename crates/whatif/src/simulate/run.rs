//! One run of a scenario in virtual time: queries of caches, load reports, probes, and the events of the scenario.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::Evaluator;
use fairway_model::{
    Cause, Eligibility, Health, HealthStatus, LatencyTable, Load, LoadReport, LoadSignal, Observation, OverrideAction,
    Pool, Spread, Timestamp, mix,
};
use fairway_steering::balancer::Counted;
use fairway_zones::Draw;

use super::{
    Observed,
    answer::Answer,
    clients::Population,
    flood::Flood,
    optimum::Optimum,
    paths::Paths,
    queue::{Next, Queue},
    recording::{Drain, Recording, ScheduleChange},
    rng::Rng,
    scenario::{Event, SAMPLES_PER_TTL, Scenario},
    server::{Servers, groups},
    steering::{Steering, subnet},
    traffic::Traffic,
};

/// Period of the check if a schedule opened or closed a member, as in the server.
const SCHEDULE_PERIOD: Duration = Duration::from_secs(1);
/// Period in which the leader publishes decisions that it did not publish at once, as in the server: those after a health transition.
const PUBLISH_PERIOD: Duration = Duration::from_secs(1);

/// Work of the simulated server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// A probe of a cluster ends.
    Probe(usize),
    /// All gateways measure their load.
    Measure,
    /// A load report arrives, by its index.
    Report(usize),
    /// Balancing computes new shares.
    Balance,
    /// Schedules are checked.
    Schedule,
    /// The next query of a flood, by the number of the flood.
    Flood(usize),
    /// The leader of servers that share a store publishes its decision.
    Publish,
}

/// Load that a gateway reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exporter {
    /// Its load.
    Correct,
    /// 0.
    Zero,
    /// The last one before it froze.
    Frozen,
}

/// A gateway, and its health in the servers.
struct Gateway {
    exporter: Exporter,
    /// Its last report.
    reported: Option<Load>,
    is_cut_off: bool,
    is_drained: bool,
    evaluator: Evaluator,
    /// Number of reports so far.
    reports: u64,
}

impl Gateway {
    fn health(&self) -> Health {
        Health::new(self.evaluator.status(), self.is_drained.then_some(OverrideAction::Drain))
    }
}

/// Sees each query.
type Observer<'a> = Box<dyn FnMut(Observed<'_>) + 'a>;

pub(super) struct Run<'a> {
    scenario: &'a Scenario,
    rng: Rng,
    queue: Queue<Work>,
    traffic: Traffic,
    gateways: Vec<Gateway>,
    /// Index of the present pool.
    pool: usize,
    table: Option<Arc<LatencyTable>>,
    steering: Steering,
    servers: Servers,
    /// True for clusters whose schedule is open.
    open: Vec<bool>,
    /// Time of the start on the clock of the server.
    start: Instant,
    reports: Vec<LoadReport>,
    reports_are_lost: bool,
    flood: Option<Flood>,
    /// Number of floods so far.
    floods: usize,
    /// True if the optimum is recorded, too.
    has_optima: bool,
    observer: Option<Observer<'a>>,
    recording: Recording,
}

impl<'a> Run<'a> {
    pub(super) fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let population = Population::new(scenario, &mut rng);
        let paths = Paths::new(scenario, &population, seed);
        let table = paths.as_ref().map(|paths| Arc::new(paths.measure(scenario, 0.0, &mut Rng::new(seed))));
        let steering = Steering::new(scenario, &population, &scenario.pools[0], table.as_ref());
        let clusters = scenario.clusters.len();
        let gateway = |_| Gateway {
            exporter: Exporter::Correct,
            reported: None,
            is_cut_off: false,
            is_drained: false,
            evaluator: Evaluator::new(HealthStatus::Up),
            reports: 0,
        };
        let start = Instant::now();
        let servers = Servers::new(scenario, &population, &steering, seed, start);
        let queue = first_work(scenario, &population, &mut rng);
        Self {
            open: steering.open_clusters(clusters, servers.first_runtime()),
            queue,
            recording: Recording::new(scenario, population.demand()),
            traffic: Traffic::new(population, clusters).with_paths(paths),
            gateways: (0..clusters).map(gateway).collect(),
            reports: Vec::new(),
            reports_are_lost: false,
            flood: None,
            floods: 0,
            has_optima: false,
            observer: None,
            pool: 0,
            table,
            scenario,
            steering,
            rng,
            servers,
            start,
        }
    }

    /// Also records the optimum, once per TTL.
    pub(super) fn with_optima(self) -> Self {
        Self { has_optima: true, ..self }
    }

    /// Also calls `observe` before each query.
    pub(super) fn observed(self, observe: impl FnMut(Observed<'_>) + 'a) -> Self {
        Self { observer: Some(Box::new(observe)), ..self }
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> Recording {
        self.play();
        self.recording
    }

    fn play(&mut self) {
        while let Some((now, next)) = self.queue.pop()
            && now <= self.scenario.length
        {
            match next {
                Next::Event(number) => self.event(now, self.scenario.events[number].1),
                Next::Arrival(number) => self.arrive(now, number),
                Next::Demand => self.follow_demand(now),
                Next::Query(network, cache) => self.query(now, network, cache),
                Next::Server(Work::Probe(cluster)) => self.probe(now, cluster),
                Next::Server(Work::Measure) => self.measure(now),
                Next::Server(Work::Report(number)) => self.report(now, number),
                Next::Server(Work::Balance) => {
                    self.balance(now);
                    self.publish(now);
                    self.queue.push(now + self.scenario.reports.every, Next::Server(Work::Balance));
                }
                Next::Server(Work::Publish) => {
                    self.publish(now);
                    self.queue.push(now + PUBLISH_PERIOD, Next::Server(Work::Publish));
                }
                Next::Server(Work::Flood(number)) => self.flood(now, number),
                Next::Server(Work::Schedule) => {
                    self.check_schedules(now);
                    self.queue.push(now + SCHEDULE_PERIOD, Next::Server(Work::Schedule));
                }
                Next::Sample => self.sample(now),
            }
        }
    }

    /// Returns the time on the clock of the scenario.
    fn clock(&self, now: Duration) -> Timestamp {
        self.scenario.begins.plus(now)
    }

    fn pool(&self) -> &Pool {
        &self.scenario.pools[self.pool]
    }

    /// A network takes the place of another one, and queries at once.
    fn arrive(&mut self, now: Duration, number: usize) {
        let (network, caches) = self.traffic.replace(number);
        for cache in 0..caches {
            self.queue.push(now, Next::Query(network, cache));
        }
    }

    fn follow_demand(&mut self, now: Duration) {
        let period = self.scenario.demand_period();
        self.recording.demand = self.traffic.follow_demand(now.saturating_sub(period), now);
        self.queue.push(now + period, Next::Demand);
    }

    fn query(&mut self, now: Duration, network: u32, cache: u16) {
        if !self.traffic.is_present(network) {
            return;
        }
        if let Some(observe) = &mut self.observer {
            let at = self.scenario.begins.plus(now);
            let Steering { desired, name, .. } = &self.steering;
            let serving = &self.steering.serving(self.servers.runtime(network));
            observe(Observed { at, desired, serving, name, client: subnet(network) });
        }
        let draw = if self.pool().spread == Spread::Query { Draw(self.rng.bits()) } else { Draw(0) };
        let answer = self.steering.answer(network, draw, self.servers.runtime(network));
        let previous = self.traffic.answer(network, cache, answer);
        let could_stay = previous.is_usable(|cluster| self.is_up(cluster));
        self.recording.count_answer(could_stay && previous != answer);
        self.sample_for_balancing(now, network, answer);
        let gap = self.traffic.population().networks[network as usize].gap;
        let pause = gap + self.rng.exponential(0.01 * self.scenario.ttl.as_secs_f64());
        self.queue.push(now + Duration::from_secs_f64(pause), Next::Query(network, cache));
    }

    fn sample_for_balancing(&mut self, now: Duration, network: u32, answer: Answer) {
        if self.pool().policy.load
            && let Some(cluster) = answer.first()
        {
            let Some(class) = self.steering.load_class(network) else { return };
            let query = Counted {
                class,
                query: self.steering.evidence(network),
                cluster: &self.scenario.clusters[cluster].name.clone().into(),
                at: self.start + now,
            };
            self.servers.count_query(network, &query);
        }
    }

    /// Sends the next query of a flood, unless another one has begun, or it ended.
    fn flood(&mut self, now: Duration, number: usize) {
        let Some(flood) = self.flood.as_mut().filter(|_| number == self.floods) else { return };
        let (network, query) = flood.draw();
        self.queue.push(now + flood.pause, Next::Server(Work::Flood(number)));
        if self.pool().policy.load
            && let Some(class) = self.steering.load_class(network)
        {
            self.servers.count_flood(network, class, query, self.start + now);
        }
    }

    /// True if the server could answer with this cluster.
    fn is_up(&self, cluster: usize) -> bool {
        let eligibility = self.gateways[cluster].health().eligibility();
        self.open[cluster] && matches!(eligibility, Eligibility::Up | Eligibility::Unknown)
    }

    fn probe(&mut self, now: Duration, cluster: usize) {
        let gateway = &mut self.gateways[cluster];
        let passes = self.traffic.serves(cluster) && !gateway.is_cut_off;
        let outcome = if passes { Observation::Pass } else { Observation::Fail(Cause::new("timeout")) };
        let transition = gateway.evaluator.observe(&outcome, &self.scenario.probes);
        let period = self.scenario.probes.period;
        let pause = if gateway.evaluator.is_wavering() { period / 10 } else { period };
        self.queue.push(now + pause, Next::Server(Work::Probe(cluster)));
        if transition.is_some() {
            self.availability_changed(now, cluster);
        }
    }

    fn availability_changed(&mut self, now: Duration, cluster: usize) {
        let is_up = self.is_up(cluster);
        self.servers.set_available(&self.scenario.clusters[cluster].name, is_up, self.start + now);
        self.balance(now);
    }

    /// Measures the load of all gateways. Their reports arrive later, and do not say how much later.
    fn measure(&mut self, now: Duration) {
        let reports = &self.scenario.reports;
        let loads = self.traffic.loads();
        for ((number, gateway), present) in self.gateways.iter_mut().enumerate().zip(loads) {
            let error = self.rng.error(reports.noise);
            let is_lost = self.rng.fraction() < reports.loss;
            if self.reports_are_lost || gateway.is_cut_off || !self.traffic.serves(number) || is_lost {
                continue;
            }
            let cluster = &self.scenario.clusters[number];
            let present = Load((present / cluster.capacity as f64 * error * 1000.0).round() as u32);
            let load = match gateway.exporter {
                Exporter::Correct => present,
                Exporter::Zero => Load(0),
                Exporter::Frozen => gateway.reported.unwrap_or(present),
            };
            gateway.reported = Some(load);
            gateway.reports += 1;
            self.reports.push(LoadReport {
                backend: cluster.name.clone().into(),
                load,
                signal: LoadSignal::InFlight,
                sequence: gateway.reports,
                at: self.start + now + reports.late,
            });
            self.queue.push(now + reports.late, Next::Server(Work::Report(self.reports.len() - 1)));
        }
        self.queue.push(now + reports.every, Next::Server(Work::Measure));
    }

    fn report(&mut self, now: Duration, number: usize) {
        if !self.pool().policy.load || self.scenario.is_informed {
            return;
        }
        self.servers.add_report(&self.reports[number], self.start + now);
    }

    fn check_schedules(&mut self, now: Duration) {
        self.servers.update_schedules(&self.steering, self.clock(now));
        let open = self.steering.open_clusters(self.gateways.len(), self.servers.first_runtime());
        let before = std::mem::replace(&mut self.open, open.clone());
        for cluster in (0..before.len()).filter(|cluster| before[*cluster] != open[*cluster]) {
            self.recording.schedule_changes.push(ScheduleChange { at: now, cluster, is_open: open[cluster] });
            self.availability_changed(now, cluster);
        }
    }

    fn health(&self) -> Vec<Health> {
        self.gateways.iter().map(Gateway::health).collect()
    }

    fn update_runtime(&mut self, now: Duration) {
        self.servers.update_runtimes(&self.steering, &self.health(), self.clock(now));
    }

    /// Computes new shares, if the pool uses load, and the runtime state.
    fn balance(&mut self, now: Duration) {
        if self.pool().policy.load {
            if self.scenario.is_informed {
                let demands = self.steering.demands(self.traffic.population());
                self.servers.inform(&demands, self.start + now);
            }
            self.servers.step(self.start + now);
        }
        self.update_runtime(now);
    }

    fn publish(&mut self, now: Duration) {
        if self.servers.publish(self.start + now) {
            self.update_runtime(now);
        }
    }

    fn sample(&mut self, now: Duration) {
        let gateways = self.gateways.iter().zip(self.traffic.carried());
        let drained: Vec<_> = gateways.map(|(gateway, carried)| gateway.is_drained.then_some(*carried)).collect();
        self.recording.add(self.traffic.sample(self.scenario, now), &drained);
        if self.has_optima && self.recording.samples.len().is_multiple_of(SAMPLES_PER_TTL as usize) {
            let is_usable = |cluster: usize| self.traffic.serves(cluster) && self.is_up(cluster);
            self.recording.optima.push((now, Optimum::of(&self.traffic, self.scenario, is_usable)));
        }
        self.queue.push(now + self.scenario.sample_period(), Next::Sample);
    }

    fn event(&mut self, now: Duration, event: Event) {
        match event {
            Event::Dies(cluster) => self.traffic.set_serving(cluster, false),
            Event::Returns(cluster) => self.traffic.set_serving(cluster, true),
            Event::Demand(cluster, offered) => {
                let demand = offered * self.scenario.capacity();
                self.traffic.set_demand(cluster, demand);
                self.recording.demand = demand;
            }
            Event::ReportsLost => self.reports_are_lost = true,
            Event::ReportsBack => self.reports_are_lost = false,
            Event::Lies(cluster) => self.gateways[cluster].exporter = Exporter::Zero,
            Event::Freeze(cluster) => self.gateways[cluster].exporter = Exporter::Frozen,
            Event::Honest(cluster) | Event::Thaw(cluster) => self.gateways[cluster].exporter = Exporter::Correct,
            Event::Elsewhere(cluster, part) => {
                self.traffic.set_elsewhere(cluster, part * self.scenario.clusters[cluster].capacity as f64);
            }
            Event::Flood(spec) => {
                self.floods += 1;
                self.flood = Flood::new(spec, self.traffic.population(), Rng::new(mix(self.floods as u64)));
                self.queue.push(now, Next::Server(Work::Flood(self.floods)));
            }
            Event::Partition(cluster) => self.gateways[cluster].is_cut_off = true,
            Event::Heal(cluster) => self.gateways[cluster].is_cut_off = false,
            Event::Drain(cluster) => self.drain(now, cluster),
            Event::Undrain(cluster) => {
                self.gateways[cluster].is_drained = false;
                self.availability_changed(now, cluster);
            }
            Event::Restart => self.restart(now, true),
            Event::RestartBlank => self.restart(now, false),
            Event::Pool(pool) => self.reload(now, pool),
            Event::Measured(error) => {
                let paths = self.traffic.paths();
                self.table = paths.map(|paths| Arc::new(paths.measure(self.scenario, error, &mut self.rng)));
                self.reload(now, self.pool);
            }
        }
    }

    /// Reloads the configuration with a pool and the present latency table.
    fn reload(&mut self, now: Duration, pool: usize) {
        let was_balanced = self.pool().policy.load;
        self.pool = pool;
        self.steering = Steering::new(self.scenario, self.traffic.population(), self.pool(), self.table.as_ref());
        self.update_runtime(now);
        self.open = self.steering.open_clusters(self.gateways.len(), self.servers.first_runtime());
        let keeps_groups = || was_balanced && self.servers.has_groups(&groups(self.scenario, &self.steering));
        if self.pool().policy.load && !keeps_groups() {
            self.restart(now, was_balanced);
        }
    }

    fn restart(&mut self, now: Duration, keeps_state: bool) {
        self.servers.restart(&groups(self.scenario, &self.steering), keeps_state, self.start + now);
        for cluster in 0..self.gateways.len() {
            if !self.is_up(cluster) {
                self.servers.set_available(&self.scenario.clusters[cluster].name, false, self.start + now);
            }
        }
        self.update_runtime(now);
    }

    fn drain(&mut self, now: Duration, cluster: usize) {
        self.gateways[cluster].is_drained = true;
        self.availability_changed(now, cluster);
        let over = self.servers.drain_end(&self.scenario.clusters[cluster].name, self.start + now);
        let predicted = over.saturating_duration_since(self.start);
        self.recording.drains.push(Drain { cluster, at: now, predicted, end: None });
    }
}

/// Returns a queue with the first work of the server. First probes are distributed uniformly over a period.
fn first_work(scenario: &Scenario, population: &Population, rng: &mut Rng) -> Queue<Work> {
    let mut queue = Queue::new(scenario, population, rng);
    for cluster in 0..scenario.clusters.len() {
        queue.push(scenario.probes.period.mul_f64(rng.fraction()), Next::Server(Work::Probe(cluster)));
    }
    queue.push(scenario.reports.every, Next::Server(Work::Measure));
    queue.push(scenario.reports.every, Next::Server(Work::Balance));
    if scenario.pools.iter().any(|pool| pool.policy.schedule) {
        queue.push(SCHEDULE_PERIOD, Next::Server(Work::Schedule));
    }
    if scenario.shared_store {
        queue.push(PUBLISH_PERIOD, Next::Server(Work::Publish));
    }
    queue
}

#[cfg(test)]
mod tests;
