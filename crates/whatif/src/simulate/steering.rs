//! The server's own decision, asked for simulated clients.
//!
//! There is one pool, as the scenario says it, and a map of all client networks to places, as a configuration would write
//! them. A cache's query goes the whole way of an answer: the octets of a query with the client's
//! subnet are read, the name is found, places and shares are looked up, an answer is written.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use fairway_model::{
    Bias, ClientLocation, ClientMap, Cluster, ClusterLocation, ClusterName, Demand, DesiredState, Health, LatencyTable,
    MapLayer, MapName, Name, Network, Pool, ProbeAddress, Rtype, Shares, SteeredName, Target, Timestamp, ZoneSpec,
};
use fairway_zonefile::read_zone;
use fairway_zones::{
    Draw, PlayedQuery, Player, RuntimeState, ServerOptions, ServingState, Snapshot, TargetIndex, compile,
    steer::{ClientNet, SteerPool},
};

use super::{
    answer::Named,
    clients::Population,
    scenario::{Scenario, SimulatedCluster},
};

/// The zone that the steered name is in, and that name.
const ZONE: &str = "sim.test";
const NAME: &str = "shop.sim.test";

/// The pool and its clients, compiled once a run.
pub(super) struct Steering {
    snapshot: Arc<Snapshot>,
    /// The cluster that each target speaks for.
    judged: Vec<usize>,
    /// By the pool's number of a member: the cluster.
    members: Vec<usize>,
    /// By network: how the pool knows it.
    clients: Vec<ClientNet>,
    networks: HashMap<Demand, u32>,
    player: Player,
    name: Name,
}

impl Steering {
    pub(super) fn new(
        scenario: &Scenario,
        population: &Population,
        pool: &Pool,
        table: Option<&Arc<LatencyTable>>,
    ) -> Self {
        let snapshot = Arc::new(snapshot(scenario, population, pool, table));
        let cluster = |target: &Target| match &target.address {
            ProbeAddress::Address(address) => (0..scenario.clusters.len()).find(|place| ip(*place) == *address),
            ProbeAddress::Host(..) | ProbeAddress::Socket(_) => None,
        };
        let judged = snapshot.targets().iter().map(|target| cluster(target).unwrap_or_default()).collect();
        let pool = &snapshot.steer_pools()[0];
        let known = |network: u32| pool.client_net(subnet(network).address());
        let clients: Vec<ClientNet> = (0..).take(population.networks.len()).map(known).collect();
        let networks = (0..).zip(&clients).map(|(network, client)| (pool.demand(*client, Draw(0)), network)).collect();
        let name = NAME.parse().expect("a name");
        let members = pool.clusters().map(|name| place_of(scenario, name)).collect();
        Self { judged, members, clients, networks, player: Player::default(), name, snapshot }
    }

    fn pool(&self) -> &SteerPool {
        &self.snapshot.steer_pools()[0]
    }

    /// What answers are given by: the health of each cluster, the shares, and who is open at a moment.
    pub(super) fn runtime(&self, shares: &Shares, health: &[Health], at: Timestamp) -> Arc<RuntimeState> {
        let judge = |target: TargetIndex| health[self.judged[target.0 as usize]];
        let runtime = RuntimeState::new_at(&self.snapshot, at, judge);
        Arc::new(runtime.with_shares(&self.snapshot, &Arc::new(shares.clone())))
    }

    /// The same runtime state at a moment, where it is not that of the moment already.
    pub(super) fn at(&self, runtime: &RuntimeState, at: Timestamp) -> Option<Arc<RuntimeState>> {
        runtime.at(&self.snapshot, at).map(Arc::new)
    }

    /// Whether each of so many clusters is open.
    pub(super) fn open(&self, clusters: usize, runtime: &RuntimeState) -> Vec<bool> {
        let mut open = vec![true; clusters];
        for (cluster, name) in self.members.iter().zip(self.pool().clusters()) {
            let turn = runtime.schedule(&self.snapshot, self.pool().name(), name);
            open[*cluster] = turn.is_none_or(|turn| turn.state.open);
        }
        open
    }

    /// What stands for the demand of a network.
    pub(super) fn demand(&self, network: u32) -> Demand {
        self.pool().demand(self.clients[network as usize], Draw(0))
    }

    /// The cluster that a demand is answered with under another runtime state; none where nobody knows whose it is.
    pub(super) fn place(&self, demand: Demand, runtime: &RuntimeState) -> Option<usize> {
        let client = self.clients[*self.networks.get(&demand)? as usize];
        let route = self.pool().route(self.pool().answerable_kind(), runtime, client, Draw(0))?;
        let member = self.pool().clusters().position(|cluster| cluster == route.cluster)?;
        Some(self.members[member])
    }

