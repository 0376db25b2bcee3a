//! One step of balancing at its bounds: 200 clusters and 4,096 demands that are counted one by one.
//!
//! `cargo bench -p fairway-bench --features steering --bench balance`. The cluster of a demand is a look-up here. In the server
//! the answering code chooses it, so steps take longer there.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use divan::Bencher;
use fairway_health::balance::{Balancer, Declared, Settings};
use fairway_model::{ClusterName, Demand, Load, LoadReport, LoadSignal, Permille};

fn main() {
    divan::main();
}

const CLUSTERS: usize = 200;
const DEMANDS: usize = 4_096;
const PERIOD: Duration = Duration::from_secs(5);

fn cluster(number: usize) -> Declared {
    Declared {
        name: ClusterName::new(&format!("c{number}")).expect("a valid name"),
        capacity: 1_000,
        soft: Permille::new(800).expect("at most 1000"),
        hard: Permille::WHOLE,
        split: 1_000,
    }
}

fn settings() -> Settings {
    Settings {
        clusters: (0..CLUSTERS).map(cluster).collect(),
        period: PERIOD,
        ttl: Duration::from_secs(30),
        sampled: 1,
    }
}

/// Returns a balancer that has received demands and load reports for some periods, with the cluster of each demand.
fn balancer(start: Instant) -> (Balancer, BTreeMap<Demand, usize>, Instant) {
    let mut balancer = Balancer::new(settings(), start, None);
    let homes: BTreeMap<_, _> = (0..DEMANDS).map(|n| (Demand(n as u64), n * 31 % CLUSTERS)).collect();
    let mut now = start;
    for round in 0..8 {
        now += PERIOD;
        for (demand, home) in &homes {
            balancer.asked(*demand, *home, now);
        }
        for number in 0..CLUSTERS {
            let load = Load(400 + (number % 97) as u32 * 4);
            let cluster = cluster(number).name;
            let report = LoadReport { cluster, load, signal: LoadSignal::InFlight, sequence: round, at: now };
            balancer.report(&report, now);
        }
        balancer.step(now, &mut |_, demands| demands.iter().map(|d| homes.get(d).copied()).collect());
    }
    (balancer, homes, now)
}

/// A step after a report, and one after a cluster became unavailable.
#[divan::bench(args = [false, true], sample_count = 20, sample_size = 1)]
fn step(bencher: Bencher<'_, '_>, cluster_fails: bool) {
    bencher.with_inputs(|| balancer(Instant::now())).bench_local_values(|(mut balancer, homes, now)| {
        let now = now + PERIOD;
        if cluster_fails {
            balancer.available(3, false, now);
        }
        balancer.step(now, &mut |_, demands| demands.iter().map(|d| homes.get(d).copied()).collect());
        balancer
    });
}
