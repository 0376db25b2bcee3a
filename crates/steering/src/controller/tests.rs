//! The controller with a model of clients: caches that keep an answer for a TTL, and clusters that report late and with errors.

use fairway_model::SplitMix;

use super::*;
use crate::transport::{cost, solve};

const TTL: f64 = 30.0;
/// Ticks of the model per TTL.
const TICKS: usize = 30;
/// Ticks between two reports, and until a report arrives.
const PERIOD: usize = 10;
const LATE: usize = 15;
const CACHES: usize = 1_500;
const CLASSES: usize = 12;

/// A cache. It sends a query once per TTL.
struct Cache {
    class: usize,
    slot: usize,
    demand: f64,
    tick: usize,
    cluster: Option<usize>,
}

struct Model {
    controller: Controller,
    start: Instant,
    caches: Vec<Cache>,
    capacities: Vec<f64>,
    /// True for clusters that serve.
    serves: Vec<bool>,
    /// A cluster that does not report.
    silent: Option<usize>,
    costs: Vec<Vec<f64>>,
    noise: f64,
    rng: SplitMix,
    tick: usize,
    /// Reports on their way: tick of the arrival, cluster, load.
    reports: Vec<(usize, usize, f64)>,
    /// Answers that changed, and all.
    answers: (usize, usize),
}

fn fraction(rng: &mut SplitMix) -> f64 {
    (rng.bits() >> 11) as f64 / (1u64 << 53) as f64
}

