//! Round-trip times from client networks to clusters, and latency tables with measurement errors.

use fairway_model::{Coordinates, Latency, LatencyTable, LatencyTableName};

use super::{
    clients::{Population, kilometres},
    pool_wire::TABLE,
    rng::Rng,
    scenario::Scenario,
    steering::subnet,
};

/// Round-trip times in milliseconds, by network and cluster.
#[derive(Debug)]
pub(super) struct Paths(Vec<Vec<f64>>);

/// Round-trip time over the shortest path, in milliseconds.
const LEAST: f64 = 2.0;
/// Round-trip time over 100 km of fibre, in milliseconds: light takes 5 µs a kilometre, twice.
const HUNDRED_KILOMETRES: f64 = 1.0;

impl Paths {
    /// Draws the times. Returns `None` if the scenario has no latencies. The random numbers come from a sequence of their own, so that
    /// everything else is the same as without latencies.
    pub(super) fn new(scenario: &Scenario, population: &Population, seed: u64) -> Option<Self> {
        let detour = scenario.detour?;
        let mut rng = Rng::new(!seed);
        let mut path = |from: Coordinates, to: Coordinates| {
            LEAST + kilometres(from, to) / 100.0 * HUNDRED_KILOMETRES * (1.0 + detour * rng.fraction())
        };
        let row = |network: &super::ClientNetwork| scenario.clusters.iter().map(|c| path(network.at, c.at)).collect();
        Some(Self(population.networks.iter().map(row).collect()))
    }

    /// Returns the milliseconds by which a cluster is slower than the fastest one.
    pub(super) fn slower(&self, network: u32, cluster: usize) -> f64 {
        let row = &self.0[network as usize];
        row[cluster] - row.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns a table in which each time has a relative error of at most `error` in either direction.
    pub(super) fn measure(&self, scenario: &Scenario, error: f64, rng: &mut Rng) -> LatencyTable {
        let mut measured = |rtt: &f64| {
            let rtt = rtt * rng.error(error);
            Some(Latency((rtt * 1000.0).round() as u32))
        };
        let rows = (0..).zip(&self.0);
        let rows = rows.map(|(number, row)| (subnet(number), row.iter().map(&mut measured).collect())).collect();
        let clusters = scenario.clusters.iter().map(|cluster| cluster.name.clone()).collect();
        LatencyTable::new(LatencyTableName::new(TABLE).expect("letters"), clusters, rows)
    }
}
