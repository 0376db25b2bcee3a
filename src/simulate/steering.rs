//! STAND-IN until the real decision is there.

use fairway_model::{Acceptance, ClusterName, Demand, Shares};

use super::{clients::Population, scenario::Scenario};

pub(super) struct Steering {
    rows: Vec<Vec<usize>>,
    seeds: Vec<(u64, u16)>,
    keys: Vec<u64>,
    names: Vec<ClusterName>,
    index: std::collections::HashMap<Demand, u32>,
}

pub(super) struct Held {
    up: Vec<bool>,
    acceptance: Vec<Acceptance>,
    pins: std::collections::HashMap<Demand, usize>,
}

fn mix(mut x: u64) -> u64 {
    x ^= x >> 27;
    x = x.wrapping_mul(0x3c79_ac49_2ba7_b653);
    x ^= x >> 33;
    x = x.wrapping_mul(0x1c69_b3f7_4ac4_ae35);
    x ^ x >> 27
}

impl Steering {
    pub(super) fn new(scenario: &Scenario, population: &Population) -> Self {
        let seeds: Vec<_> =
            population.networks.iter().map(|n| (mix(u64::from(n.row) << 16 | u64::from(n.number)), n.row)).collect();
        let mut index = std::collections::HashMap::new();
        for (i, (seed, _)) in seeds.iter().enumerate() {
            index.insert(Demand(mix(seed ^ 77)), i as u32);
        }
        Self {
            rows: population.rows.clone(),
            seeds,
            keys: (0..scenario.clusters.len()).map(|c| mix(c as u64 + 1000)).collect(),
            names: scenario.clusters.iter().map(|c| c.name.clone()).collect(),
            index,
        }
    }
    pub(super) fn hold(&self, shares: &Shares, up: &[bool]) -> Held {
        let acceptance = self.names.iter().map(|n| shares.acceptance.get(n).copied().unwrap_or_default()).collect();
        let place = |name: &ClusterName| self.names.iter().position(|n| n == name);
        let pins = shares.pins.iter().filter_map(|(d, c)| Some((*d, place(c)?))).collect();
        Held { up: up.to_vec(), acceptance, pins }
    }
    pub(super) fn demand(&self, network: u32) -> Demand {
        Demand(mix(self.seeds[network as usize].0 ^ 77))
    }
    pub(super) fn network(&self, demand: Demand) -> Option<u32> {
        self.index.get(&demand).copied()
    }
    pub(super) fn answer(&self, network: u32, held: &Held) -> Option<usize> {
        let (seed, row) = self.seeds[network as usize];
        if let Some(pin) = held.pins.get(&Demand(mix(seed ^ 77)))
            && held.up[*pin]
        {
            return Some(*pin);
        }
        let order = &self.rows[usize::from(row)];
        let candidates = order.iter().filter(|c| held.up[**c]).count();
        if candidates == 0 {
            return None;
        }
        let mut near = true;
        for c in order.iter().filter(|c| held.up[**c]) {
            if candidates == 1 {
                return Some(*c);
            }
            let accept = if near { held.acceptance[*c].near } else { held.acceptance[*c].spill };
            near = false;
            if accept == u16::MAX || (mix(seed ^ self.keys[*c] ^ 5) >> 48) < u64::from(accept) {
                return Some(*c);
            }
        }
        let any = order.iter().any(|c| held.up[*c] && held.acceptance[*c].near > 0);
        let score = |c: usize| {
            let weight = if any { f64::from(held.acceptance[c].near) } else { 1.0 };
            let u = ((mix(seed ^ self.keys[c]) >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            if weight == 0.0 { f64::INFINITY } else { -u.ln() / weight }
        };
        order.iter().copied().filter(|c| held.up[*c]).min_by(|a, b| score(*a).total_cmp(&score(*b)))
    }
}
