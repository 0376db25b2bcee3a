//! Client networks: demand by Zipf's law, a position on earth, and caches.

use std::time::Duration;

use fairway_model::Coordinates;

use super::{answer::Answer, rng::Rng, scenario::Scenario};

/// A client network.
#[derive(Clone, Debug)]
pub struct ClientNetwork {
    /// Its demand, in the unit of the capacities.
    pub demand: f64,
    /// Position of its clients.
    pub at: Coordinates,
    /// Index in [`Population::orders`].
    pub order: u16,
    /// The nearest cluster.
    pub home: usize,
    /// Number of its caches. Each sends queries of its own.
    pub caches: u16,
    /// Seconds from one query of a cache to the next.
    pub gap: f64,
}

/// All client networks, and the orders of clusters by distance that they have.
#[derive(Clone, Debug)]
pub struct Population {
    /// In random order; those that arrive during the run are last.
    pub networks: Vec<ClientNetwork>,
    /// Lists of clusters, the nearest first. The code that answers does not see them; they measure its results.
    pub orders: Vec<Vec<usize>>,
    /// Networks whose place another one takes, and that one, in order of time.
    pub arrivals: Vec<(u32, u32)>,
    swing: Swing,
}

/// Demand in the course of an hour. The demand nearest to each cluster follows a sine with a phase of its own.
#[derive(Clone, Debug)]
struct Swing {
    part: f64,
    period: Duration,
    phases: Vec<f64>,
    /// Largest sum of all demand, relative to its mean.
    top: f64,
}

impl Swing {
    fn new(scenario: &Scenario, rng: &mut Rng) -> Self {
        let (clients, period) = (&scenario.clients, scenario.swing_period);
        let phases = clients.near.iter().map(|_| if clients.swing > 0.0 { rng.fraction() } else { 0.0 }).collect();
        let swing = Self { part: clients.swing, period, phases, top: 1.0 };
        let sum = |sixtieth: u32| -> f64 {
            let at = period * sixtieth / 60;
            clients.near.iter().enumerate().map(|(cluster, part)| part * swing.factor(cluster, at)).sum()
        };
        let top = (0..60).map(sum).fold(0.0, f64::max);
        Self { top, ..swing }
    }

    /// Returns the demand nearest to a cluster, relative to what it is in the mean if no demand changes.
    fn factor(&self, cluster: usize, at: Duration) -> f64 {
        let turn = at.as_secs_f64() / self.period.as_secs_f64() + self.phases[cluster];
        (1.0 + self.part * (std::f64::consts::TAU * turn).sin()) / self.top
    }
}

/// Part of the networks that stay, those with the largest demand: resolvers of carriers do not come and go.
const STAYING: f64 = 0.05;

/// Largest distance of clients from their nearest cluster, in degrees of latitude and of longitude.
const SURROUNDINGS: f64 = 60.0;

impl ClientNetwork {
    /// Multiplies the demand. Returns the added demand of each cache.
    pub(super) fn grow(&mut self, factor: f64) -> f64 {
        let added = self.demand * (factor - 1.0) / f64::from(self.caches);
        self.demand *= factor;
        added
    }
}

/// Returns the part of the clusters in an answer that are among the first few of an order.
pub(super) fn near_part(answer: Answer, order: &[usize], first: usize) -> f64 {
    answer.mean(|cluster| f64::from(order.iter().take(first).any(|near| *near == cluster)))
}

impl Population {
    /// Returns the factor for the demand nearest to a cluster that makes all demand together `total`; at least 0.
    pub(super) fn growth(&self, cluster: usize, total: f64) -> f64 {
        let all = self.demand();
        let here: f64 = self.networks.iter().filter(|n| n.home == cluster).map(|n| n.demand).sum();
        ((total - (all - here)) / here).max(0.0)
    }

    /// Draws the networks of a scenario.
    pub fn new(scenario: &Scenario, rng: &mut Rng) -> Self {
        let clients = &scenario.clients;
        let clusters: Vec<Coordinates> = scenario.clusters.iter().map(|cluster| cluster.at).collect();
        let capacity: f64 = scenario.clusters.iter().map(|c| c.capacity as f64).sum();
        let weights: Vec<f64> = (1..=clients.networks).map(|n| f64::from(n).powf(-clients.zipf)).collect();
        let scale = scenario.offered * capacity / weights.iter().sum::<f64>();
        let mean = scenario.offered * capacity / f64::from(clients.networks);
        let mut missing: Vec<f64> = clients.near.iter().map(|part| part * scenario.offered * capacity).collect();
        let swing = Swing::new(scenario, rng);
        let mut population = Self { networks: Vec::new(), orders: Vec::new(), arrivals: Vec::new(), swing };
        for demand in weights.into_iter().map(|weight| weight * scale) {
            let home = pick(&missing, rng);
            missing[home] -= demand;
            let at = around(home, &clusters, rng);
            let order = population.order(by_distance(at, &clusters));
            let has_many_caches = rng.fraction() < clients.many_caches;
            let caches = if has_many_caches { (8.0 * demand / mean).round().clamp(2.0, 400.0) } else { 1.0 } as u16;
            let gap = gap(scenario, rng);
            let demand = demand * population.swing.factor(home, Duration::ZERO);
            population.networks.push(ClientNetwork { demand, at, order, home, caches, gap });
        }
        rng.shuffle(&mut population.networks);
        let count = clients.arrivals * f64::from(clients.networks) * scenario.length.div_duration_f64(scenario.ttl);
        population.draw_arrivals(count as usize, rng);
        population
    }

