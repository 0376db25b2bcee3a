//! The answer path without sockets: a serving state with static and steered names, and a query for each kind of answer.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use clap::ValueEnum;
use fairway_model::{
    Bias, ClientLocation, ClientMap, Cluster, ClusterLocation, ClusterName, Coordinates, Demand, DesiredState, Health,
    HealthStatus, MapLayer, MapName, Member, Name, Network, Policy, Pool, PoolName, Rank, Shares, SlotTable,
    SteeredName, Weight, ZoneSpec,
};
use fairway_zonefile::{ZoneData, read_zone};
use fairway_zones::{
    Client, RuntimeState, ServerOptions, ServingState, Snapshot, Transport, compile, steer::LoadGroup,
};

use crate::{add_edns, add_subnet, question};

/// Kind of answer.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    /// An A record.
    Hit,
    /// An A record, for a query with EDNS.
    HitEdns,
    /// NXDOMAIN.
    Nxdomain,
    /// NODATA.
    Nodata,
    /// An A record of a wildcard.
    Wildcard,
    /// A CNAME and its target.
    Cname,
    /// Three CNAMEs and the target of the last one.
    Chain,
    /// A delegation with glue.
    Referral,
    /// A weighted pool of three members.
    Weighted,
    /// The same for a query with a client subnet.
    WeightedEcs,
    /// A pool of three members with the policy `[nearest, load, weighted]`: the nearest member accepts a part of its clients.
    Nearest,
    /// The same for a query with a client subnet.
    NearestEcs,
    /// REFUSED, for a name outside all zones.
    Refused,
}

/// The client of every query.
pub const CLIENT: Client =
    Client { address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), port: 4242, transport: Transport::Udp };

/// Returns a query for this kind of answer. `number` selects one of the names.
pub fn packet(kind: Kind, number: usize) -> Vec<u8> {
    let (name, rtype) = match kind {
        Kind::Hit | Kind::HitEdns => (format!("n{number:07}.bench.test"), 1),
        Kind::Nxdomain => (format!("nx{number:06}.bench.test"), 1),
        Kind::Nodata => (format!("n{number:07}.bench.test"), 16),
        Kind::Wildcard => (format!("x{number:07}.wild.bench.test"), 1),
        Kind::Cname => ("alias.bench.test".to_owned(), 1),
        Kind::Chain => ("chain.bench.test".to_owned(), 1),
        Kind::Referral => (format!("x{number:07}.sub.bench.test"), 1),
        Kind::Weighted | Kind::WeightedEcs | Kind::Nearest | Kind::NearestEcs => {
            (format!("s{number:07}.bench.test"), 1)
        }
        Kind::Refused => (format!("n{number:07}.elsewhere.test"), 1),
    };
    let mut packet = question(&name, rtype);
    let [_, network @ ..] = (number as u32).to_be_bytes();
    match kind {
        Kind::HitEdns => add_edns(&mut packet),
        Kind::WeightedEcs | Kind::NearestEcs => add_subnet(&mut packet, network),
        _ => {}
    }
    packet
}

/// Returns a desired state and its zone: this many static names, and as many names with a weighted pool of three members each.
pub fn workload(names: usize) -> (DesiredState, ZoneData) {
    let origin: Name = "bench.test".parse().expect("a valid name");
    let mut text = String::from(
        "$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 127.0.0.1\n*.wild IN A 127.0.0.2\nalias IN CNAME \
         n0000001\nchain IN CNAME chain2\nchain2 IN CNAME alias\nsub IN NS ns.sub\nns.sub IN A 127.0.0.3\n",
    );
    for i in 0..names {
        text.push_str(&format!("n{i:07} IN A 10.{}.{}.{}\n", i >> 16 & 255, i >> 8 & 255, i & 255));
    }
    let (zone, _) = read_zone(&origin, "bench.zone", text.as_bytes(), &mut |_| Err("nothing is included".to_owned()));
    (desired(&origin, names), zone)
}

/// Compiles the workload.
pub fn compiled(desired: &DesiredState, zone: &ZoneData) -> Snapshot {
    let zones = std::slice::from_ref(zone);
    let (snapshot, _) = compile(desired, zones, &ServerOptions::default(), None).expect("the workload is valid");
    snapshot
}

/// Returns the compiled workload with every target up.
pub fn serving(names: usize) -> ServingState {
    let (desired, zone) = workload(names);
    all_up(compiled(&desired, &zone))
}

