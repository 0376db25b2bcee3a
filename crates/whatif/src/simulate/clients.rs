//! Who asks: networks with demand by Zipf's law, each at its place on earth with its caches.

use std::time::Duration;

use fairway_model::Coordinates;

use super::{answer::Named, chance::Chance, scenario::Scenario};

/// A client network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its demand, in the unit of the capacities.
    pub demand: f64,
    /// Where its clients are.
    pub at: Coordinates,
    /// Its row: which order of clusters by distance is its own.
    pub row: u16,
    /// The cluster that is nearest.
    pub home: usize,
    /// Its caches, each of which asks for itself.
    pub caches: u16,
    /// From one query of a cache to the next.
    pub gap: f64,
}

/// All of them, and the orders that there are.
#[derive(Clone, Debug)]
pub struct Population {
    /// In no order.
    pub networks: Vec<Network>,
    /// Clusters from the nearest on, a list a row. What answers does not go by these: they are what it is judged by.
    pub rows: Vec<Vec<usize>>,
}

/// How far from their nearest cluster clients may be, in degrees north and east.
const SURROUNDINGS: f64 = 60.0;

impl Network {
    /// Its demand grows by this factor; gives what each of its caches carries more.
    pub fn grow(&mut self, factor: f64) -> f64 {
        let more = self.demand * (factor - 1.0) / f64::from(self.caches);
        self.demand *= factor;
        more
    }
}

/// 1 where an answer is one of the first few of an order of clusters, else 0.
pub fn is_near(answer: Option<usize>, order: &[usize], first: usize) -> f64 {
    f64::from(answer.is_some_and(|place| order.iter().take(first).any(|near| *near == place)))
}

/// The same of an answer that may name several: the part of them.
pub(super) fn near_part(answer: Named, order: &[usize], first: usize) -> f64 {
    answer.mean(|place| is_near(Some(place), order, first))
}

impl Population {
    /// By what the demand near one cluster has to grow so that all demand together is this.
    pub fn growth(&self, near: usize, whole: f64) -> f64 {
        let all: f64 = self.networks.iter().map(|n| n.demand).sum();
        let here: f64 = self.networks.iter().filter(|n| n.home == near).map(|n| n.demand).sum();
        ((whole - (all - here)) / here).max(0.0)
    }

    /// Draws them.
    pub fn new(scenario: &Scenario, chance: &mut Chance) -> Self {
        let clients = &scenario.clients;
        let sites: Vec<Coordinates> = scenario.clusters.iter().map(|cluster| cluster.at).collect();
        let capacity: f64 = scenario.clusters.iter().map(|c| c.capacity as f64).sum();
        let weights: Vec<f64> = (1..=clients.networks).map(|n| f64::from(n).powf(-clients.zipf)).collect();
        let scale = scenario.offered * capacity / weights.iter().sum::<f64>();
        let mean = scenario.offered * capacity / f64::from(clients.networks);
        let mut missing: Vec<f64> = clients.near.iter().map(|part| part * scenario.offered * capacity).collect();
        let mut population = Self { networks: Vec::new(), rows: Vec::new() };
        for demand in weights.into_iter().map(|weight| weight * scale) {
            let home = pick(&missing, chance);
            missing[home] -= demand;
            let at = around(home, &sites, chance);
            let row = population.row(by_distance(at, &sites));
            let many = chance.part() < clients.many_caches;
            let caches = if many { (8.0 * demand / mean).round().clamp(2.0, 400.0) } else { 1.0 } as u16;
            let gap = gap(scenario, chance);
            population.networks.push(Network { demand, at, row, home, caches, gap });
        }
        chance.shuffle(&mut population.networks);
        population
    }

    /// The number of an order.
    fn row(&mut self, order: Vec<usize>) -> u16 {
        let known = self.rows.iter().position(|row| *row == order);
        let row = known.unwrap_or_else(|| {
            self.rows.push(order);
            self.rows.len() - 1
        });
        u16::try_from(row).unwrap_or(u16::MAX)
    }
}

/// A cluster, by how much of its demand is missing yet.
fn pick(missing: &[f64], chance: &mut Chance) -> usize {
    let whole: f64 = missing.iter().map(|m| m.max(0.0)).sum();
    let mut draw = chance.part() * whole;
    for (place, missing) in missing.iter().enumerate() {
        draw -= missing.max(0.0);
        if draw < 0.0 {
            return place;
        }
    }
    missing.len() - 1
}

/// A point to which this cluster is nearest: the closer to it, the oftener others are near by.
fn around(home: usize, sites: &[Coordinates], chance: &mut Chance) -> Coordinates {
    let (latitude, longitude) = degrees(sites[home]);
    let mut reach = SURROUNDINGS;
    while reach > 1e-5 {
        let north = (latitude + reach * (2.0 * chance.part() - 1.0)).clamp(-85.0, 85.0);
        let east = longitude + reach * (2.0 * chance.part() - 1.0);
        let at = Coordinates::from_degrees(north, (east + 540.0) % 360.0 - 180.0).unwrap_or(sites[home]);
        if by_distance(at, sites)[0] == home {
            return at;
        }
        reach *= 0.8;
    }
    sites[home]
}

/// All clusters from the nearest on, by the haversine formula: not the way in which the server comes to it.
pub(super) fn by_distance(from: Coordinates, sites: &[Coordinates]) -> Vec<usize> {
    let distances: Vec<f64> = sites.iter().map(|site| half_chord(from, *site)).collect();
    let mut order: Vec<usize> = (0..sites.len()).collect();
    order.sort_by(|a, b| distances[*a].total_cmp(&distances[*b]));
    order
}

/// Along the great circle.
pub(super) fn kilometres(from: Coordinates, to: Coordinates) -> f64 {
    2.0 * 6371.009 * half_chord(from, to).sqrt().min(1.0).asin()
}

/// The square of half the chord, where the earth's radius is 1.
fn half_chord(from: Coordinates, to: Coordinates) -> f64 {
    let ((latitude, longitude), (north, east)) = (degrees(from), degrees(to));
    let sin = |degrees: f64| (degrees.to_radians() / 2.0).sin();
    let parallel = latitude.to_radians().cos() * north.to_radians().cos();
    sin(north - latitude).powi(2) + parallel * sin(east - longitude).powi(2)
}

fn degrees(at: Coordinates) -> (f64, f64) {
    (f64::from(at.latitude()) / 1e6, f64::from(at.longitude()) / 1e6)
}

fn gap(scenario: &Scenario, chance: &mut Chance) -> f64 {
    let ttl = Duration::as_secs_f64(&scenario.ttl);
    let (clients, draw) = (&scenario.clients, chance.part());
    if draw < clients.abusers {
        ttl * clients.abuse
    } else if draw < clients.abusers + clients.prefetchers {
        ttl * 0.9
    } else {
        ttl
    }
}
