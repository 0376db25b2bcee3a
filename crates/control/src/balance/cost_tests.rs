//! What balancing costs at its bound: printed, not judged.
//!
//! `cargo test --release -p fairway --lib control::balance::cost -- --ignored --nocapture`

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::load::LoadNews;
use fairway_model::{
    Cluster, ClusterName, DesiredState, Health, HealthStatus, Load, LoadReport, LoadSignal, Member, Name, Network,
    Policy, Pool, PoolName, SteeredName, ZoneSpec,
};
use fairway_zonefile::read_zone;
use fairway_zones::{Asked, RuntimeState, ServerOptions, Snapshot, TargetIndex, compile};

use super::*;

const CLUSTERS: usize = 200;
const POOLS: usize = 10_000;
const DEMANDS: usize = 4_096;

fn cluster(place: usize) -> ClusterName {
    ClusterName::new(&format!("c{place}")).unwrap()
}

/// Each pool has four clusters of its own choice.
fn desired() -> DesiredState {
    let apex: Name = "gslb.example".parse().unwrap();
    let mut desired = DesiredState::default();
    desired.zones.insert(apex.clone(), ZoneSpec::new(apex));
    for place in 0..CLUSTERS {
        let addresses = vec![Ipv4Addr::from_bits(0xc612_0000 | place as u32).into()];
        let (name, capacity) = (cluster(place), Some(1000));
        let made =
            Cluster { name: name.clone(), addresses, dns_name: None, location: None, capacity, services: vec![] };
        desired.clusters.insert(name, made);
    }
    for number in 0..POOLS {
        let name = PoolName::new(&format!("p{number}")).unwrap();
        let mut pool = Pool::new(name.clone(), Policy { load: true, ..Policy::WEIGHTED });
        pool.members = (0..4).map(|m| Member::new(cluster((number * 7 + m * 31) % CLUSTERS))).collect();
        let steered: Name = format!("n{number}.gslb.example").parse().unwrap();
        desired.names.insert(steered.clone(), SteeredName { name: steered, pool: name.clone(), ttl: None });
        desired.pools.insert(name, pool);
    }
    desired
}

fn snapshot(desired: &DesiredState) -> Snapshot {
    let apex: Name = "gslb.example".parse().unwrap();
    let text = "$ORIGIN gslb.example.\n$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\n";
    let (zone, _) = read_zone(&apex, "zone", text.as_bytes(), &mut |_| Err("nothing is included".into()));
    compile(desired, &[zone], &ServerOptions::default(), None).unwrap().0
}

/// Everybody asks once: each demand of one pool, sent where the decision says; what that makes for each cluster.
fn ask(balance: &mut Balance, snapshot: &Snapshot, runtime: &RuntimeState, now: Instant) -> BTreeMap<ClusterName, u32> {
    let mut loads = BTreeMap::new();
    for number in 0..DEMANDS {
        let pool = &snapshot.steer_pools()[number * 2 % POOLS];
        let network = Network::of(Ipv4Addr::from_bits((number as u32) << 12).into(), 24);
        let client = pool.client_net(network.address());
        let route = pool.route(pool.usual_kind(), runtime, client, fairway_zones::Draw(0)).unwrap();
        *loads.entry(route.cluster.clone()).or_default() += 1 + (number % 97) as u32;
        let member = pool.clusters().position(|name| name == route.cluster).unwrap() as u8;
        balance.asked(&Asked { pool: pool.key(), client: network, member }, snapshot, now);
    }
    loads
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and says nothing of right and wrong"]
async fn two_hundred_clusters_and_ten_thousand_pools() {
    let desired = desired();
    let snapshot = Arc::new(snapshot(&desired));
    let up = Health::new(HealthStatus::Up, None);
    let mut runtime = Arc::new(RuntimeState::new(&snapshot, |_| up));
    let (start, mut balance) = (Instant::now(), Balance { told: true, ..Balance::default() });
    balance.follow(&desired, &snapshot, start);
    println!("follow a configuration: {:?}", start.elapsed());
    let mut steps: Vec<Duration> = vec![];
    for round in 0..24u64 {
        let now = start + Duration::from_secs(5 * round);
        let loads = ask(&mut balance, &snapshot, &runtime, now);
        for (cluster, load) in loads {
            let report =
                LoadReport { cluster, load: Load(load), signal: LoadSignal::InFlight, sequence: round, at: now };
            balance.hear(LoadNews { report, period: Duration::from_secs(5), exhausted: false }, now);
        }
        let begun = Instant::now();
        let flipped = runtime.with(&snapshot, &[(TargetIndex(3), Health::new(HealthStatus::Down, None))]);
        let next = Arc::new(if round == 20 { flipped } else { (*runtime).clone() });
        let changed = balance.look(&snapshot, &next, now);
        let looked = begun.elapsed();
        runtime = changed.map_or(next, Arc::new);
        let begun = Instant::now();
        balance.rest().await;
        steps.push(begun.elapsed());
        let begun = Instant::now();
        if let Some(shared) = balance.share(&snapshot, &runtime) {
            runtime = Arc::new(shared);
        }
        let (step, share) = (steps[steps.len() - 1], begun.elapsed());
        println!("round {round}: on the task that flips wait for {looked:?} and {share:?}; step beside it {step:?}");
        let begun = Instant::now();
        balance.look(&snapshot, &runtime, now);
        println!("         a look where nothing is due: {:?}", begun.elapsed());
    }
}
