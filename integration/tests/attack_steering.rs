//! Packets cannot move traffic: a flood of queries with random client subnets, from a source that proves nothing or from one that is
//! proven, while honest clients are balanced over two clusters by load.

use std::{
    hash::{BuildHasher, RandomState},
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use fairway_integration::{
    load::{Reply, connect_from, prove_source, receive},
    query::{ECS, Opt, Query},
    real::{Fairway, free_port, http_json},
};
use fairway_model::{Rtype, SplitMix};

/// The steered name.
const NAME: &str = "www.gslb.example";
/// TTL of the answers, and with it the time in which each honest network sends one query.
const TTL: Duration = Duration::from_secs(1);
/// Honest client networks, and the load of each. Together they are 60 % of what both clusters carry.
const NETWORKS: u8 = 60;
const LOAD: f64 = 20.0;
const CAPACITY: f64 = 1_000.0;
/// Resolvers that send the queries of the honest networks.
const RESOLVERS: u8 = 12;
/// Share of the first cluster that is right: all networks rank it first, and it is used to its target of 80 %.
const RIGHT_SHARE: f64 = 0.8 * CAPACITY / (LOAD * NETWORKS as f64) * 100.0;
const SETTLE_TTLS_MAX: usize = 90;
/// TTLs that a flood lasts.
const FLOOD_TTLS: u32 = 20;
/// Scenes in which a flood must move traffic to count as one that does.
const SCENES: u32 = 3;
/// TTLs within which every client has an answer without a cluster that failed.
const LEAVE_TTLS: u32 = 2;
/// Rounds per TTL: in each of them a part of the networks sends its query.
const ROUNDS: u32 = 4;
/// Address of the attacker. It proves nothing by itself.
const ATTACKER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 66));
/// Largest deviation from the quiet share, in points. A proven source may disturb more, but never so much that a cluster gets more than
/// its capacity.
const DEVIATION_MAX: f64 = 5.0;
const PROVEN_DEVIATION_MAX: f64 = CAPACITY / (LOAD * NETWORKS as f64) * 100.0 - RIGHT_SHARE;

/// Largest deviation from the right share, in points and in the mean of six TTLs, that a cluster has some time after its return.
const RETURN_DEVIATION_MAX: f64 = 10.0;

/// Two clusters, honest clients, and the load that they cause, which is pushed.
struct Scene {
    server: Fairway,
    /// One for each resolver of the honest networks.
    sockets: Vec<UdpSocket>,
    /// Cluster of the last answer of each network.
    at: Vec<usize>,
    sequence: u64,
    next_round: Instant,
}

impl Scene {
    fn start() -> Self {
        Self::start_with("evidence: { challenge: false }")
    }

    /// Starts with this section of the configuration.
    fn start_with(evidence: &str) -> Self {
        // Nothing listens there: the source only sets the period, and the loads are pushed.
        let port = free_port();
        let cluster = |name: &str, last: u8| {
            format!(
                "  - {{ name: {name}, addresses: [192.0.2.{last}], capacity: {CAPACITY}, load: gw, scrape: [\"127.0.0.1:{port}\"] }}\n"
            )
        };
        let config = format!(
            "{evidence}
load: [{{ name: gw, type: prometheus, period: 1s }}]
clusters:\n{}{}monitors: [{{ name: unchecked, type: always }}]
zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
pools: [{{ name: shop, policy: [tier, load, weighted], ttl: {}s, monitor: unchecked, members: [{{ cluster: eu1 }}, {{ cluster: us1, tier: 2 }}] }}]
names: [{{ name: www.gslb.example, pool: shop }}]
",
            cluster("eu1", 1),
            cluster("us1", 2),
            TTL.as_secs()
        );
        let server = Fairway::start(&config, &[]);
        let sockets = (0..RESOLVERS).map(|number| {
            let address = [127, 0, 65, number].into();
            // It has shown once that it receives answers.
            prove_source(server.dns, address, NAME);
            connect_from(address, server.dns)
        });
        let sockets = sockets.collect();
        Self { server, sockets, at: vec![0; usize::from(NETWORKS)], sequence: 0, next_round: Instant::now() }
    }

    /// Plays this many TTLs; returns the mean share of the first cluster in each, in per cent.
    fn play(&mut self, ttls: u32) -> Vec<f64> {
        let play = |_| (0..ROUNDS).map(|round| self.round(round)).sum::<f64>() / f64::from(ROUNDS);
        (0..ttls).map(play).collect()
    }

