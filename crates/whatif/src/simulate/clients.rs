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
    /// In random order.
    pub networks: Vec<ClientNetwork>,
    /// Lists of clusters, the nearest first. The code that answers does not see them; they measure its results.
    pub orders: Vec<Vec<usize>>,
}

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
        let all: f64 = self.networks.iter().map(|n| n.demand).sum();
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
        let mut population = Self { networks: Vec::new(), orders: Vec::new() };
        for demand in weights.into_iter().map(|weight| weight * scale) {
            let home = pick(&missing, rng);
            missing[home] -= demand;
            let at = around(home, &clusters, rng);
            let order = population.order(by_distance(at, &clusters));
            let has_many_caches = rng.fraction() < clients.many_caches;
            let caches = if has_many_caches { (8.0 * demand / mean).round().clamp(2.0, 400.0) } else { 1.0 } as u16;
            let gap = gap(scenario, rng);
            population.networks.push(ClientNetwork { demand, at, order, home, caches, gap });
        }
        rng.shuffle(&mut population.networks);
        population
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