impl Model {
    /// Draws 3 to 8 clusters with capacities up to 1 : 10, an order of them for each class, and caches by Zipf's law that need `offered` of
    /// the capacity. With even seeds the costs are ranks; else they differ by up to four ranks from one cluster to the next, as
    /// latencies do.
    fn new(seed: u64, offered: f64, noise: f64) -> Self {
        let mut rng = SplitMix::new(seed);
        let count = 3 + rng.below(6) as usize;
        let capacities: Vec<f64> = (0..count).map(|_| 1_000.0 * 10f64.powf(fraction(&mut rng))).collect();
        let costs: Vec<Vec<f64>> = (0..CLASSES)
            .map(|_| {
                let keys: Vec<f64> = (0..count).map(|_| fraction(&mut rng)).collect();
                let cost = |step: &f64| if seed.is_multiple_of(2) { 1.0 } else { 4.0 * step };
                keys.iter().map(|key| keys.iter().filter(|other| *other < key).map(cost).sum()).collect()
            })
            .collect();
        let sizes: Vec<f64> = (1..=CACHES).map(|number| (number as f64).powf(-0.5)).collect();
        let scale = offered * capacities.iter().sum::<f64>() / sizes.iter().sum::<f64>();
        let cache = |size: &f64| Cache {
            class: rng.below(CLASSES as u64) as usize,
            slot: rng.below(SLOTS as u64) as usize,
            demand: size * scale,
            tick: rng.below(TICKS as u64) as usize,
            cluster: None,
        };
        let caches = sizes.iter().map(cache).collect();
        let clusters = capacities.iter().map(|capacity| Cluster { capacity: *capacity, target: 0.8 * capacity });
        let period = Duration::from_secs_f64(TTL * PERIOD as f64 / TICKS as f64);
        let ttl = Duration::from_secs_f64(TTL);
        let weights = vec![capacities.clone(); CLASSES];
        let settings = Settings { clusters: clusters.collect(), costs: costs.clone(), weights, period, ttl };
        let start = Instant::now();
        Self {
            controller: Controller::new(settings, start),
            start,
            caches,
            serves: vec![true; count],
            silent: None,
            capacities,
            costs,
            noise,
            rng,
            tick: 0,
            reports: Vec::new(),
            answers: (0, 0),
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_secs_f64(self.tick as f64 * TTL / TICKS as f64)
    }

    /// Answers all slots of a class with the cluster that `choose` returns for its costs.
    fn begin_with(&mut self, choose: impl Fn(&[f64]) -> usize) {
        for class in 0..CLASSES {
            let cluster = choose(&self.costs[class]);
            (0..SLOTS).for_each(|slot| self.controller.estimate.send(class * SLOTS + slot, cluster, 0.0));
        }
    }

    fn run(&mut self, ttls: usize) {
        for _ in 0..ttls * TICKS {
            self.tick();
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        for cache in self.caches.iter_mut().filter(|cache| cache.tick == self.tick % TICKS) {
            let cluster = self.controller.cluster(cache.class, cache.slot);
            self.answers.0 += usize::from(cache.cluster.is_some_and(|before| before != cluster));
            self.answers.1 += 1;
            cache.cluster = Some(cluster);
            self.controller.count_query(cache.class, cache.slot, 1.0, now);
        }
        let (arrived, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.reports).into_iter().partition(|report| report.0 <= self.tick);
        self.reports = waiting;
        for (_, cluster, load) in arrived {
            self.controller.add_report(cluster, load, now);
        }
        if self.tick.is_multiple_of(PERIOD) {
            let silent = self.silent;
            for cluster in (0..self.serves.len()).filter(|cluster| self.serves[*cluster] && Some(*cluster) != silent) {
                let error = 1.0 + self.noise * (2.0 * fraction(&mut self.rng) - 1.0);
                self.reports.push((self.tick + LATE, cluster, self.load(cluster) * error));
            }
            self.controller.step(now);
        }
        self.tick += 1;
    }

    fn load(&self, cluster: usize) -> f64 {
        self.caches.iter().filter(|cache| cache.cluster == Some(cluster)).map(|cache| cache.demand).sum()
    }

    fn highest(&self) -> f64 {
        (0..self.serves.len()).map(|cluster| self.load(cluster) / self.capacities[cluster]).fold(0.0, f64::max)
    }

    /// Returns the mean rank of the cluster that the demand is at.
    fn rank(&self) -> f64 {
        let all: f64 = self.caches.iter().map(|cache| cache.demand).sum();
        let cost = |cache: &Cache| cache.cluster.map_or(0.0, |cluster| cache.demand * self.costs[cache.class][cluster]);
        self.caches.iter().map(cost).sum::<f64>() / all
    }

    /// Returns the least mean rank with every cluster that serves below its target.
    fn least_rank(&self) -> f64 {
        let mut sources: Vec<Source> = self
            .costs
            .iter()
            .map(|costs| {
                let cost = |(cost, serves): (&f64, &bool)| if *serves { *cost } else { f64::INFINITY };
                Source { demand: 0.0, costs: costs.iter().zip(&self.serves).map(cost).collect() }
            })
            .collect();
        self.caches.iter().for_each(|cache| sources[cache.class].demand += cache.demand);
        let rooms: Vec<_> =
            self.capacities.iter().map(|capacity| vec![Room { load: 0.8 * capacity, penalty: 0.0 }]).collect();
        let all: f64 = sources.iter().map(|source| source.demand).sum();
        let placed = solve(&sources, &rooms);
        cost(&sources, &placed) / all
    }

    fn set_serves(&mut self, cluster: usize, serves: bool) {
        self.serves[cluster] = serves;
        let now = self.now();
        self.controller.set_available(cluster, serves, now);
        self.controller.step(now);
    }
}

#[test]
fn demand_comes_near_its_optimum_from_every_start() {
    for seed in 1..=8 {
        for start in ["declared split", "all on one cluster", "farthest cluster"] {
            let mut model = Model::new(seed, 0.65, 0.1);
            match start {
                "declared split" => {}
                "all on one cluster" => model.begin_with(|_| 0),
                _ => model.begin_with(|costs| (0..costs.len()).max_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap()),
            }
            model.run(15);
            let (rank, least, highest) = (model.rank(), model.least_rank(), model.highest());
            assert!(rank <= least + 0.12, "seed {seed}, {start}: mean rank {rank}, possible {least}");
            assert!(highest <= 1.0, "seed {seed}, {start}: load {highest}");
        }
    }
}

#[test]
fn table_of_a_process_that_knew_no_demand_is_left() {
    let mut model = Model::new(3, 0.65, 0.1);
    for (class, costs) in model.costs.iter().enumerate() {
        let farthest = (0..costs.len()).max_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap();
        (0..SLOTS).for_each(|slot| model.controller.restore(class, slot, farthest, SlotState::default()));
    }
    // The reports of the first process arrive before any query is counted.
    for cluster in 0..model.serves.len() {
        model.controller.add_report(cluster, model.capacities[cluster], model.now());
    }
    model.run(15);
    let (rank, least) = (model.rank(), model.least_rank());
    assert!(rank <= least + 0.12, "mean rank {rank}, possible {least}");
}

#[test]
fn steady_demand_stays_where_it_is() {
    let mut model = Model::new(11, 0.65, 0.1);
    model.run(20);
    model.answers = (0, 0);
    let mut highest: f64 = 0.0;
    for _ in 0..10 {
        model.run(1);
        highest = highest.max(model.highest());
    }
    let (changed, all) = model.answers;
    assert!(changed * 50 <= all, "{changed} of {all} answers changed");
    assert!(highest <= 0.92, "load {highest}");
}

#[test]
fn clients_of_a_cluster_that_dies_go_to_clusters_with_room_at_once() {
    let mut model = Model::new(12, 0.5, 0.0);
    model.run(15);
    let dead = (0..model.serves.len()).min_by(|a, b| model.capacities[*a].total_cmp(&model.capacities[*b])).unwrap();
    model.set_serves(dead, false);
    let is_at_dead =
        |model: &Model| (0..CLASSES * SLOTS).any(|slot| model.controller.cluster(slot / SLOTS, slot % SLOTS) == dead);
    assert!(!is_at_dead(&model), "a slot is still answered with the cluster that is down");
    model.run(1);
    assert_eq!(model.load(dead), 0.0);
    assert!(model.highest() <= 1.0, "load {} a TTL later", model.highest());
    model.run(10);
    assert!(!is_at_dead(&model));
    assert!(model.rank() <= model.least_rank() + 0.12, "{} {}", model.rank(), model.least_rank());
}

#[test]
fn full_cluster_makes_room_for_what_an_overloaded_one_gives_away() {
    let cluster = |capacity: f64| Cluster { capacity, target: 0.8 * capacity };
    let period = Duration::from_secs(10);
    let settings = Settings {
        clusters: [100.0, 300.0, 300.0].map(cluster).into(),
        costs: vec![vec![0.0, 1.0, f64::INFINITY], vec![f64::INFINITY, 0.0, 1.0]],
        weights: vec![vec![100.0, 300.0, 0.0], vec![0.0, 300.0, 300.0]],
        period,
        ttl: Duration::from_secs_f64(TTL),
    };
    let start = Instant::now();
    let mut controller = Controller::new(settings, start);
    (0..2 * SLOTS).for_each(|slot| controller.estimate.send(slot, slot / SLOTS, 0.0));
    // The second class fills the second cluster to its target, where the first cluster has to send a half of its demand.
    let demands = [160.0, 240.0].map(|demand| vec![demand / SLOTS as f64; SLOTS]);
    for step in 0..60 {
        let now = start + period * step;
        controller.inform(&demands, now);
        controller.step(now);
    }
    let loads = [0, 1, 2].map(|cluster| controller.demand_at(cluster));
    assert!(loads[0] < 85.0 && loads[1] < 245.0, "targets are 80, 240 and 240: {loads:?}");
}

#[test]
fn clusters_of_equal_cost_are_divided_by_the_weights_of_each_class_until_one_is_full() {
    let period = Duration::from_secs(10);
    let settings = Settings {
        clusters: vec![Cluster { capacity: 1_000.0, target: 800.0 }; 2],
        costs: vec![vec![0.0; 2]; 2],
        weights: vec![vec![900.0, 100.0], vec![100.0, 900.0]],
        period,
        ttl: Duration::from_secs_f64(TTL),
    };
    let start = Instant::now();
    let mut controller = Controller::new(settings, start);
    let parts = |controller: &Controller| {
        let at_first = |class: usize| (0..SLOTS).filter(|slot| controller.cluster(class, *slot) == 0).count();
        [0, 1].map(|class| at_first(class) as f64 / SLOTS as f64)
    };
    let declared = parts(&controller);
    assert!((0.85..0.95).contains(&declared[0]) && (0.05..0.15).contains(&declared[1]), "{declared:?}");
    let mut now = start;
    let mut run = |controller: &mut Controller, demand: f64| {
        let demands = [demand, 400.0].map(|demand| vec![demand / SLOTS as f64; SLOTS]);
        for _ in 0..60 {
            now += period;
            controller.inform(&demands, now);
            controller.step(now);
        }
        [0, 1].map(|cluster| controller.demand_at(cluster))
    };
    run(&mut controller, 400.0);
    assert_eq!(parts(&controller), declared);
    let loads = run(&mut controller, 1_000.0);
    assert!(loads[0] < 830.0, "the target is 800: {loads:?}");
    run(&mut controller, 400.0);
    assert_eq!(parts(&controller), declared, "they are back");
    // The first cluster dies, and returns.
    controller.set_available(0, false, start + period * 180);
    run(&mut controller, 400.0);
    assert_eq!(parts(&controller), [0.0, 0.0]);
    controller.set_available(0, true, start + period * 240);
    run(&mut controller, 400.0);
    assert_eq!(parts(&controller), declared, "they are back again");
}

#[test]
fn cluster_that_is_back_gets_its_clients_gradually() {
    let mut model = Model::new(13, 0.5, 0.0);
    model.run(15);
    let back = (0..model.serves.len()).max_by(|a, b| model.load(*a).total_cmp(&model.load(*b))).unwrap();
    let before = model.load(back);
    model.set_serves(back, false);
    model.run(10);
    model.set_serves(back, true);
    for ttl in 1..=4 {
        model.run(1);
        let part = model.load(back) / (0.8 * model.capacities[back]);
        assert!(part <= f64::from(ttl) / 5.0 + 0.1, "{part} of its target after {ttl} TTLs");
    }
    model.run(15);
    assert!(model.load(back) >= 0.8 * before, "{} of {before}", model.load(back));
}

#[test]
fn overload_is_spread_evenly() {
    let mut model = Model::new(14, 1.2, 0.0);
    model.run(20);
    let loads: Vec<f64> =
        (0..model.serves.len()).map(|cluster| model.load(cluster) / model.capacities[cluster]).collect();
    assert!(loads.iter().all(|load| (1.0..1.4).contains(load)), "loads {loads:?} with 1.2 of the capacity offered");
}

/// Runs a model in which a cluster does not report from some time on. Returns its load relative to its part of the declared split.
fn load_of_silent(model: &mut Model, silent: usize, ttls: usize) -> f64 {
    model.silent = Some(silent);
    model.run(ttls);
    let all: f64 = model.caches.iter().map(|cache| cache.demand).sum();
    model.load(silent) / (all * model.capacities[silent] / model.capacities.iter().sum::<f64>())
}

#[test]
fn cluster_that_never_reports_gets_its_declared_part_at_most() {
    for seed in 15..=18 {
        let mut model = Model::new(seed, 0.5, 0.0);
        let part = load_of_silent(&mut model, 0, 20);
        assert!(part <= 1.3, "seed {seed}: {part} of the declared part");
        assert!(model.highest() <= 1.0, "seed {seed}: load {}", model.highest());
        // The others go where they should.
        let (rank, least) = (model.rank(), model.least_rank());
        assert!(rank <= least + 0.5, "seed {seed}: mean rank {rank}, possible {least}");
    }
}

#[test]
fn cluster_that_is_silent_for_long_gets_its_declared_part_at_most() {
    for seed in 19..=22 {
        let mut model = Model::new(seed, 0.5, 0.05);
        model.run(15);
        let most = (0..model.serves.len()).max_by(|a, b| model.load(*a).total_cmp(&model.load(*b))).unwrap();
        load_of_silent(&mut model, most, 1);
        assert!(model.highest() <= 1.0, "seed {seed}: what was reported holds for a while");
        let part = load_of_silent(&mut model, most, 20);
        assert!(part <= 1.3, "seed {seed}: {part} of the declared part");
        model.silent = None;
        model.run(15);
        let (rank, least) = (model.rank(), model.least_rank());
        assert!(rank <= least + 0.12, "seed {seed}: mean rank {rank}, possible {least}");
    }
}

#[test]
fn nothing_moves_before_any_cluster_has_reported() {
    let mut model = Model::new(15, 0.5, 0.0);
    model.serves.fill(false);
    let table = |model: &Model| -> Vec<usize> {
        (0..CLASSES * SLOTS).map(|slot| model.controller.cluster(slot / SLOTS, slot % SLOTS)).collect()
    };
    let before = table(&model);
    model.run(10);
    assert_eq!(table(&model), before);
}
