//! The server's own decision, asked for simulated clients.
//!
//! Each order of clusters is a pool with a tier a cluster, as a configuration would write it, so that everything that
//! answers a query is at work: compiled snapshot, conditions, shares, choice.

use std::{collections::HashMap, net::Ipv4Addr, sync::Arc};

use fairway_model::{
    Cluster, ClusterName, Demand, Desired, Health, Member, Name, Policy, Pool, PoolName, ProbeAddress, Shares,
    SteeredName, Target, Tier, ZoneSpec,
};
use fairway_zones::{
    Conditions, Draw, ServerOptions, Snapshot, TargetIndex, compile,
    steer::{ClientNet, Kind},
    text::read_zone,
};

use super::{
    clients::{Network, Population},
    scenario::Scenario,
};

/// The zone that the pools' names are in.
const ZONE: &str = "sim.test";

/// Pools and clients, compiled once a run.
pub(super) struct Steering {
    snapshot: Snapshot,
    /// The cluster that each target speaks for.
    judged: Vec<usize>,
    /// By network: its pool, and how the pool knows it.
    clients: Vec<(usize, ClientNet)>,
    networks: HashMap<Demand, u32>,
}

impl Steering {
    pub(super) fn new(scenario: &Scenario, population: &Population) -> Self {
        let snapshot = snapshot(scenario, population);
        let cluster = |target: &Target| match &target.address {
            ProbeAddress::Address(address) => (0..scenario.clusters.len()).find(|place| ip(*place) == *address),
            ProbeAddress::Host(..) | ProbeAddress::Socket(_) => None,
        };
        let judged = snapshot.targets().iter().map(|target| cluster(target).unwrap_or_default()).collect();
        let pool = |row: u16| {
            let name = pool_name(row);
            snapshot.steer_pools().iter().position(|pool| *pool.name() == name).expect("each row has its pool")
        };
        let pools: Vec<usize> = (0..).take(population.rows.len()).map(pool).collect();
        let client = |network: &Network| {
            let pool = pools[usize::from(network.row)];
            let address = Ipv4Addr::from_bits(0x0a00_0000 | u32::from(network.number) << 8);
            (pool, snapshot.steer_pools()[pool].client_net(address.into()))
        };
        let clients: Vec<_> = population.networks.iter().map(client).collect();
        let mut steering = Self { snapshot, judged, clients, networks: HashMap::new() };
        steering.networks = (0..).take(population.networks.len()).map(|n| (steering.demand(n), n)).collect();
        steering
    }

    /// What answers are given by: the health of each cluster, and the shares.
    pub(super) fn conditions(&self, shares: &Shares, health: &[Health]) -> Conditions {
        let judge = |target: TargetIndex| health[self.judged[target.0 as usize]];
        Conditions::new(&self.snapshot, judge).with_shares(&self.snapshot, &Arc::new(shares.clone()))
    }

    /// What stands for the demand of a network.
    pub(super) fn demand(&self, network: u32) -> Demand {
        let (pool, client) = self.clients[network as usize];
        self.snapshot.steer_pools()[pool].demand(client, Draw(0))
    }

    /// The network whose demand this is.
    pub(super) fn network(&self, demand: Demand) -> Option<u32> {
        self.networks.get(&demand).copied()
    }

    /// The cluster that a network is answered with.
    pub(super) fn answer(&self, network: u32, conditions: &Conditions) -> Option<usize> {
        let (pool, client) = self.clients[network as usize];
        let choice = self.snapshot.steer_pools()[pool].choose(Kind::V4, conditions, client, Draw(0), &mut ());
        // Members are declared in the order of the clusters, so that their number is the cluster's place.
        choice.members.as_slice().first().map(|number| usize::from(*number))
    }
}

fn ip(place: usize) -> std::net::IpAddr {
    Ipv4Addr::from_bits(0xc633_6400 | place as u32).into()
}

fn pool_name(row: u16) -> PoolName {
    PoolName::new(&format!("row{row}")).expect("letters and digits")
}

fn snapshot(scenario: &Scenario, population: &Population) -> Snapshot {
    let apex: Name = ZONE.parse().expect("a name");
    let mut desired = Desired::default();
    desired.zones.insert(apex.clone(), ZoneSpec::new(apex.clone()));
    for (place, declared) in scenario.clusters.iter().enumerate() {
        desired.clusters.insert(declared.name.clone(), cluster(&declared.name, place, declared.capacity));
    }
    for (row, order) in (0..).zip(&population.rows) {
        let mut pool = Pool::new(pool_name(row), Policy { load: true, ..Policy::WEIGHTED });
        let tier = |place: usize| order.iter().position(|other| *other == place).map_or(1, |at| at as u8 + 1);
        let member = |(place, declared): (usize, &super::scenario::SimulatedCluster)| {
            let mut member = Member::new(declared.name.clone());
            member.tier = Tier::new(tier(place)).unwrap_or_default();
            member
        };
        pool.members = scenario.clusters.iter().enumerate().map(member).collect();
        let name: Name = format!("row{row}.{ZONE}").parse().expect("a name");
        let steered = SteeredName { name: name.clone(), pool: pool.name.clone(), ttl: None };
        desired.names.insert(name, steered);
        desired.pools.insert(pool.name.clone(), pool);
    }
    let text = format!("$ORIGIN {ZONE}.\n$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\n");
    let (zone, _) = read_zone(&apex, ZONE, text.as_bytes(), &mut |_| Err("nothing is included".into()));
    let (snapshot, _) = compile(&desired, &[zone], &ServerOptions::default(), None).expect("a zone without a fault");
    snapshot
}

fn cluster(name: &ClusterName, place: usize, capacity: u64) -> Cluster {
    Cluster {
        name: name.clone(),
        addresses: vec![ip(place)],
        dns_name: None,
        location: None,
        capacity: Some(capacity),
        services: vec![],
    }
}
