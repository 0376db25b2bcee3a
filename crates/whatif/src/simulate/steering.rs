//! The server's own steering code, called for simulated clients.
//!
//! There is one pool, and a map of all client networks to locations, as in a configuration. A query of a cache takes the whole path of
//! the server: the bytes of a query with the client's subnet are parsed, the name is found, the member chosen, and an answer written.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use fairway_model::{
    ClientLocation, ClientMap, ClusterName, Demand, DesiredState, Health, LatencyTable, MapLayer, MapName, Name,
    Network, Pool, ProbeAddress, Rtype, Shares, SourceProof, SteeredName, Target, Timestamp, ZoneSpec,
};
use fairway_steering::evidence::{Query, Source};
use fairway_zonefile::read_zone;
use fairway_zones::{
    Draw, PlayedQuery, Player, RuntimeState, ServerOptions, ServingState, Snapshot, TargetIndex, compile,
    steer::{ClientNet, SteerPool},
};

use super::{
    answer::Answer,
    clients::{ClientNetwork, Population},
    scenario::Scenario,
};

/// Zone of the steered name.
const ZONE: &str = "sim.test";
/// The steered name.
const NAME: &str = "shop.sim.test";
/// Source address of all queries (TEST-NET-1, RFC 5737). Clients differ in their subnets only.
const RESOLVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// A compiled pool with its clients.
pub(super) struct Steering {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) desired: Arc<DesiredState>,
    /// Cluster of each target.
    target_clusters: Vec<usize>,
    /// Cluster of each member.
    member_clusters: Vec<usize>,
    /// Each network as the pool identifies it.
    clients: Vec<ClientNet>,
    player: Player,
    pub(super) name: Name,
}

impl Steering {
    pub(super) fn new(
        scenario: &Scenario,
        population: &Population,
        pool: &Pool,
        table: Option<&Arc<LatencyTable>>,
    ) -> Self {
        let (desired, snapshot) = compiled(scenario, population, pool, table);
        let cluster = |target: &Target| match &target.address {
            ProbeAddress::Address(address) => (0..scenario.clusters.len()).find(|number| ip(*number) == *address),
            ProbeAddress::Host(..) | ProbeAddress::OfHost(..) | ProbeAddress::Socket(_) => None,
        };
        let target_clusters = snapshot.targets().iter().map(|target| cluster(target).unwrap_or_default()).collect();
        let pool = &snapshot.steer_pools()[0];
        let client = |network: u32| pool.client_net(subnet(network).address());
        let clients: Vec<ClientNet> = (0..).take(population.networks.len()).map(client).collect();
        let name = NAME.parse().expect("a name");
        let member_clusters = pool.clusters().map(|name| cluster_index(scenario, name)).collect();
        Self { target_clusters, member_clusters, clients, player: Player::default(), name, snapshot, desired }
    }

    fn pool(&self) -> &SteerPool {
        &self.snapshot.steer_pools()[0]
    }

    /// Returns the runtime state for shares, the health of each cluster, and the schedules at a time.
    pub(super) fn runtime(&self, shares: &Shares, health: &[Health], at: Timestamp) -> Arc<RuntimeState> {
        let health = |target: TargetIndex| health[self.target_clusters[target.0 as usize]];
        let runtime = RuntimeState::new_at(&self.snapshot, at, health);
        Arc::new(runtime.with_shares(&self.snapshot, &Arc::new(shares.clone())))
    }

    /// Returns for each of `clusters` clusters if its schedule is open.
    pub(super) fn open_clusters(&self, clusters: usize, runtime: &RuntimeState) -> Vec<bool> {
        let mut open = vec![true; clusters];
        for (cluster, name) in self.member_clusters.iter().zip(self.pool().clusters()) {
            let turn = runtime.schedule(&self.snapshot, self.pool().name(), name);
            open[*cluster] = turn.is_none_or(|turn| turn.state.open);
        }
        open
    }

    /// Returns the number of a network's class of load control.
    pub(super) fn load_class(&self, network: u32) -> Option<usize> {
        self.snapshot.load_classes().class(self.pool(), self.clients[network as usize].class())
    }

    /// Returns the identity of a network's demand.
    pub(super) fn demand(&self, network: u32) -> Demand {
        self.pool().demand(self.clients[network as usize], Draw(0))
    }

    /// Returns the true demand of each slot, by class of load control.
    pub(super) fn demands(&self, population: &Population) -> Vec<Vec<f64>> {
        let classes = self.snapshot.load_classes().groups().iter().map(|group| group.costs.len()).sum();
        let mut demands = vec![vec![0.0; Demand::SLOTS]; classes];
        for (network, client) in (0..).zip(&population.networks) {
            if let Some(class) = self.load_class(network) {
                demands[class][self.demand(network).slot()] += client.demand;
            }
        }
        demands
    }

    /// Returns a query of a network as evidence of demand: its resolver is its own, and sends cookies.
    pub(super) fn evidence(&self, network: u32) -> Query {
        let source = Source::of(subnet(network).address());
        Query { source, proof: SourceProof::Cookie, demand: self.demand(network) }
    }

