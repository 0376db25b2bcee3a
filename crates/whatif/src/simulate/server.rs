//! The simulated servers. Each answers a part of the client networks, and has load control of its own: it counts its own queries, and gets
//! the load reports of all clusters. They share no store. Health is the same in all.

use std::{sync::Arc, time::Instant};

use fairway_model::{ClusterName, Health, LoadReport, Permille, Timestamp, mix};
use fairway_steering::{
    balancer::{Balancer, Counted, Declared, Group, Saved},
    evidence::Query,
};
use fairway_zones::{RuntimeState, steer::LoadGroup};

use super::{
    clients::Population,
    rng::Rng,
    scenario::Scenario,
    start,
    steering::{Steering, cluster_index},
};

/// One server.
struct Server {
    balancer: Balancer,
    runtime: Arc<RuntimeState>,
}

/// All servers.
pub(super) struct Servers {
    servers: Vec<Server>,
    /// Server that each client network queries.
    of_network: Vec<u8>,
}

impl Servers {
    /// Starts the servers with the state of the scenario. The random numbers come from a sequence of their own, so that everything else is
    /// the same as with one server and a cold start.
    pub(super) fn new(
        scenario: &Scenario,
        population: &Population,
        steering: &Steering,
        seed: u64,
        now: Instant,
    ) -> Self {
        let mut rng = Rng::new(mix(seed));
        let groups = groups(scenario, steering);
        let saved = start::saved(scenario.start, &groups, steering, population, &mut rng);
        let up = vec![Health::new(fairway_model::HealthStatus::Up, None); scenario.clusters.len()];
        let server = |_: &f64| {
            let balancer = Balancer::new(groups.clone(), now, saved.as_ref());
            let runtime = steering.runtime(balancer.shares(), &up, scenario.begins);
            Server { balancer, runtime }
        };
        let of_network = population.networks.iter().map(|_| draw(&scenario.servers, &mut rng)).collect();
        Self { servers: scenario.servers.iter().map(server).collect(), of_network }
    }

    /// Returns the runtime state of the server that a network queries.
    pub(super) fn runtime(&self, network: u32) -> &Arc<RuntimeState> {
        &self.servers[self.server(network)].runtime
    }

    /// Returns the runtime state of the first server. Schedules are the same in all.
    pub(super) fn first_runtime(&self) -> &RuntimeState {
        &self.servers[0].runtime
    }

    /// Returns the server that a network queries.
    pub(super) fn server(&self, network: u32) -> usize {
        usize::from(self.of_network[network as usize])
    }

    /// Counts a query of a network at its server.
    pub(super) fn count_query(&mut self, network: u32, query: &Counted<'_>) {
        let server = self.server(network);
        self.servers[server].balancer.count_query(query);
    }

    /// Counts a query of a flood, as if it came from where a network is.
    pub(super) fn count_flood(&mut self, network: u32, class: usize, query: Query, at: Instant) {
        let server = self.server(network);
        let balancer = &mut self.servers[server].balancer;
        let table = &balancer.shares().tables[class];
        let answered = table.costs.get(usize::from(table.slots[query.demand.slot()]));
        let Some(cluster) = answered.map(|(cluster, _)| cluster.clone()) else { return };
        balancer.count_query(&Counted { class, query, cluster: &cluster, at });
    }

    /// A load report arrives at all servers.
    pub(super) fn add_report(&mut self, report: &LoadReport, now: Instant) {
        self.balancers().for_each(|balancer| _ = balancer.add_report(report, now));
    }

    /// Notes that a cluster can be answered, or cannot.
    pub(super) fn set_available(&mut self, cluster: &ClusterName, is_available: bool, now: Instant) {
        self.balancers().for_each(|balancer| balancer.set_available(cluster, is_available, now));
    }

    /// Every server decides anew.
    pub(super) fn step(&mut self, now: Instant) {
        self.balancers().for_each(|balancer| balancer.step(now));
    }

    /// Computes the runtime states for new shares, health or pool.
    pub(super) fn update_runtimes(&mut self, steering: &Steering, health: &[Health], at: Timestamp) {
        for server in &mut self.servers {
            server.runtime = steering.runtime(server.balancer.shares(), health, at);
        }
    }

    /// Computes the runtime states for the schedules at a time.
    pub(super) fn update_schedules(&mut self, steering: &Steering, at: Timestamp) {
        for server in &mut self.servers {
            if let Some(runtime) = server.runtime.at(&steering.snapshot, at) {
                server.runtime = Arc::new(runtime);
            }
        }
    }

    /// True if load control has these groups.
    pub(super) fn has_groups(&self, groups: &[Group]) -> bool {
        self.servers[0].balancer.groups().eq(groups)
    }

    /// Restarts load control with these groups: with the saved state, or without. All clusters count as available.
    pub(super) fn restart(&mut self, groups: &[Group], keeps_state: bool, now: Instant) {
        for balancer in self.balancers() {
            let saved: Option<Saved> = keeps_state.then(|| balancer.save());
            *balancer = Balancer::new(groups.to_vec(), now, saved.as_ref());
        }
    }

