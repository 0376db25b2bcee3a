//! Load control by a table of slots ([`fairway_steering::controller`]), which the server does not use yet, in place of that of the server.

use std::time::Instant;

use fairway_model::{Demand, LoadReport, mix};
use fairway_steering::{
    classes::{Classes, Ranking},
    controller::{Cluster, Controller, SLOTS, Settings},
};

use super::{
    clients::Population,
    scenario::{Scenario, SimulatedCluster},
};

/// The controller, and the location class of each order of clusters.
pub(super) struct Slots {
    pub(super) controller: Controller,
    classes: Vec<usize>,
    capacities: Vec<f64>,
}

impl Slots {
    pub(super) fn new(scenario: &Scenario, population: &Population, start: Instant) -> Self {
        let mut weights = vec![0.0; population.orders.len()];
        population.networks.iter().for_each(|network| weights[usize::from(network.order)] += 1.0);
        let ranking = |(order, weight): (&Vec<usize>, &f64)| {
            let mut costs = vec![0.0; scenario.clusters.len()];
            order.iter().enumerate().for_each(|(rank, cluster)| costs[*cluster] = rank as f64);
            Ranking { costs, weight: *weight }
        };
        let rankings: Vec<Ranking> = population.orders.iter().zip(&weights).map(ranking).collect();
        let Classes { costs, of } = Classes::of(&rankings);
        let capacities: Vec<f64> = scenario.clusters.iter().map(|cluster| cluster.capacity as f64).collect();
        let cluster = |(capacity, declared): (&f64, &SimulatedCluster)| Cluster {
            capacity: *capacity,
            target: capacity * f64::from(declared.soft.thousandths()) / 1_000.0,
            weight: *capacity,
        };
        let clusters = capacities.iter().zip(&scenario.clusters).map(cluster).collect();
        let settings = Settings { clusters, costs, period: scenario.reports.every, ttl: scenario.ttl };
        Self { controller: Controller::new(settings, start), classes: of, capacities }
    }

    /// Returns the cluster that a client network is answered with.
    pub(super) fn cluster(&self, order: u16, demand: Demand) -> usize {
        self.controller.cluster(self.classes[usize::from(order)], slot(demand))
    }

    pub(super) fn count_query(&mut self, order: u16, demand: Demand, at: Instant) {
        self.controller.count_query(self.classes[usize::from(order)], slot(demand), at);
    }

    pub(super) fn add_report(&mut self, cluster: usize, report: &LoadReport, now: Instant) {
        let load = f64::from(report.load.0) / 1_000.0 * self.capacities[cluster];
        self.controller.add_report(cluster, load, now);
    }
}

/// Returns the slot of a client network.
fn slot(demand: Demand) -> usize {
    mix(demand.0) as usize % SLOTS
}
