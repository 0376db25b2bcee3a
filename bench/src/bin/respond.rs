//! The answer path without sockets, in one thread. Prints the nanoseconds per query of each kind. Under callgrind, the difference of two
//! runs with different `--count` gives the user instructions of `respond`.

use std::hint::black_box;

use clap::{Parser, ValueEnum};
use fairway_bench::{
    answers::{CLIENT, Kind, packet, state_for},
    monotonic_ns,
};
use fairway_zones::{Draw, Now, Outcome, Query, Request, ServingState, Tally, find, read, respond, write};

/// Answers queries of one kind, or of every kind one after the other.
#[derive(Parser)]
struct Options {
    /// Kind of answer; default all.
    #[arg(long)]
    kind: Option<Kind>,
    /// Number of queries of each kind.
    #[arg(long, default_value_t = 1_000_000)]
    count: usize,
    /// Number of names in the zone.
    #[arg(long, default_value_t = 10_000)]
    names: usize,
}

fn main() {
    let options = Options::parse();
    let kinds = options.kind.map_or_else(|| Kind::value_variants().to_vec(), |kind| vec![kind]);
    for kind in kinds {
        let serving = state_for(kind, options.names);
        let packets: Vec<Vec<u8>> =
            (0..options.names.min(1024)).map(|i| packet(kind, i * 7919 % options.names)).collect();
        check(&serving, kind, &packets[0]);
        let start = monotonic_ns();
        run(&serving, &packets, options.count);
        let each = (monotonic_ns() - start) as f64 / options.count.max(1) as f64;
        println!("{:<14} {each:>8.1} ns", format!("{kind:?}").to_lowercase());
    }
}

/// Asserts that the answer is of the measured kind.
fn check(serving: &ServingState, kind: Kind, packet: &[u8]) {
    let mut out = vec![0; 2048];
    let outcome =
        respond(serving, &Request { client: &CLIENT, packet, now: Now(0), draw: Draw(0) }, &Tally::default(), &mut out);
    assert!(matches!(outcome, Outcome::Reply(12..)), "{kind:?}: no reply");
    let (rcode, answers, authority) = (out[3] & 15, out[7], out[9]);
    let expected = match kind {
        Kind::Hit | Kind::HitEdns | Kind::Wildcard | Kind::Weighted | Kind::WeightedEcs => (0, 1, 0),
        Kind::Nearest | Kind::NearestEcs => (0, 1, 0),
        Kind::Nxdomain => (3, 0, 1),
        Kind::Nodata => (0, 0, 1),
        Kind::Cname => (0, 2, 0),
        Kind::Chain => (0, 4, 0),
        Kind::Referral => (0, 0, 1),
        Kind::Refused => (5, 0, 0),
    };
    assert_eq!((rcode, answers, authority), expected, "{kind:?}: rcode, answers, authority");
}

fn run(serving: &ServingState, packets: &[Vec<u8>], count: usize) {
    let (tally, mut out) = (Tally::default(), vec![0; 2048]);
    // As in a transport, one query is reused for all packets.
    let mut query = Query::default();
    for packet in packets.iter().cycle().take(count) {
        let packet = black_box(packet);
        read(&serving.snapshot, packet, &mut query);
        find(&serving.snapshot, packet, &mut query);
        black_box(write(
            serving,
            &Request { client: &CLIENT, packet, now: Now(0), draw: Draw(0) },
            &query,
            &tally,
            &mut out,
        ));
    }
}
