//! Demand at the gateways. It follows from the last answer of each cache.

use std::time::Duration;

use super::{
    answer::Answer,
    clients::{Population, near_part},
    paths::Paths,
    recording::Sample,
    scenario::Scenario,
};

/// Last answer of each cache, and the demand that each gateway carries because of it. Demand is in the unit of the capacities.
#[derive(Debug)]
pub struct Traffic {
    population: Population,
    /// By network and cache.
    answers: Vec<Vec<Answer>>,
    /// True for the clusters whose gateway serves.
    serving: Vec<bool>,
    /// Demand at each gateway.
    carried: Vec<f64>,
    /// Load of each gateway that no client here causes.
    elsewhere: Vec<f64>,
    /// Demand at the nearest cluster of its clients.
    near: f64,
    /// Demand at the nearest cluster or the next one.
    nearby: f64,
    paths: Option<Paths>,
    /// Sum over the demand of the milliseconds above the fastest cluster.
    slower: f64,
}

impl Traffic {
    /// Adds demand of a network's clients with this answer. A negative demand is removed.
    fn add(&mut self, network: u32, answer: Answer, demand: f64) {
        self.carry(answer, demand);
        let client = &self.population.networks[network as usize];
        let order = &self.population.orders[usize::from(client.order)];
        self.near += demand * near_part(answer, order, 1);
        self.nearby += demand * near_part(answer, order, 2);
        if let Some(paths) = &self.paths {
            self.slower += demand * answer.mean(|cluster| paths.slower(network, cluster));
        }
    }

    /// Adds the demand to the gateways that clients with this answer reach, evenly.
    fn carry(&mut self, answer: Answer, demand: f64) {
        let reached = answer.reached(|cluster| self.serving[cluster]);
        for cluster in reached.iter() {
            self.carried[cluster] += demand / reached.len() as f64;
        }
    }

    /// Returns the traffic of clients that have no answer yet, with every gateway serving.
    pub fn new(population: Population, clusters: usize) -> Self {
        let caches = |network: &super::ClientNetwork| vec![Answer::default(); usize::from(network.caches)];
        Self {
            answers: population.networks.iter().map(caches).collect(),
            serving: vec![true; clusters],
            carried: vec![0.0; clusters],
            elsewhere: vec![0.0; clusters],
            near: 0.0,
            nearby: 0.0,
            paths: None,
            slower: 0.0,
            population,
        }
    }

    /// Also measures how much slower than by the fastest cluster the demand is answered.
    pub(super) fn with_paths(self, paths: Option<Paths>) -> Self {
        Self { paths, ..self }
    }

    /// Returns the clients.
    pub fn population(&self) -> &Population {
        &self.population
    }

    pub(super) fn paths(&self) -> Option<&Paths> {
        self.paths.as_ref()
    }

    /// Returns the demand that each gateway carries.
    pub fn carried(&self) -> &[f64] {
        &self.carried
    }

    /// Sets the load of a gateway that no client here causes.
    pub fn set_elsewhere(&mut self, cluster: usize, load: f64) {
        self.elsewhere[cluster] = load;
    }

    /// Returns the load of each gateway that no client here causes.
    pub(super) fn elsewhere(&self) -> &[f64] {
        &self.elsewhere
    }

    /// Returns the load of each gateway, as it reports it: the demand that it carries, and the load from elsewhere.
    pub fn loads(&self) -> impl Iterator<Item = f64> {
        self.carried.iter().zip(&self.elsewhere).map(|(carried, elsewhere)| carried.max(0.0) + elsewhere)
    }

    /// True if the gateway of a cluster serves.
    pub fn serves(&self, cluster: usize) -> bool {
        self.serving[cluster]
    }

    /// Moves the demand of a cache to its new answer. Returns the previous answer.
    pub fn answer(&mut self, network: u32, cache: u16, answer: Answer) -> Answer {
        let previous = std::mem::replace(&mut self.answers[network as usize][usize::from(cache)], answer);
        if previous == answer {
            return previous;
        }
        let client = &self.population.networks[network as usize];
        let demand = client.demand / f64::from(client.caches);
        self.add(network, previous, -demand);
        self.add(network, answer, demand);
        previous
    }

    /// Starts or stops a gateway. Clients with several addresses move to or from the others.
    pub fn set_serving(&mut self, cluster: usize, serves: bool) {
        let mut affected: Vec<(Answer, f64)> = Vec::new();
        for (network, answers) in self.population.networks.iter().zip(&self.answers) {
            let demand = network.demand / f64::from(network.caches);
            let has_others = |answer: &&Answer| answer.len() > 1 && answer.iter().any(|named| named == cluster);
            affected.extend(answers.iter().filter(has_others).map(|answer| (*answer, demand)));
        }
        for (answer, demand) in &affected {
            self.carry(*answer, -demand);
        }
        self.serving[cluster] = serves;
        for (answer, demand) in &affected {
            self.carry(*answer, *demand);
        }
    }

    /// Scales the demand of clients nearest to a cluster, so that all demand together is `total`.
    pub fn set_demand(&mut self, cluster: usize, total: f64) {
        self.grow(cluster, self.population.growth(cluster, total));
    }

    fn grow(&mut self, cluster: usize, factor: f64) {
        for network in 0..self.population.networks.len() {
            let client = &mut self.population.networks[network];
            if client.home != cluster {
                continue;
            }
            let added = client.grow(factor);
            for cache in 0..self.answers[network].len() {
                self.add(network as u32, self.answers[network][cache], added);
            }
        }
    }

    /// Lets a network take the place of another one, with its demand. Returns the new one and the number of its caches, which have no
    /// answer yet; the old one has no demand any more and is not to query again.
    pub fn replace(&mut self, arrival: usize) -> (u32, u16) {
        let (old, new) = self.population.arrivals[arrival];
        let client = &mut self.population.networks[old as usize];
        let demand = std::mem::take(&mut client.demand);
        let caches = client.caches;
        for cache in 0..usize::from(caches) {
            let answer = std::mem::take(&mut self.answers[old as usize][cache]);
            self.add(old, answer, -demand / f64::from(caches));
        }
        self.population.networks[new as usize].demand = demand;
        (new, caches)
    }

    /// True if the network has clients now.
    pub fn is_present(&self, network: u32) -> bool {
        self.population.networks[network as usize].demand > 0.0
    }

    /// Lets the demand follow the time of day. Returns all demand.
    pub fn follow_demand(&mut self, before: Duration, now: Duration) -> f64 {
        for cluster in 0..self.carried.len() {
            self.grow(cluster, self.population.growth_between(cluster, before, now));
        }
        self.population.demand()
    }

    /// Returns the present figures.
    pub fn sample(&self, scenario: &Scenario, at: Duration) -> Sample {
        let Self { serving, carried, .. } = self;
        let load = |cluster: usize| match serving[cluster] {
            true => (carried[cluster] + self.elsewhere[cluster]) / scenario.clusters[cluster].capacity as f64,
            false => 0.0,
        };
        let dead = (0..serving.len()).filter(|cluster| !serving[*cluster]);
        Sample {
            at,
            loads: (0..serving.len()).map(load).collect(),
            near: self.near,
            nearby: self.nearby,
            lost: dead.map(|cluster| carried[cluster].max(0.0)).sum(),
            slower: self.slower,
        }
    }
}
