//! One step of load control at its bounds: 200 clusters and 64 location classes, which are 16,384 slots.
//!
//! `cargo bench -p fairway-bench --features steering --bench balance`.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use divan::Bencher;
use fairway_model::{Backend, ClusterCost, Demand, Load, LoadReport, LoadSignal, Permille, SourceProof};
use fairway_steering::{
    balancer::{Balancer, Counted, Declared, Group},
    evidence::{Query, Source},
};

fn main() {
    divan::main();
}

const CLUSTERS: usize = 200;
const CLASSES: usize = 64;
const PERIOD: Duration = Duration::from_secs(5);

fn name(number: usize) -> Backend {
    format!("c{number:03}").parse().expect("a valid name")
}

fn group() -> Group {
    let cluster = |number: usize| Declared {
        name: name(number),
        capacity: 1_000,
        target: Permille::new(800).expect("at most 1000"),
        limit: Permille::WHOLE,
        is_weighed: false,
    };
    let cost = |rank: usize| Some(ClusterCost { cost: rank as u32 * 1_000, weight: 1_000 / CLUSTERS as u32 });
    let costs = |class: usize| (0..CLUSTERS).map(move |number| cost((number + 31 * class) % CLUSTERS));
    Group {
        clusters: (0..CLUSTERS).map(cluster).collect(),
        costs: (0..CLASSES).map(|class| costs(class).collect()).collect(),
        period: PERIOD,
        ttl: Duration::from_secs(30),
    }
}

/// Returns load control that has received queries and reports for six TTLs: in each, twice as many client networks become known.
fn balancer(start: Instant) -> (Balancer, Instant) {
    let mut balancer = Balancer::new(vec![group()], start, None);
    let mut now = start;
    for round in 0..36 {
        now += PERIOD;
        for class in 0..CLASSES {
            for slot in 0..Demand::SLOTS {
                let client = (class * Demand::SLOTS + slot) as u32;
                let source = Source::of(Ipv4Addr::from_bits(client).into());
                let query = Query { source, proof: SourceProof::Cookie, demand: Demand(client.into()) };
                balancer.count_query(&Counted { class, query, cluster: &name(class), at: now });
            }
        }
        for number in 0..CLUSTERS {
            let load = Load(400 + (number % 97) as u32 * 4);
            let report =
                LoadReport { backend: name(number), load, signal: LoadSignal::InFlight, sequence: round, at: now };
            balancer.add_report(&report, now);
        }
        balancer.step(now);
    }
    (balancer, now)
}

/// A step after a report, and one after a cluster became unavailable.
#[divan::bench(args = [false, true], sample_count = 10, sample_size = 1)]
fn step(bencher: Bencher<'_, '_>, cluster_fails: bool) {
    bencher.with_inputs(|| balancer(Instant::now())).bench_local_values(|(mut balancer, now)| {
        let now = now + PERIOD;
        if cluster_fails {
            balancer.set_available(&name(3), false, now);
        }
        balancer.step(now);
        balancer
    });
}
