//! The simulated servers. Each answers a part of the client networks, and has load control of its own: it counts its own queries, and gets
//! the load reports of all clusters. Health is the same in all.
//!
//! With a shared store the first server is the leader while it has recent reports, and the others answer with its tables. It gets the evidence of
//! demand of the others.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_model::{Backend, ClusterName, Health, LoadReport, Permille, Shares, Timestamp, mix};
use fairway_steering::{
    balancer::{Balancer, Counted, Declared, DemandEvidence, Group, Outcome, Saved},
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
    /// `None` if each server decides alone.
    store: Option<SharedStore>,
}

/// Leadership among servers that share a store. The first one is the leader.
struct SharedStore {
    /// Decision of the leader; `None` if it has published none, so that each server uses its own tables.
    decision: Option<Shares>,
    /// Time of the leader's last report.
    last_report: Option<Instant>,
    /// Time after the last report for which the leader publishes its decisions.
    oldest: Duration,
}

/// Number of report periods without a report after which the leader publishes no decision, as in the server.
const OFFER_PERIODS: u32 = 3;

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
        let oldest = OFFER_PERIODS * scenario.reports.every;
        let store = scenario.shared_store.then_some(SharedStore { decision: None, last_report: None, oldest });
        Self { servers: scenario.servers.iter().map(server).collect(), of_network, store }
    }

    /// Publishes the decision of the leader to the servers that share its store. Returns true if the tables in force may have changed.
    pub(super) fn publish(&mut self, now: Instant) -> bool {
        let Some(store) = &mut self.store else { return false };
        let seen: Vec<DemandEvidence> =
            self.servers[1..].iter().map(|server| server.balancer.demand_evidence()).collect();
        self.servers[0].balancer.set_elsewhere(&seen);
        let is_recent = store.last_report.is_some_and(|last| now.saturating_duration_since(last) < store.oldest);
        let decision = is_recent.then(|| self.servers[0].balancer.shares());
        let changes = store.decision.as_ref() != decision;
        if changes {
            store.decision = decision.cloned();
            let followed = store.decision.iter();
            followed.for_each(|leader| self.servers[1..].iter_mut().for_each(|s| s.balancer.take_tables(leader, now)));
        }
        changes
    }

    /// Returns the tables that a server answers with: those of the leader, or its own.
    fn shares(&self, server: usize) -> &Shares {
        let of_leader = self.store.as_ref().and_then(|store| store.decision.as_ref()).filter(|_| server > 0);
        of_leader.unwrap_or_else(|| self.servers[server].balancer.shares())
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
        let table = &self.shares(server).tables[class];
        let answered = table.costs.get(usize::from(table.slots[query.demand.slot()]));
        let Some(cluster) = answered.map(|(cluster, _)| cluster.clone()) else { return };
        self.servers[server].balancer.count_query(&Counted { class, query, cluster: &cluster, at });
    }

    /// A load report arrives at all servers.
    pub(super) fn add_report(&mut self, report: &LoadReport, now: Instant) {
        let outcomes: Vec<Outcome> = self.balancers().map(|balancer| balancer.add_report(report, now)).collect();
        if let Some(store) = self.store.as_mut().filter(|_| outcomes[0] != Outcome::Ignored) {
            store.last_report = Some(now);
        }
    }

    /// Notes that a cluster can be answered, or cannot.
    pub(super) fn set_available(&mut self, cluster: &ClusterName, is_available: bool, now: Instant) {
        let cluster = cluster.clone().into();
        self.balancers().for_each(|balancer| balancer.set_available(&cluster, is_available, now));
    }

    /// All servers learn the true demand of each slot.
    pub(super) fn inform(&mut self, demands: &[Vec<f64>], now: Instant) {
        self.balancers().for_each(|balancer| balancer.inform(demands, now));
    }

    /// Every server decides anew, or follows the leader.
    pub(super) fn step(&mut self, now: Instant) {
        let decision = self.store.as_ref().and_then(|store| store.decision.as_ref());
        for (number, server) in self.servers.iter_mut().enumerate() {
            match decision.filter(|_| number > 0) {
                Some(leader) => server.balancer.learn(leader, now),
                None => server.balancer.step(now),
            }
        }
    }

    /// Computes the runtime states for new shares, health or pool.
    pub(super) fn update_runtimes(&mut self, steering: &Steering, health: &[Health], at: Timestamp) {
        for server in 0..self.servers.len() {
            self.servers[server].runtime = steering.runtime(self.shares(server), health, at);
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

    /// Restarts load control of all servers with these groups: with the saved states, or without. All clusters count as available. A
    /// server that stops gives up the lead.
    pub(super) fn restart(&mut self, groups: &[Group], keeps_state: bool, now: Instant) {
        for balancer in self.balancers() {
            let saved: Option<Saved> = keeps_state.then(|| balancer.save());
            *balancer = Balancer::new(groups.to_vec(), now, saved.as_ref());
        }
        if let Some(store) = &mut self.store {
            (store.decision, store.last_report) = (None, None);
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
        let declared = |name: &Backend| {
            let cluster = &scenario.clusters[cluster_index(scenario, &name.cluster)];
            Declared {
                name: name.clone(),
                capacity: cluster.capacity,
                target: cluster.soft,
                limit: Permille::new(1000).unwrap_or_default(),
                is_weighed: false,
            }
        };
        Group {
            clusters: group.clusters.iter().map(declared).collect(),
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
    fn start(keys: Value) -> (Scenario, Population, Steering, Servers, Instant) {
        let mut file = json!({
            "version": 1, "title": "test", "ttl": 30, "length": 1, "offered": 0.6, "seeds": [],
            "clusters": [
                { "name": "a", "capacity": 100, "near": 0.4 }, { "name": "b", "capacity": 100, "near": 0.3 },
                { "name": "c", "capacity": 200, "near": 0.3 },
            ],
            "clients": { "networks": 400, "zipf": 0.4 }, "reports": { "every": 10, "late": 10 },
        });
        let Value::Object(mut keys) = keys else { panic!("not an object: {keys}") };
        file.as_object_mut().unwrap().append(&mut keys);
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
    fn leader_knows_the_demand_that_others_have_evidence_of() {
        let shared = json!({ "servers": [0.7, 0.3], "sharedStore": true });
        let (scenario, population, steering, mut servers, now) = start(shared);
        let at = send_queries(&scenario, &population, &steering, &mut servers, now);
        servers.publish(at);
        for (sequence, cluster) in (1..).zip(&scenario.clusters) {
            let (backend, signal) = (cluster.name.clone().into(), fairway_model::LoadSignal::InFlight);
            servers.add_report(&LoadReport { backend, load: fairway_model::Load(500), signal, sequence, at }, at);
        }
        servers.step(at);
        let classes = servers.servers[0].balancer.save().classes;
        for network in (0..).take(population.networks.len()) {
            let (class, slot) = (steering.load_class(network).unwrap(), steering.evidence(network).demand.slot());
            assert!(classes[class].slots[slot].demand > 0.0, "network {network}");
        }
    }

    /// Lets every network send queries. Returns the time of the last ones.
    fn send_queries(
        scenario: &Scenario,
        population: &Population,
        steering: &Steering,
        servers: &mut Servers,
        now: Instant,
    ) -> Instant {
        // A count of queries ends with the first one after a TTL.
        for ttl in 0..3 {
            for network in (0..).take(population.networks.len()) {
                let (class, query) = (steering.load_class(network).unwrap(), steering.evidence(network));
                let cluster = &scenario.clusters[0].name.clone().into();
                let at = now + ttl * scenario.ttl;
                servers.count_query(network, &Counted { class, query, cluster, at });
            }
        }
        now + 2 * scenario.ttl
    }

    #[test]
    fn each_server_counts_only_the_queries_of_its_networks() {
        let (scenario, population, steering, mut servers, now) = start(json!({ "servers": [0.7, 0.3] }));
        send_queries(&scenario, &population, &steering, &mut servers, now);
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
        let (_, population, mut steering, servers, _) = start(json!({ "start": "one" }));
        let answers = answers(&mut steering, &servers, population.networks.len());
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    }

    #[test]
    fn mirror_start_answers_with_far_clusters_below_their_targets() {
        let (scenario, population, mut steering, servers, _) = start(json!({ "start": "mirror" }));
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

    #[test]
    fn followers_answer_with_the_tables_of_a_leader_that_has_recent_reports() {
        let (scenario, population, mut steering, mut servers, now) =
            start(json!({ "servers": [0.7, 0.3], "sharedStore": true }));
        let [first, second] = [0, 1].map(|server| (0..400).find(|network| servers.server(*network) == server).unwrap());
        let health = vec![Health::new(fairway_model::HealthStatus::Up, None); 3];
        let up = &health;
        let mut answered = move |servers: &mut Servers, network: u32| {
            servers.update_runtimes(&steering, up, scenario.begins);
            let of_server = servers.server(network);
            let own = (0..).take(population.networks.len()).filter(|network| servers.server(*network) == of_server);
            let answers = own.map(|network| {
                let runtime = Arc::clone(servers.runtime(network));
                steering.answer(network, fairway_zones::Draw(0), &runtime).first().unwrap()
            });
            answers.collect::<std::collections::BTreeSet<usize>>()
        };
        let backend = scenario.clusters[0].name.clone().into();
        // Only the leader takes the first cluster for unavailable.
        servers.servers[0].balancer.set_available(&backend, false, now);
        servers.step(now);
        assert!(!servers.publish(now), "no report has arrived");
        assert_eq!(answered(&mut servers, second), [0, 1, 2].into(), "own tables");
        let report = LoadReport {
            backend,
            load: fairway_model::Load(500),
            signal: fairway_model::LoadSignal::InFlight,
            sequence: 1,
            at: now,
        };
        servers.add_report(&report, now);
        assert!(servers.publish(now));
        assert_eq!(answered(&mut servers, second), [1, 2].into(), "tables of the leader");
        assert_eq!(answered(&mut servers, first), [1, 2].into());
        let later = now + 3 * Duration::from_secs(10);
        assert!(!servers.publish(later - Duration::from_millis(1)), "the report counts for three periods");
        assert!(servers.publish(later));
        assert_eq!(
            answered(&mut servers, second),
            [1, 2].into(),
            "the leader has resigned; it goes on from its tables"
        );
    }
}