    /// Answers a query of a network.
    /// Returns the serving state with a runtime state.
    pub(super) fn serving(&self, runtime: &Arc<RuntimeState>) -> ServingState {
        ServingState { snapshot: Arc::clone(&self.snapshot), runtime: Arc::clone(runtime) }
    }

    /// Returns the answer to a query.
    pub(super) fn answer(&mut self, network: u32, draw: Draw, runtime: &Arc<RuntimeState>) -> Answer {
        let state = self.serving(runtime);
        let subnet = Some(subnet(network));
        let query = PlayedQuery { name: self.name.clone(), rtype: Rtype::A, address: RESOLVER.into(), subnet };
        let clusters = &self.member_clusters;
        let mut answer = Answer::default();
        self.player.play(&state, &query, draw, |heard| {
            answer = heard.members.iter().map(|member| clusters[usize::from(*member)]).collect();
        });
        answer
    }
}

/// Returns the addresses of a client network, from 10.0.0.0/24 on. The last of 200,000 is below 14.0.0.0.
pub(super) fn subnet(network: u32) -> Network {
    Network::of(Ipv4Addr::from_bits(0x0a00_0000 + (network << 8)).into(), 24)
}

/// Returns the address of a cluster (TEST-NET-2, RFC 5737).
pub(super) fn ip(cluster: usize) -> IpAddr {
    Ipv4Addr::from_bits(0xc633_6400 | cluster as u32).into()
}

pub(super) fn cluster_index(scenario: &Scenario, name: &ClusterName) -> usize {
    scenario.clusters.iter().position(|declared| declared.name == *name).unwrap_or_default()
}

/// Returns the desired state with a pool, and its snapshot.
fn compiled(
    scenario: &Scenario,
    population: &Population,
    pool: &Pool,
    table: Option<&Arc<LatencyTable>>,
) -> (Arc<DesiredState>, Arc<Snapshot>) {
    let apex: Name = ZONE.parse().expect("a name");
    let mut desired = DesiredState::default();
    desired.zones.insert(apex.clone(), ZoneSpec::new(apex.clone()));
    desired.clusters.clone_from(&scenario.configured);
    let map = map(scenario, population);
    desired.maps.insert(map.name().clone(), Arc::new(map));
    desired.latencies = table.into_iter().map(|table| (table.name().clone(), Arc::clone(table))).collect();
    desired.pools.insert(pool.name.clone(), pool.clone());
    let steered: Name = NAME.parse().expect("a name");
    desired.names.insert(steered.clone(), SteeredName { name: steered, pool: pool.name.clone(), ttl: None });
    let text = format!("$ORIGIN {ZONE}.\n$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\n");
    let (zone, _) = read_zone(&apex, ZONE, text.as_bytes(), &mut |_| Err("nothing is included".into()));
    let (snapshot, _) = compile(&desired, &[zone], &ServerOptions::default(), None).expect("a valid zone");
    (Arc::new(desired), Arc::new(snapshot))
}

fn map(scenario: &Scenario, population: &Population) -> ClientMap {
    let location = |network: &ClientNetwork| {
        let known = scenario.clusters[network.home].clients.clone();
        ClientLocation { coordinates: Some(network.at), ..known }
    };
    let networks = (0..).zip(&population.networks).map(|(number, network)| (subnet(number), location(network)));
    let networks: Vec<_> = networks.collect();
    ClientMap::new(MapName::new("clients").expect("letters"), MapLayer::of_networks(&networks))
}

#[cfg(test)]
mod tests {
    use fairway_model::HealthStatus;
    use serde_json::json;

    use super::{
        super::{read, rng::Rng},
        *,
    };

    #[test]
    fn client_gets_the_nearest_up_cluster_by_the_haversine_formula() {
        let clusters: Vec<_> =
            ["a", "b", "c", "d", "e"].iter().map(|c| json!({ "name": c, "capacity": 10, "near": 0.2 })).collect();
        let scenario = read(json!({
            "version": 1, "title": "t", "ttl": 30, "length": 1, "offered": 0.5, "seeds": [], "clusters": clusters,
            "clients": { "networks": 300, "zipf": 0.6 }, "reports": { "every": 10, "late": 10 },
        }));
        let scenario = scenario.unwrap();
        let population = Population::new(&scenario, &mut Rng::new(1));
        assert!(population.orders.len() > 15, "expected over 15 orders of five clusters: {}", population.orders.len());
        let mut steering = Steering::new(&scenario, &population, &scenario.pools[0], None);
        for (number, network) in (0..).zip(&population.networks) {
            let order = &population.orders[usize::from(network.order)];
            for (down, nearest) in order.iter().enumerate() {
                let status =
                    |cluster| if order[..down].contains(&cluster) { HealthStatus::Down } else { HealthStatus::Up };
                let health: Vec<_> = (0..5).map(|cluster| Health::new(status(cluster), None)).collect();
                let runtime = steering.runtime(&Shares::default(), &health, scenario.begins);
                let answer = steering.answer(number, Draw(0), &runtime);
                assert_eq!(answer.first(), Some(*nearest), "network {number}, {down} down");
            }
        }
    }
}
