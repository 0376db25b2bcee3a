//! The parts of the answer path without sockets: `cargo bench -p fairway-bench`. For figures that are comparable between machines, use the
//! tripwire and `bench/run`.

use std::hint::black_box;

use divan::{Bencher, counter::ItemsCount};
use fairway_bench::answers::{CLIENT, Kind, compiled, packet, serving, with_pool, workload};
use fairway_model::Policy;
use fairway_zones::{Draw, Now, Query, Request, Snapshot, Tally, find, read, steer, write};

fn main() {
    divan::main();
}

/// Queries per round: enough that reading the clock does not matter, few enough to stay in the L1 cache.
const QUERIES: usize = 256;

/// Returns queries scattered over the names, so that successive ones are not neighbours in memory.
fn packets(kind: Kind, names: usize) -> Vec<Vec<u8>> {
    (0..QUERIES).map(|i| packet(kind, i * 7919 % names)).collect()
}

fn parsed(snapshot: &Snapshot, packets: &[Vec<u8>]) -> Vec<Query> {
    let each = packets.iter().map(|packet| {
        let mut query = Query::default();
        read(snapshot, packet, &mut query);
        query
    });
    each.collect()
}

#[divan::bench(args = [Kind::Hit, Kind::HitEdns, Kind::WeightedEcs])]
fn parse(bencher: Bencher<'_, '_>, kind: &Kind) {
    let (serving, packets, mut query) = (serving(10_000), packets(*kind, 10_000), Query::default());
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        for packet in &packets {
            read(&serving.snapshot, black_box(packet), &mut query);
            black_box(&query);
        }
    });
}

#[divan::bench(args = [1_000, 100_000])]
fn lookup(bencher: Bencher<'_, '_>, names: usize) {
    let serving = serving(names);
    let packets = packets(Kind::Hit, names);
    let mut queries = parsed(&serving.snapshot, &packets);
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        for (packet, query) in packets.iter().zip(&mut queries) {
            find(black_box(&serving.snapshot), packet, query);
        }
    });
}

#[divan::bench(args = [Kind::Hit, Kind::Nxdomain, Kind::Wildcard, Kind::Chain, Kind::Referral, Kind::Weighted])]
fn answer(bencher: Bencher<'_, '_>, kind: &Kind) {
    let (serving, tally, mut out) = (serving(10_000), Tally::default(), vec![0; 2048]);
    let packets = packets(*kind, 10_000);
    let mut queries = parsed(&serving.snapshot, &packets);
    for (packet, query) in packets.iter().zip(&mut queries) {
        find(&serving.snapshot, packet, query);
    }
    bencher.counter(ItemsCount::new(QUERIES)).bench_local(|| {
        for (packet, query) in packets.iter().zip(&queries) {
            black_box(write(
                &serving,
                &Request { client: &CLIENT, packet, now: Now(0), draw: Draw(0) },
                query,
                &tally,
                &mut out,
            ));
        }
    });
}

/// The choice of a member, with policy, number of members, and number of clusters in an answer.
#[divan::bench(args = [
    (Policy::FAILOVER, 3, 1), (Policy::WEIGHTED, 1, 1), (Policy::WEIGHTED, 3, 1), (Policy::WEIGHTED, 16, 1),
    (Policy::WEIGHTED, 255, 1), (Policy::WEIGHTED, 16, 2),
])]
fn choice(bencher: Bencher<'_, '_>, (policy, members, answers): &(Policy, u8, u8)) {
    let serving = with_pool(policy.clone(), *members, *answers);
    let pool = &serving.snapshot.steer_pools()[0];
    let clients: Vec<_> = (0..=u8::MAX).map(|i| pool.client_net([198, 51, i, 7].into())).collect();
    bencher.counter(ItemsCount::new(clients.len())).bench_local(|| {
        for client in &clients {
            black_box(pool.choose(steer::Kind::V4, &serving.runtime, black_box(*client), Draw(0), &mut ()));
        }
    });
}

#[divan::bench(args = [1_000, 10_000], sample_count = 10, sample_size = 1)]
fn compile(bencher: Bencher<'_, '_>, names: usize) {
    let (desired, zone) = workload(names);
    bencher.counter(ItemsCount::new(names * 2)).bench_local(|| compiled(black_box(&desired), black_box(&zone)));
}
