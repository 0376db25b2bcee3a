//! The answer path alone: no socket, one thread. Prints nanoseconds a query of each kind; under callgrind, the difference of
//! two runs with different `--count` gives user instructions of `respond`.

use std::{hint::black_box, sync::Arc};

use clap::{Parser, ValueEnum};
use fairway_bench::{monotonic_ns, question};
use fairway_model::{
    Cluster, ClusterName, Desired, Health, Member, Name, Policy, Pool, PoolName, SteeredName, Verdict, Weight, ZoneSpec,
};
use fairway_zones::{
    Client, Conditions, Draw, Now, Query, ServerOptions, Tally, Transport, View, compile, find, read, text::read_zone,
    write,
};

/// Answers queries of one kind, or of every kind in turn.
#[derive(Parser)]
struct Options {
    /// Which kind; all of them by default.
    #[arg(long)]
    kind: Option<Kind>,
    /// Queries of each kind.
    #[arg(long, default_value_t = 1_000_000)]
    count: usize,
    /// Names of the zone.
    #[arg(long, default_value_t = 10_000)]
    names: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// An A record.
    Hit,
    /// The same with EDNS.
    HitEdns,
    /// No such name.
    Nxdomain,
    /// No such type.
    Nodata,
    /// A name that a wildcard stands for.
    Wildcard,
    /// A CNAME and its target.
    Cname,
    /// A delegation with glue.
    Referral,
    /// A weighted pool of three members.
    Weighted,
    /// The same with a client subnet.
    WeightedEcs,
    /// A name outside of every zone.
    Refused,
}

fn main() {
    let options = Options::parse();
    let view = view(options.names);
    let kinds = options.kind.map_or_else(|| Kind::value_variants().to_vec(), |kind| vec![kind]);
    for kind in kinds {
        let packets: Vec<Vec<u8>> =
            (0..options.names.min(1024)).map(|i| packet(kind, i * 7919 % options.names)).collect();
        let start = monotonic_ns();
        run(&view, &packets, options.count);
        let each = (monotonic_ns() - start) as f64 / options.count.max(1) as f64;
        println!("{:<14} {each:>8.1} ns", format!("{kind:?}").to_lowercase());
    }
}

fn run(view: &View, packets: &[Vec<u8>], count: usize) {
    let client = Client { address: [198, 51, 100, 7].into(), port: 4242, transport: Transport::Udp };
    let (tally, mut out) = (Tally::default(), vec![0; 2048]);
    // As a transport does it: the query of one packet is read over that of the last.
    let mut query = Query::default();
    for packet in packets.iter().cycle().take(count) {
        let packet = black_box(packet);
        read(packet, &mut query);
        find(&view.snapshot, packet, &mut query);
        black_box(write(view, &client, packet, &query, Now(0), Draw(0), &tally, &mut out));
    }
}

fn packet(kind: Kind, number: usize) -> Vec<u8> {
    let (name, rtype) = match kind {
        Kind::Hit | Kind::HitEdns => (format!("n{number:07}.bench.test"), 1),
        Kind::Nxdomain => (format!("nx{number:06}.bench.test"), 1),
        Kind::Nodata => (format!("n{number:07}.bench.test"), 16),
        Kind::Wildcard => (format!("x{number:07}.wild.bench.test"), 1),
        Kind::Cname => ("alias.bench.test".to_owned(), 1),
        Kind::Referral => (format!("x{number:07}.sub.bench.test"), 1),
        Kind::Weighted | Kind::WeightedEcs => (format!("s{number:07}.bench.test"), 1),
        Kind::Refused => (format!("n{number:07}.elsewhere.test"), 1),
    };
    let mut packet = question(&name, rtype);
    let number = number as u32;
    match kind {
        Kind::HitEdns => packet.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]),
        Kind::WeightedEcs => {
            let [_, a, b, c] = number.to_be_bytes();
            packet.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, a, b, c]);
        }
        _ => return packet,
    }
    packet[11] = 1;
    packet
}

fn view(names: usize) -> View {
    let origin: Name = "bench.test".parse().expect("a valid name");
    let mut text = String::from(
        "$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 127.0.0.1\n*.wild IN A 127.0.0.2\nalias IN CNAME \
         n0000001\nsub IN NS ns.sub\nns.sub IN A 127.0.0.3\n",
    );
    for i in 0..names {
        text.push_str(&format!("n{i:07} IN A 10.{}.{}.{}\n", i >> 16 & 255, i >> 8 & 255, i & 255));
    }
    let (zone, _) = read_zone(&origin, "bench.zone", text.as_bytes(), &mut |_| Err("nothing is included".to_owned()));
    let compiled = compile(&desired(&origin, names), &[zone], &ServerOptions::default(), None);
    let (snapshot, _) = compiled.expect("the workload is sound");
    let conditions = Conditions::new(&snapshot, |_| Health::new(Verdict::Up, None));
    View { snapshot: Arc::new(snapshot), conditions: Arc::new(conditions) }
}

fn desired(origin: &Name, names: usize) -> Desired {
    let mut desired = Desired {
        zones: [(origin.clone(), ZoneSpec { name: origin.clone(), monitor: None })].into(),
        ..Desired::default()
    };
    let weights = [("t1", 70), ("t2", 20), ("t3", 10)];
    let named = |text: &str| ClusterName::new(text).expect("a valid literal");
    for (last, (name, _)) in (1..).zip(weights) {
        let addresses = vec![[127, 0, 1, last].into()];
        let cluster =
            Cluster { name: named(name), addresses, dns_name: None, location: None, capacity: None, services: vec![] };
        desired.clusters.insert(cluster.name.clone(), cluster);
    }
    for i in 0..names {
        let mut pool = Pool::new(PoolName::new(&format!("p{i}")).expect("a valid name"), Policy::Weighted);
        pool.members =
            weights.map(|(name, weight)| Member { weight: Weight(weight), ..Member::new(named(name)) }).into();
        let name: Name = format!("s{i:07}.bench.test").parse().expect("a valid name");
        desired.names.insert(name.clone(), SteeredName { name, pool: pool.name.clone(), ttl: None });
        desired.pools.insert(pool.name.clone(), pool);
    }
    desired
}
