//! Queries of an attacker: random client subnets, which cause no load.

use std::time::Duration;

use fairway_model::{Demand, SourceProof};
use fairway_steering::evidence::{Query, Source};

use super::{clients::Population, rng::Rng, scenario::FloodSpec};

/// A flood of queries.
#[derive(Debug)]
pub(super) struct Flood {
    /// Client networks that its subnets are near to: those near one cluster.
    near: Vec<u32>,
    /// Sources with a proof; with none, each query has a forged source of its own.
    sources: u32,
    /// Time between two queries.
    pub(super) pause: Duration,
    rng: Rng,
}

impl Flood {
    /// Returns the flood; `None` without queries, or if no client is near its cluster.
    pub(super) fn new(spec: FloodSpec, population: &Population, rng: Rng) -> Option<Self> {
        let FloodSpec { near, per_second, sources } = spec;
        let networks = (0..).zip(&population.networks).filter(|(_, network)| network.home == near);
        let near: Vec<u32> = networks.map(|(number, _)| number).collect();
        let is_flood = per_second > 0 && !near.is_empty();
        is_flood.then(|| Self { near, sources, pause: Duration::from_secs(1) / per_second, rng })
    }

    /// Draws a query. Returns a client network that its subnet is near to, and the query as evidence of demand.
    pub(super) fn draw(&mut self) -> (u32, Query) {
        let network = self.near[self.rng.below(self.near.len())];
        let (source, proof) = match self.sources {
            0 => (Source::of(std::net::Ipv4Addr::from_bits(self.rng.bits() as u32).into()), SourceProof::None),
            // Addresses that no client network has: 240.0.0.0/4 is reserved (RFC 1112).
            count => {
                let source = 0xf000_0000 + self.rng.below(count as usize) as u32;
                (Source::of(std::net::Ipv4Addr::from_bits(source).into()), SourceProof::Cookie)
            }
        };
        (network, Query { source, proof, demand: Demand(self.rng.bits()) })
    }
}