    /// Plays a part of a TTL: a part of the networks queries, and both clusters report their load.
    fn round(&mut self, round: u32) -> f64 {
        thread::park_timeout(self.next_round.saturating_duration_since(Instant::now()));
        self.next_round = self.next_round.max(Instant::now() - TTL) + TTL / ROUNDS;
        for network in (0..NETWORKS).filter(|network| u32::from(*network) % ROUNDS == round) {
            let packet = question(u16::from(network), vec![0, 1, 24, 0, 198, 18, network]);
            let socket = &self.sockets[usize::from(network % RESOLVERS)];
            socket.send(&packet).expect("loopback takes it");
            let octets = receive(socket, u16::from(network)).expect("honest clients are answered");
            let reply = Reply::read(&octets).expect("a sound answer");
            // A challenge has no addresses: the resolver would send the query again.
            if !reply.addresses.is_empty() {
                self.at[usize::from(network)] = usize::from(reply.is(&["192.0.2.2"]));
            }
        }
        let first = self.at.iter().filter(|cluster| **cluster == 0).count() as f64;
        self.sequence += 1;
        for (cluster, networks) in [("eu1", first), ("us1", f64::from(NETWORKS) - first)] {
            let used = networks * LOAD;
            let body = format!(r#"{{"used": {used}, "sequence": {}, "validFor": "10s"}}"#, self.sequence);
            let (status, text) =
                http_json(self.server.http, "PUT", &format!("/v1/load/{cluster}"), &body).expect("it answers");
            assert!(status < 300, "{status} {text}");
        }
        first / f64::from(NETWORKS) * 100.0
    }

    /// Plays until the share is the right one for some TTLs; returns it, or `None` if that takes too long.
    fn settle(&mut self) -> Option<f64> {
        let mut shares = self.play(6);
        while shares.len() < SETTLE_TTLS_MAX {
            let last = &shares[shares.len() - 6..];
            if last.iter().all(|share| (share - RIGHT_SHARE).abs() < 1.7) {
                println!("settled after {} TTLs", shares.len());
                return Some(last.iter().sum::<f64>() / 6.0);
            }
            shares.extend(self.play(1));
        }
        println!("no steady share: {shares:.1?}");
        None
    }

    /// Plays a flood; returns how far it moved traffic at most, in points, while it lasted and three TTLs later. `None` if the scene does not
    /// settle, or if honest load reports were rejected.
    fn flood(&mut self, flood: &Flood) -> Option<f64> {
        let quiet = self.settle()?;
        let rejected = |scene: &Self| scene.server.metric("fairway_load_reports_rejected_total", "");
        let rejected_before = rejected(self);
        let sending = flood.start(self.server.dns);
        let during = self.play(FLOOD_TTLS);
        let sent = sending.stop();
        let after = self.play(4);
        let rejected = rejected(self) - rejected_before;
        println!(
            "{flood:?}: {sent} sent; quiet {quiet:.1} %, during {during:.1?}, after {after:.1?}; {rejected} reports rejected"
        );
        // Of the rate that a busy machine can send.
        assert!(sent >= u64::from(flood.rate * FLOOD_TTLS) / 2, "only {sent} packets were sent");
        let off = during.iter().chain(&after[3..]).map(|share| (share - quiet).abs()).fold(0.0, f64::max);
        (rejected == 0.0).then_some(off)
    }
}

/// Returns a query with this client subnet option.
fn question(id: u16, subnet: Vec<u8>) -> Vec<u8> {
    let edns = Some(Opt { options: vec![(ECS, subnet)], ..Opt::default() });
    Query { id, edns, ..Query::new(NAME.parse().expect("a name"), Rtype::A) }.encode()
}

/// A flood of queries with random client subnets.
#[derive(Debug)]
struct Flood {
    /// Packets a second.
    rate: u32,
    /// Address family of the subnets, 1 or 2.
    family: u8,
    /// Number of subnets that are drawn; each is sent again and again.
    subnets: u64,
    seed: u64,
}

impl Flood {
    /// Another flood in each run; its seed is printed.
    fn new(rate: u32, family: u8) -> Self {
        let seed = RandomState::new().hash_one(rate);
        Self { rate, family, subnets: u64::MAX, seed }
    }

    /// Starts a thread that sends the queries and reads no answer.
    fn start(&self, server: SocketAddr) -> Sending {
        let stop = Arc::new(AtomicBool::new(false));
        let socket = UdpSocket::bind((ATTACKER, 0)).expect("loopback has the address");
        let Self { rate, family, subnets, seed, .. } = *self;
        let stopping = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (begun, mut sent, mut random) = (Instant::now(), 0, SplitMix::new(seed));
            while !stopping.load(Ordering::Relaxed) {
                let due = (begun.elapsed().as_secs_f64() * f64::from(rate)) as u64;
                for _ in sent..due {
                    let bits = SplitMix::new(seed ^ (random.bits() % subnets)).bits().to_be_bytes();
                    let subnet = match family {
                        1 => [&[0, 1, 24, 0], &bits[..3]].concat(),
                        _ => [&[0, 2, 56, 0, 0x20], &bits[..6]].concat(),
                    };
                    // A full buffer loses a packet of the attacker, which harms nobody else.
                    let _ = socket.send_to(&question(random.bits() as u16, subnet), server);
                }
                sent = sent.max(due);
                thread::park_timeout(Duration::from_millis(5));
            }
            sent
        });
        Sending { stop, thread }
    }
}

