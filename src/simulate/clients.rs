//! Who asks: networks with demand by Zipf's law, each with its order of clusters and its caches.

use std::time::Duration;

use super::{chance::Chance, scenario::Scenario};

/// A client network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its demand, in the unit of the capacities.
    pub demand: f64,
    /// Its row: which order of clusters holds for it.
    pub row: u16,
    /// Its number within the row.
    pub number: u16,
    /// The cluster that is nearest.
    pub home: usize,
    /// Its caches, each of which asks for itself.
    pub caches: u16,
    /// From one query of a cache to the next.
    pub gap: f64,
}

/// All of them, and the orders they go by.
#[derive(Clone, Debug)]
pub struct Population {
    /// In no order.
    pub networks: Vec<Network>,
    /// Clusters from the nearest on, a list a row.
    pub rows: Vec<Vec<usize>>,
}

/// Orders of the farther clusters for each nearest one.
const ORDERS: usize = 6;

impl Population {
    /// Draws them.
    pub fn new(scenario: &Scenario, chance: &mut Chance) -> Self {
        let clients = &scenario.clients;
        let rows = orders(scenario.clusters.len(), chance);
        let capacity: f64 = scenario.clusters.iter().map(|c| c.capacity as f64).sum();
        let weights: Vec<f64> = (1..=clients.networks).map(|n| f64::from(n).powf(-clients.zipf)).collect();
        let scale = scenario.offered * capacity / weights.iter().sum::<f64>();
        let mean = scenario.offered * capacity / f64::from(clients.networks);
        let mut missing: Vec<f64> = clients.near.iter().map(|part| part * scenario.offered * capacity).collect();
        let mut used = vec![0u16; rows.len()];
        let mut networks: Vec<Network> = Vec::new();
        for demand in weights.into_iter().map(|weight| weight * scale) {
            let home = pick(&missing, chance);
            missing[home] -= demand;
            let row = home * (rows.len() / clients.near.len()) + chance.below(rows.len() / clients.near.len());
            let many = chance.part() < clients.many_caches;
            let caches = if many { (8.0 * demand / mean).round().clamp(2.0, 400.0) } else { 1.0 } as u16;
            let gap = gap(scenario, chance);
            networks.push(Network { demand, row: row as u16, number: used[row], home, caches, gap });
            used[row] += 1;
        }
        chance.shuffle(&mut networks);
        Self { networks, rows }
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

/// The nearest first, the others in several random orders.
fn orders(clusters: usize, chance: &mut Chance) -> Vec<Vec<usize>> {
    let order = |home: usize, chance: &mut Chance| {
        let mut others: Vec<usize> = (0..clusters).filter(|place| *place != home).collect();
        chance.shuffle(&mut others);
        std::iter::once(home).chain(others).collect::<Vec<_>>()
    };
    (0..clusters).flat_map(|home| (0..ORDERS).map(move |_| home)).map(|home| order(home, chance)).collect()
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