    /// Returns the predicted end of a drain: the latest of all servers.
    pub(super) fn drain_end(&self, cluster: &ClusterName, now: Instant) -> Instant {
        let ends = self.servers.iter().filter_map(|server| server.balancer.drain(cluster, now));
        ends.map(|drain| drain.over).max().unwrap_or(now)
    }

    fn balancers(&mut self) -> impl Iterator<Item = &mut Balancer> {
        self.servers.iter_mut().map(|server| &mut server.balancer)
    }
}

/// Draws a server with a probability proportional to its part.
fn draw(parts: &[f64], rng: &mut Rng) -> u8 {
    let mut draw = rng.fraction() * parts.iter().sum::<f64>();
    let passed = parts.iter().take_while(|part| {
        draw -= **part;
        draw >= 0.0
    });
    passed.count().min(parts.len() - 1) as u8
}

/// Returns the clusters whose load is controlled together.
pub(super) fn groups(scenario: &Scenario, steering: &Steering) -> Vec<Group> {
    let group = |group: &LoadGroup| {
        let declared = |(name, weight): (&ClusterName, &f64)| {
            let cluster = &scenario.clusters[cluster_index(scenario, name)];
            Declared {
                name: name.clone(),
                capacity: cluster.capacity,
                target: cluster.soft,
                limit: Permille::new(1000).unwrap_or_default(),
                weight: *weight,
            }
        };
        Group {
            clusters: group.clusters.iter().zip(&group.weights).map(declared).collect(),
            costs: group.costs.clone(),
            period: scenario.reports.every,
            ttl: scenario.ttl,
        }
    };
    steering.snapshot.load_classes().groups().iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::{Answer, read},
        *,
    };

    /// Starts the servers of a scenario of three clusters.
    fn start(key: &str, value: Value) -> (Scenario, Population, Steering, Servers, Instant) {
        let mut file = json!({
            "version": 1, "title": "test", "ttl": 30, "length": 1, "offered": 0.6, "seeds": [],
            "clusters": [
                { "name": "a", "capacity": 100, "near": 0.4 }, { "name": "b", "capacity": 100, "near": 0.3 },
                { "name": "c", "capacity": 200, "near": 0.3 },
            ],
            "clients": { "networks": 400, "zipf": 0.4 }, "reports": { "every": 10, "late": 10 },
        });
        file[key] = value;
        let scenario = read(file).unwrap();
        let population = Population::new(&scenario, &mut Rng::new(1));
        let steering = Steering::new(&scenario, &population, &scenario.pools[0], None);
        let now = Instant::now();
        let servers = Servers::new(&scenario, &population, &steering, 1, now);
        (scenario, population, steering, servers, now)
    }

    /// Returns the answer to each network.
    fn answers(steering: &mut Steering, servers: &Servers, networks: usize) -> Vec<usize> {
        let mut answer = |network: u32| -> Answer {
            steering.answer(network, fairway_zones::Draw(0), &Arc::clone(servers.runtime(network)))
        };
        (0..).take(networks).map(|network| answer(network).first().unwrap()).collect()
    }

    #[test]
    fn each_server_sees_only_the_queries_of_its_networks() {
        let (scenario, population, steering, mut servers, now) = start("servers", json!([0.7, 0.3]));
        // A count of queries ends with the first one after a TTL.
        for ttl in 0..3 {
            for network in (0..).take(population.networks.len()) {
                let (class, query) = (steering.load_class(network).unwrap(), steering.evidence(network));
                let cluster = &scenario.clusters[0].name;
                let at = now + ttl * scenario.ttl;
                servers.count_query(network, &Counted { class, query, cluster, at });
            }
        }
        let states = |server: &Server| server.balancer.save().classes.into_iter().flat_map(|class| class.slots);
        let counted = |server: &Server| states(server).map(|slot| slot.weight).sum::<f32>();
        for (number, server) in servers.servers.iter().enumerate() {
            let own = (0..400).filter(|network| servers.server(*network) == number).count();
            assert_eq!(counted(server), own as f32, "server {number}");
            let expected = [280, 120][number];
            assert!(
                own.abs_diff(expected) < 30,
                "{own} of 400 networks query server {number}, about {expected} expected"
            );
        }
    }

    #[test]
    fn start_with_one_cluster_answers_everybody_with_it() {
        let (_, population, mut steering, servers, _) = start("start", json!("one"));
        let answers = answers(&mut steering, &servers, population.networks.len());
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    }

    #[test]
    fn mirror_start_answers_with_far_clusters_below_their_targets() {
        let (scenario, population, mut steering, servers, _) = start("start", json!("mirror"));
        let answers = answers(&mut steering, &servers, population.networks.len());
        let (mut loads, mut ranks) = (vec![0.0; 3], [0.0; 3]);
        for (network, answer) in population.networks.iter().zip(answers) {
            let order = &population.orders[usize::from(network.order)];
            ranks[order.iter().position(|cluster| *cluster == answer).unwrap()] += network.demand;
            loads[answer] += network.demand / scenario.clusters[answer].capacity as f64;
        }
        assert!(loads.iter().all(|load| *load < 0.88), "target 0.8, and slots cannot be divided: {loads:?}");
        assert!(ranks[0] < 0.5 * ranks[2], "demand at the nearest, next and farthest cluster: {ranks:?}");
    }
}
