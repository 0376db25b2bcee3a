//! Pending events of a run, in order of time.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::{clients::Population, rng::Rng, scenario::Scenario};

/// Something that is due in a run. Of those due at the same time, the order is that of the variants.
///
/// `S` is work of a simulated server. A run against a real server has none (`Infallible`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next<S> {
    /// An event of the scenario, by its index.
    Event(usize),
    /// A network takes the place of another one, by its index in [`Population::arrivals`].
    Arrival(usize),
    /// The demand follows the time of day.
    Demand,
    /// A query of a cache: index of the client network, and of its cache.
    Query(u32, u16),
    /// Work of the simulated server.
    Server(S),
    /// A sample of the figures.
    Sample,
}

/// Queue of a run, ordered by the time since its start.
#[derive(Debug)]
pub struct Queue<S>(BinaryHeap<Reverse<(Duration, Next<S>)>>);

impl<S: Ord> Queue<S> {
    /// Returns a queue with the first query of each cache, the events of the scenario and the first sample. First queries are
    /// distributed uniformly over a TTL.
    pub fn new(scenario: &Scenario, population: &Population, rng: &mut Rng) -> Self {
        let mut queue = Self(BinaryHeap::new());
        for (number, network) in (0..).zip(population.networks.iter().take(population.at_start())) {
            for cache in 0..network.caches {
                queue.push(scenario.ttl.mul_f64(rng.fraction()), Next::Query(number, cache));
            }
        }
        for (number, (at, _)) in scenario.events.iter().enumerate() {
            queue.push(*at, Next::Event(number));
        }
        let pause = scenario.length.div_f64(population.arrivals.len().max(1) as f64);
        for number in 0..population.arrivals.len() {
            queue.push(pause.mul_f64(number as f64 + 0.5), Next::Arrival(number));
        }
        if scenario.clients.swing > 0.0 {
            queue.push(scenario.demand_period(), Next::Demand);
        }
        queue.push(scenario.sample_period(), Next::Sample);
        queue
    }

    /// Adds something.
    pub fn push(&mut self, at: Duration, next: Next<S>) {
        self.0.push(Reverse((at, next)));
    }

    /// Removes and returns what is due first.
    pub fn pop(&mut self) -> Option<(Duration, Next<S>)> {
        self.0.pop().map(|Reverse(next)| next)
    }

    /// Returns the time at which something is due first.
    pub fn due(&self) -> Option<Duration> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}