/// Returns the workload of one name, whose pool has this policy and these members; all are up, with different weights.
pub fn with_pool(policy: Policy, members: u8, answers: u8) -> ServingState {
    let (mut desired, zone) = workload(1);
    let mut pool = Pool::new(PoolName::new("p0").expect("a valid name"), policy);
    pool.answers = answers;
    for number in 0..members {
        let name = add_cluster(&mut desired, &format!("m{number}"), Ipv4Addr::new(192, 0, 2, number));
        pool.members.push(Member { weight: Weight(1 + u16::from(number) * 7 % 100), ..Member::new(name) });
    }
    desired.pools.insert(pool.name.clone(), pool);
    all_up(compiled(&desired, &zone))
}

/// Returns a serving state that gives this kind of answer.
pub fn state_for(kind: Kind, names: usize) -> ServingState {
    match kind {
        Kind::Nearest | Kind::NearestEcs => nearest_state(names),
        _ => serving(names),
    }
}

fn all_up(snapshot: Snapshot) -> ServingState {
    let runtime = RuntimeState::new(&snapshot, |_| Health::new(HealthStatus::Up, None));
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

/// Returns the workload with pools that rank by distance, a map of 65,536 networks, and shares as balancing sets them: each cluster
/// accepts three quarters of its local clients, and half of the overflow.
fn nearest_state(names: usize) -> ServingState {
    let (mut desired, zone) = workload(names);
    let point = |i: u32| f64::from(i % 3) * 40.0;
    let location =
        |i: u32| ClientLocation { coordinates: Coordinates::from_degrees(50.0, point(i)), ..ClientLocation::default() };
    // Neighbouring networks differ, so that no two of them form one block.
    let networks: Vec<_> =
        (0..1 << 16).map(|i| (Network::of(Ipv4Addr::from(i << 16).into(), 16), location(i))).collect();
    let map = ClientMap::new(MapName::new("world").expect("a valid name"), MapLayer::of_networks(&networks));
    desired.maps.insert(map.name().clone(), Arc::new(map));
    for (number, cluster) in (0..).zip(desired.clusters.values_mut()) {
        cluster.location = Some(ClusterLocation {
            coordinates: Coordinates::from_degrees(50.0, point(number)),
            region: None,
            bias: Bias::default(),
        });
    }
    for pool in desired.pools.values_mut() {
        pool.policy = Policy { ranks: vec![Rank::Nearest], load: true, ..Policy::WEIGHTED };
    }
    let ServingState { snapshot, runtime } = all_up(compiled(&desired, &zone));
    // A quarter of the slots belongs to the second nearest cluster.
    let table = |group: &LoadGroup, class: usize| {
        let costs: Vec<_> = group.costs_of(class).filter_map(|(name, cost)| Some((name.clone(), cost?))).collect();
        let mut ranked: Vec<usize> = (0..costs.len()).collect();
        ranked.sort_by_key(|place| costs[*place].1.cost);
        let slots = (0..Demand::SLOTS).map(|slot| ranked[usize::from(slot % 4 == 0) % ranked.len()] as u16).collect();
        SlotTable { costs, slots }
    };
    let groups = snapshot.load_classes().groups().iter();
    let tables = groups.flat_map(|group| (0..group.costs.len()).map(move |class| table(group, class))).collect();
    let shares = Shares { tables, ..Shares::default() };
    let runtime = runtime.with_shares(&snapshot, &Arc::new(shares));
    ServingState { snapshot, runtime: Arc::new(runtime) }
}

fn add_cluster(desired: &mut DesiredState, name: &str, address: Ipv4Addr) -> ClusterName {
    let name = ClusterName::new(name).expect("a valid name");
    let cluster = Cluster { capacity: Some(1_000), ..Cluster::new(name.clone(), vec![address.into()]) };
    desired.clusters.insert(name.clone(), cluster);
    name
}

/// Returns names with weighted pools of three clusters.
fn desired(origin: &Name, names: usize) -> DesiredState {
    let mut desired =
        DesiredState { zones: [(origin.clone(), ZoneSpec::new(origin.clone()))].into(), ..DesiredState::default() };
    let members = [(1, 70), (2, 20), (3, 10)].map(|(last, weight)| {
        let name = add_cluster(&mut desired, &format!("t{last}"), Ipv4Addr::new(127, 0, 1, last));
        Member { weight: Weight(weight), ..Member::new(name) }
    });
    for i in 0..names {
        let mut pool = Pool::new(PoolName::new(&format!("p{i}")).expect("a valid name"), Policy::WEIGHTED);
        pool.members = members.clone().into();
        let name: Name = format!("s{i:07}.bench.test").parse().expect("a valid name");
        desired.names.insert(name.clone(), SteeredName { name, pool: pool.name.clone(), ttl: None });
        desired.pools.insert(pool.name.clone(), pool);
    }
    desired
}