    /// The clusters that a query of a network is answered with.
    pub(super) fn answer(&mut self, network: u32, draw: Draw, runtime: &Arc<RuntimeState>) -> Named {
        let view = ServingState { snapshot: Arc::clone(&self.snapshot), runtime: Arc::clone(runtime) };
        let subnet = Some(subnet(network));
        let query = PlayedQuery { name: self.name.clone(), rtype: Rtype::A, address: RESOLVER.into(), subnet };
        let (mut answer, members) = (Named::default(), &self.members);
        self.player.play(&view, &query, draw, |heard| {
            answer = heard.members.iter().map(|member| members[usize::from(*member)]).collect();
        });
        answer
    }
}

/// Where all queries come from: only the subnet tells clients apart (TEST-NET-1, RFC 5737).
const RESOLVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The addresses of a client network: of 200,000 the last is below 14.0.0.0.
pub(super) fn subnet(network: u32) -> Network {
    Network::of(Ipv4Addr::from_bits(0x0a00_0000 + (network << 8)).into(), 24)
}

/// The address of a cluster (TEST-NET-2, RFC 5737).
pub(super) fn ip(place: usize) -> IpAddr {
    Ipv4Addr::from_bits(0xc633_6400 | place as u32).into()
}

fn place_of(scenario: &Scenario, name: &ClusterName) -> usize {
    scenario.clusters.iter().position(|declared| declared.name == *name).unwrap_or_default()
}

fn snapshot(scenario: &Scenario, population: &Population, pool: &Pool, table: Option<&Arc<LatencyTable>>) -> Snapshot {
    let apex: Name = ZONE.parse().expect("a name");
    let mut desired = DesiredState::default();
    desired.zones.insert(apex.clone(), ZoneSpec::new(apex.clone()));
    for (place, declared) in scenario.clusters.iter().enumerate() {
        desired.clusters.insert(declared.name.clone(), cluster(declared, place));
    }
    let map = map(scenario, population);
    desired.maps.insert(map.name().clone(), Arc::new(map));
    desired.latencies = table.into_iter().map(|table| (table.name().clone(), Arc::clone(table))).collect();
    desired.pools.insert(pool.name.clone(), pool.clone());
    let steered: Name = NAME.parse().expect("a name");
    desired.names.insert(steered.clone(), SteeredName { name: steered, pool: pool.name.clone(), ttl: None });
    let text = format!("$ORIGIN {ZONE}.\n$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\n");
    let (zone, _) = read_zone(&apex, ZONE, text.as_bytes(), &mut |_| Err("nothing is included".into()));
    let (snapshot, _) = compile(&desired, &[zone], &ServerOptions::default(), None).expect("a zone without a fault");
    snapshot
}

fn map(scenario: &Scenario, population: &Population) -> ClientMap {
    let place = |network: &super::clients::Network| {
        let known = scenario.clusters[network.home].clients.clone();
        ClientLocation { coordinates: Some(network.at), ..known }
    };
    let networks: Vec<_> = (0..).zip(&population.networks).map(|(at, network)| (subnet(at), place(network))).collect();
    ClientMap::new(MapName::new("clients").expect("letters"), MapLayer::of_networks(&networks))
}

fn cluster(declared: &SimulatedCluster, place: usize) -> Cluster {
    Cluster {
        name: declared.name.clone(),
        addresses: vec![ip(place)],
        dns_name: None,
        location: Some(ClusterLocation {
            coordinates: Some(declared.at),
            region: declared.region.clone(),
            bias: Bias::default(),
        }),
        capacity: Some(declared.capacity),
        services: vec![],
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::HealthStatus;
    use serde_json::json;

    use super::{
        super::{chance::Chance, read},
        *,
    };

    #[test]
    fn a_client_goes_to_the_nearest_cluster_that_is_up_as_the_haversine_formula_has_it() {
        let clusters: Vec<_> =
            ["a", "b", "c", "d", "e"].iter().map(|c| json!({ "name": c, "capacity": 10, "near": 0.2 })).collect();
        let scenario = read(json!({
            "version": 1, "title": "t", "ttl": 30, "length": 1, "offered": 0.5, "seeds": [], "clusters": clusters,
            "clients": { "networks": 300, "zipf": 0.6 }, "reports": { "every": 10, "late": 10 },
        }));
        let scenario = scenario.unwrap();
        let population = Population::new(&scenario, &mut Chance::new(1));
        assert!(population.rows.len() > 15, "{} orders of five clusters", population.rows.len());
        let mut steering = Steering::new(&scenario, &population, &scenario.pools[0], None);
        for (number, network) in (0..).zip(&population.networks) {
            let order = &population.rows[usize::from(network.row)];
            for (gone, nearest) in order.iter().enumerate() {
                let verdict =
                    |place| if order[..gone].contains(&place) { HealthStatus::Down } else { HealthStatus::Up };
                let health: Vec<_> = (0..5).map(|place| Health::new(verdict(place), None)).collect();
                let runtime = steering.runtime(&Shares::default(), &health, scenario.begins);
                let answer = steering.answer(number, Draw(0), &runtime);
                assert_eq!(answer.first(), Some(*nearest), "network {number}, {gone} down");
                assert_eq!(steering.place(steering.demand(number), &runtime), Some(*nearest));
            }
        }
    }
}