    /// Draws networks that take the places of others. Their demand is 0 until they arrive.
    fn draw_arrivals(&mut self, count: usize, rng: &mut Rng) {
        let mut leaving: Vec<u32> = (0..self.networks.len() as u32).collect();
        let demand = |network: &u32| self.networks[*network as usize].demand;
        leaving.sort_by(|a, b| demand(b).total_cmp(&demand(a)));
        leaving.drain(..(STAYING * leaving.len() as f64).ceil() as usize);
        for _ in 0..if leaving.is_empty() { 0 } else { count } {
            let place = rng.below(leaving.len());
            let new = self.networks.len() as u32;
            let old = std::mem::replace(&mut leaving[place], new);
            self.networks.push(ClientNetwork { demand: 0.0, ..self.networks[old as usize].clone() });
            self.arrivals.push((old, new));
        }
    }

    /// Returns all demand.
    pub fn demand(&self) -> f64 {
        self.networks.iter().map(|network| network.demand).sum()
    }

    /// Returns the number of networks at the start.
    pub fn at_start(&self) -> usize {
        self.networks.len() - self.arrivals.len()
    }

    /// Returns by how much the demand nearest to a cluster grows between two times.
    pub(super) fn growth_between(&self, cluster: usize, before: Duration, now: Duration) -> f64 {
        self.swing.factor(cluster, now) / self.swing.factor(cluster, before)
    }

    /// Returns the index of an order, which is added if it is new.
    fn order(&mut self, order: Vec<usize>) -> u16 {
        let known = self.orders.iter().position(|known| *known == order);
        let index = known.unwrap_or_else(|| {
            self.orders.push(order);
            self.orders.len() - 1
        });
        u16::try_from(index).unwrap_or(u16::MAX)
    }
}

/// Draws a cluster with a probability proportional to the demand that it still lacks.
fn pick(missing: &[f64], rng: &mut Rng) -> usize {
    let total: f64 = missing.iter().map(|m| m.max(0.0)).sum();
    let mut draw = rng.fraction() * total;
    for (cluster, missing) in missing.iter().enumerate() {
        draw -= missing.max(0.0);
        if draw < 0.0 {
            return cluster;
        }
    }
    missing.len() - 1
}

/// Draws a point to which a cluster is the nearest. The range shrinks with each try, since another cluster may be close to this one.
fn around(home: usize, clusters: &[Coordinates], rng: &mut Rng) -> Coordinates {
    let (latitude, longitude) = degrees(clusters[home]);
    let mut reach = SURROUNDINGS;
    while reach > 1e-5 {
        let north = (latitude + reach * (2.0 * rng.fraction() - 1.0)).clamp(-85.0, 85.0);
        let east = longitude + reach * (2.0 * rng.fraction() - 1.0);
        let at = Coordinates::from_degrees(north, (east + 540.0) % 360.0 - 180.0).unwrap_or(clusters[home]);
        if by_distance(at, clusters)[0] == home {
            return at;
        }
        reach *= 0.8;
    }
    clusters[home]
}

/// Returns all clusters, the nearest first, by the haversine formula. The server computes distances in another way.
pub(super) fn by_distance(from: Coordinates, clusters: &[Coordinates]) -> Vec<usize> {
    let distances: Vec<f64> = clusters.iter().map(|at| half_chord(from, *at)).collect();
    let mut order: Vec<usize> = (0..clusters.len()).collect();
    order.sort_by(|a, b| distances[*a].total_cmp(&distances[*b]));
    order
}

/// Returns the distance along the great circle, on a sphere with the mean radius of the earth.
pub(super) fn kilometres(from: Coordinates, to: Coordinates) -> f64 {
    2.0 * 6371.009 * half_chord(from, to).sqrt().min(1.0).asin()
}

/// Returns the square of half the chord between two points on a unit sphere.
fn half_chord(from: Coordinates, to: Coordinates) -> f64 {
    let ((latitude, longitude), (north, east)) = (degrees(from), degrees(to));
    let sin = |degrees: f64| (degrees.to_radians() / 2.0).sin();
    let parallel = latitude.to_radians().cos() * north.to_radians().cos();
    sin(north - latitude).powi(2) + parallel * sin(east - longitude).powi(2)
}

/// Returns latitude and longitude in degrees.
fn degrees(at: Coordinates) -> (f64, f64) {
    (f64::from(at.latitude()) / 1e6, f64::from(at.longitude()) / 1e6)
}

/// Draws the seconds between two queries of a cache.
fn gap(scenario: &Scenario, rng: &mut Rng) -> f64 {
    let ttl = Duration::as_secs_f64(&scenario.ttl);
    let clients = &scenario.clients;
    let draw = rng.fraction();
    if draw < clients.abusers {
        ttl * clients.abuse
    } else if draw < clients.abusers + clients.prefetchers {
        ttl * 0.9
    } else {
        ttl
    }
}
