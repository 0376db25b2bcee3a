//! How long packets take from networks to clusters, and tables of what was measured of that.

use fairway_model::{Coordinates, Latency, LatencyTable, LatencyTableName};

use super::{
    chance::Chance,
    clients::{Population, kilometres},
    pool_wire::TABLE,
    scenario::{Detour, Scenario},
    steering::subnet,
};

/// Round-trip times in milliseconds, a list of clusters a network.
#[derive(Debug)]
pub(super) struct Paths(Vec<Vec<f64>>);

/// What a packet needs for the least of ways, in milliseconds.
const LEAST: f64 = 2.0;
/// A round trip over 100 km of fibre, in milliseconds.
const HUNDRED_KILOMETRES: f64 = 1.0;

impl Paths {
    /// Draws them from a stream of its own, so that everything else stays as it is without them.
    pub(super) fn new(scenario: &Scenario, population: &Population, seed: u64) -> Option<Self> {
        let Detour(detour) = scenario.latencies?;
        let mut chance = Chance::new(!seed);
        let mut path = |from: Coordinates, to: Coordinates| {
            LEAST + kilometres(from, to) / 100.0 * HUNDRED_KILOMETRES * (1.0 + detour * chance.part())
        };
        let row = |network: &super::Network| scenario.clusters.iter().map(|c| path(network.at, c.at)).collect();
        Some(Self(population.networks.iter().map(row).collect()))
    }

    /// How much longer it takes to a cluster than to the fastest one.
    pub(super) fn slower(&self, network: u32, cluster: usize) -> f64 {
        let row = &self.0[network as usize];
        row[cluster] - row.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// What is measured where each measurement is off by up to a part, both ways.
    pub(super) fn measure(&self, scenario: &Scenario, off: f64, chance: &mut Chance) -> LatencyTable {
        let mut measured = |rtt: &f64| {
            let rtt = rtt * (1.0 + off * (2.0 * chance.part() - 1.0));
            Some(Latency((rtt * 1000.0).round() as u32))
        };
        let rows = (0..).zip(&self.0);
        let rows = rows.map(|(number, row)| (subnet(number), row.iter().map(&mut measured).collect())).collect();
        let clusters = scenario.clusters.iter().map(|cluster| cluster.name.clone()).collect();
        LatencyTable::new(LatencyTableName::new(TABLE).expect("letters"), clusters, rows)
    }
}