/// A flood that is being sent.
struct Sending {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Sending {
    /// Stops it; returns the number of packets that were sent.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// Plays a flood; fails if it moves traffic. A busy machine may delay queries and reports so much that shares move by themselves, so a flood
/// only fails that does so in several scenes in a row.
fn expect_no_effect(flood: &Flood, is_proven: bool) {
    let max = if is_proven { PROVEN_DEVIATION_MAX } else { DEVIATION_MAX };
    let is_harmless = |_| {
        let mut scene = Scene::start();
        if is_proven {
            prove_source(scene.server.dns, ATTACKER, NAME);
        }
        scene.flood(flood).is_some_and(|deviation| deviation <= max)
    };
    assert!((0..SCENES).any(is_harmless), "{flood:?} moved traffic in each of {SCENES} scenes");
}

#[test]
fn flood_of_random_client_subnets_moves_no_traffic() {
    for (rate, family) in [(100, 1), (2_000, 2)] {
        expect_no_effect(&Flood::new(rate, family), false);
    }
}

#[test]
fn flood_hides_neither_the_end_nor_the_return_of_a_cluster() {
    let mut scene = Scene::start();
    scene.settle().expect("a steady share");
    let sending = Flood::new(2_000, 1).start(scene.server.dns);
    let down = r#"{"scope": "eu1", "action": "down", "reason": "it fails", "forSecs": 600}"#;
    let (status, answer) = http_json(scene.server.http, "POST", "/v1/overrides?confirm=true", down).expect("an answer");
    assert_eq!(status, 201, "{answer}");
    scene.play(LEAVE_TTLS);
    let without = scene.play(5);
    assert!(without.iter().all(|share| *share == 0.0), "clients of the first cluster: {without:.1?} %");
    let added: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let path = format!("/v1/overrides/{}", added["id"].as_str().expect("an id"));
    let (status, answer) = http_json(scene.server.http, "DELETE", &path, "").expect("an answer");
    assert!(status < 300, "{status} {answer}");
    let mut shares = scene.play(6);
    let mean = |shares: &[f64]| shares[shares.len() - 6..].iter().sum::<f64>() / 6.0;
    while (mean(&shares) - RIGHT_SHARE).abs() > RETURN_DEVIATION_MAX && shares.len() < SETTLE_TTLS_MAX {
        shares.extend(scene.play(1));
    }
    let sent = sending.stop();
    println!("{sent} packets sent; shares after the return: {shares:.1?} %");
    assert!(
        (mean(&shares) - RIGHT_SHARE).abs() <= RETURN_DEVIATION_MAX,
        "the first cluster does not get its share: {shares:.1?} %"
    );
}

#[test]
fn flood_from_a_proven_source_overloads_no_cluster() {
    // The networks are repeated: that makes none larger.
    expect_no_effect(&Flood { subnets: 200, ..Flood::new(2_000, 2) }, true);
}

/// Sends this many queries over UDP from a source that has proven nothing; returns the number of truncated answers.
fn challenges(server: &Fairway, queries: u32) -> usize {
    let socket = connect_from(ATTACKER, server.dns);
    let is_truncated = |number: u32| {
        let id = number as u16;
        socket.send(&question(id, vec![0, 1, 24, 0, 198, 18, 1])).expect("loopback takes it");
        let octets = receive(&socket, id).expect("an answer");
        octets[2] & 2 != 0 && Reply::read(&octets).is_some_and(|reply| reply.rcode == 0 && reply.addresses.is_empty())
    };
    (0..queries).filter(|number| is_truncated(*number)).count()
}

#[test]
fn source_that_proves_nothing_is_asked_once_to_come_over_tcp_and_counts_then() {
    // One query in 1,024 is drawn: none of 20,000 once in 10⁸ runs.
    const QUERIES: u32 = 20_000;
    let mut scene = Scene::start_with("evidence: { challenge: true }");
    scene.play(3);
    let sources = |scene: &Scene| scene.server.metric("fairway_demand_sources", "");
    // The honest source may have been asked as well: a worker does not know who has come over TCP.
    let counted = |scene: &Scene| scene.server.metric("fairway_demand_challenges_total", "");
    let (before, earlier) = (sources(&scene), counted(&scene));
    let asked = challenges(&scene.server, QUERIES);
    assert_eq!(asked, 1, "once by all workers together");
    assert_eq!(counted(&scene) - earlier, asked as f64);
    scene.play(2);
    assert_eq!(sources(&scene), before, "20,000 queries prove nothing");
    prove_source(scene.server.dns, ATTACKER, NAME);
    scene.play(3);
    assert_eq!(sources(&scene), before + 1.0);
}

#[test]
fn challenge_that_is_off_is_never_sent() {
    let scene = Scene::start_with("evidence: { challenge: false }");
    assert_eq!(challenges(&scene.server, 10_000), 0);
}

#[test]
#[ignore = "takes minutes; see bench/README.md"]
fn flood_of_every_rate_for_twenty_ttls_moves_no_traffic() {
    for is_proven in [false, true] {
        for (rate, family) in [20, 100, 2_000].into_iter().flat_map(|rate| [(rate, 1), (rate, 2)]) {
            expect_no_effect(&Flood::new(rate, family), is_proven);
        }
    }
}
