//! A rolling update of the chart's Deployment under queries, played with the values of the rendered chart: the Deployment controller, the
//! kubelets and the Service are parts of this test, the servers are real. Each Pod has an address of loopback.

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fairway_integration::{
    cluster::Cluster,
    load::{Reply, Tally, query, receive},
    real::{Process, SetAtEnd, fairway_binary, free_port, http_get},
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{LIMIT, dry_run, only, pod_of, template};

const NAME: &str = "shop.gslb.example";

/// Delays of those who distribute queries: kube-proxy on two nodes, and a load balancer that checks the nodes every few seconds.
const DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(10)];
/// Queries at once of each, over UDP.
const BATCH: usize = 4;
/// Pause between them: 400 queries a second of each on an idle machine, at least 500 of all on a busy one.
const PAUSE: Duration = Duration::from_millis(10);

/// Times and limits of the rendered Deployment.
#[derive(Debug)]
struct Rules {
    replicas: usize,
    surge: usize,
    unavailable: usize,
    min_ready: Duration,
    probe_period: Duration,
    failures_max: u32,
    pre_stop: Duration,
    grace: Duration,
}

impl Rules {
    fn read(deployment: &Value) -> Self {
        let spec = &deployment["spec"];
        let pod = pod_of(deployment)["spec"].clone();
        let container = &pod["containers"][0];
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number: {value}"));
        let count = |value: &Value| usize::try_from(number(value)).expect("a small number");
        let seconds = |value: &Value| Duration::from_secs(number(value));
        let (update, probe) = (&spec["strategy"]["rollingUpdate"], &container["readinessProbe"]);
        Self {
            replicas: count(&spec["replicas"]),
            surge: count(&update["maxSurge"]),
            unavailable: count(&update["maxUnavailable"]),
            min_ready: seconds(&spec["minReadySeconds"]),
            probe_period: seconds(&probe["periodSeconds"]),
            failures_max: number(&probe["failureThreshold"]).try_into().expect("a small number"),
            pre_stop: seconds(&container["lifecycle"]["preStop"]["sleep"]["seconds"]),
            grace: seconds(&pod["terminationGracePeriodSeconds"]),
        }
    }
}

/// A Pod, with what its kubelet knows.
struct Pod {
    is_new: bool,
    dns: SocketAddr,
    health: SocketAddr,
    process: Process,
    probed: Instant,
    failures: u32,
    ready_since: Option<Instant>,
    /// Time at which the Pod was deleted.
    deleted: Option<Instant>,
    has_signal: bool,
}

impl Pod {
    fn is_available(&self, rules: &Rules) -> bool {
        self.deleted.is_none() && self.ready_since.is_some_and(|since| since.elapsed() >= rules.min_ready)
    }

    /// Probes the server when that is due.
    fn probe(&mut self, rules: &Rules) {
        if self.probed.elapsed() < rules.probe_period {
            return;
        }
        self.probed = Instant::now();
        if http_get(self.health, "/readyz").is_some_and(|(status, _)| status == 200) {
            self.failures = 0;
            self.ready_since.get_or_insert_with(Instant::now);
        } else {
            self.failures += 1;
            if self.failures >= rules.failures_max {
                self.ready_since = None;
            }
        }
    }

    /// Ends the server by the steps of a kubelet; returns true once it has ended. Panics if it would be killed.
    fn end(&mut self, rules: &Rules) -> bool {
        let Some(deleted) = self.deleted else { return false };
        if !self.has_signal && deleted.elapsed() >= rules.pre_stop {
            self.has_signal = true;
            self.process.signal("TERM");
        }
        let is_running = self.process.is_running();
        assert!(
            !is_running || deleted.elapsed() < rules.grace,
            "killed after {:?}: {}",
            rules.grace,
            self.process.output()
        );
        !is_running
    }
}

/// The endpoints of the Service, as its controller publishes them, each version with its time.
#[derive(Default)]
struct Endpoints(Mutex<Vec<(Instant, Vec<SocketAddr>)>>);

impl Endpoints {
    /// Publishes the ready Pods that are not terminating; without any, the ready ones that are, as kube-proxy uses them.
    fn publish(&self, pods: &[Pod]) {
        let ready = |is_deleted: bool| {
            let of = pods.iter().filter(move |pod| pod.ready_since.is_some() && pod.deleted.is_some() == is_deleted);
            of.map(|pod| pod.dns).collect::<Vec<_>>()
        };
        let next = Some(ready(false)).filter(|ready| !ready.is_empty()).unwrap_or_else(|| ready(true));
        let mut versions = self.0.lock().expect("nobody panics with it");
        if versions.last().is_none_or(|(_, last)| *last != next) {
            versions.push((Instant::now(), next));
        }
    }

    /// Returns the endpoints as they were this long ago, or the first ones.
    fn seen(&self, delay: Duration) -> Vec<SocketAddr> {
        let versions = self.0.lock().expect("nobody panics with it");
        let known = versions.iter().rev().find(|(at, _)| at.elapsed() >= delay);
        known.or_else(|| versions.first()).expect("there is a first version").1.clone()
    }
}

/// The Deployment with its Pods.
struct Deployment<'a> {
    rules: Rules,
    pods: Vec<Pod>,
    endpoints: &'a Endpoints,
    folder: TempDir,
    ports: [u16; 2],
    started: u8,
}

impl<'a> Deployment<'a> {
    fn new(objects: &[Value], endpoints: &'a Endpoints) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let files = only(objects, "ConfigMap")["data"].as_object().expect("files").clone();
        fs::create_dir(folder.path().join("config")).expect("the folder can be written");
        for (name, text) in files {
            // Gateways that are on this machine if anywhere: nothing listens there, so the Pods also start with a failing round of probes.
            let text = text.as_str().expect("text").replace("203.0.113.", "127.0.54.");
            fs::write(folder.path().join("config").join(name), text).expect("the folder can be written");
        }
        let rules = Rules::read(only(objects, "Deployment"));
        Self { rules, pods: Vec::new(), endpoints, folder, ports: [free_port(), free_port()], started: 0 }
    }

    fn start_pod(&mut self, is_new: bool) {
        self.started += 1;
        let at = |port| SocketAddr::from((Ipv4Addr::new(127, 0, 53, self.started), port));
        let [dns, health] = self.ports.map(at);
        let path = |name: &str| self.folder.path().join(name);
        let mut command = std::process::Command::new(fairway_binary());
        command.env_remove("FAIRWAY_PARTS").arg("serve").arg("--config").arg(path("config"));
        command.arg("--data-dir").arg(path(&format!("data-{}", self.started)));
        command.env("FAIRWAY_LISTEN_DNS", dns.to_string()).env("FAIRWAY_LISTEN_HEALTH", health.to_string());
        command.env("FAIRWAY_LISTEN_HTTP", "off");
        let process = Process::start(&mut command, &path(&format!("log-{}", self.started)));
        let (probed, failures) = (Instant::now(), 0);
        self.pods.push(Pod {
            is_new,
            dns,
            health,
            process,
            probed,
            failures,
            ready_since: None,
            deleted: None,
            has_signal: false,
        });
    }

    /// Lets the kubelets and the Service do what is due.
    fn step(&mut self) {
        let rules = &self.rules;
        self.pods.iter_mut().for_each(|pod| pod.probe(rules));
        self.pods.retain_mut(|pod| !pod.end(rules));
        self.endpoints.publish(&self.pods);
        std::thread::park_timeout(Duration::from_millis(20));
    }

    /// Steps until the Pods are as wanted.
    fn step_until(&mut self, what: &str, mut check: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + 2 * LIMIT;
        while !check(self) {
            assert!(Instant::now() < end, "{what}: {}", self.pods[0].process.output());
            self.step();
        }
    }

    /// Replaces the old Pods by new ones; returns true at the end. (Deployment controller, RollingUpdate: scales up to the surge, then down
    /// by as many as are available beyond the minimum.)
    fn update(&mut self) -> bool {
        let (rules, living) = (&self.rules, |pod: &&Pod| pod.deleted.is_none());
        let (total, new) =
            (self.pods.iter().filter(living).count(), self.pods.iter().filter(living).filter(|pod| pod.is_new).count());
        if new < rules.replicas && total < rules.replicas + rules.surge {
            self.start_pod(true);
            return false;
        }
        let available = self.pods.iter().filter(|pod| pod.is_available(rules)).count();
        let old = self.pods.iter_mut().find(|pod| !pod.is_new && pod.deleted.is_none());
        if let Some(old) = old
            && available + rules.unavailable > rules.replicas
        {
            old.deleted = Some(Instant::now());
        }
        self.pods.iter().all(|pod| pod.is_new) && available == rules.replicas
    }
}

/// True if the answer is of the pool.
fn is_right(octets: &[u8]) -> bool {
    let pool = [10, 20].map(|last| IpAddr::from([127, 0, 54, last]));
    Reply::read(octets).is_some_and(|reply| {
        reply.rcode == 0 && reply.addresses.iter().all(|of| pool.contains(of)) && !reply.addresses.is_empty()
    })
}

/// Sends queries to the endpoints in turn until `stop`, `BATCH` at once.
fn query_over_udp(endpoints: &Endpoints, delay: Duration, stop: &AtomicBool) -> Tally {
    let sockets: [UdpSocket; BATCH] = std::array::from_fn(|_| {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("loopback has the address");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("the timeout is not zero");
        socket
    });
    let (mut tally, mut id) = (Tally::default(), 0_u16);
    while !stop.load(Ordering::Relaxed) {
        let seen = endpoints.seen(delay);
        let sent = sockets.each_ref().map(|socket| {
            (id, tally.asked) = (id.wrapping_add(1), tally.asked + 1);
            let server = seen[usize::from(id) % seen.len()];
            (id, socket.connect(server).and_then(|()| socket.send(&query(NAME, id))).is_ok())
        });
        for (socket, (id, is_sent)) in sockets.iter().zip(sent) {
            match is_sent.then(|| receive(socket, id)).flatten() {
                Some(octets) if is_right(&octets) => {}
                Some(octets) => tally.wrong.push(format!("{:?}", Reply::read(&octets))),
                None => tally.lost += 1,
            }
        }
        std::thread::park_timeout(PAUSE);
    }
    tally
}

/// Sends queries until `stop`, each over a TCP connection of its own.
fn query_over_tcp(endpoints: &Endpoints, delay: Duration, stop: &AtomicBool) -> Tally {
    let mut tally = Tally::default();
    let exchange = |server: &SocketAddr| -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(server, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let packet = query(NAME, 1);
        stream.write_all(&[&(packet.len() as u16).to_be_bytes(), &packet[..]].concat())?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut octets = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut octets)?;
        Ok(octets)
    };
    while !stop.load(Ordering::Relaxed) {
        let seen = endpoints.seen(delay);
        tally.asked += 1;
        match exchange(&seen[tally.asked as usize % seen.len()]) {
            Ok(octets) if is_right(&octets) => {}
            Ok(octets) => tally.wrong.push(format!("{:?}", Reply::read(&octets))),
            Err(_) => tally.lost += 1,
        }
        std::thread::park_timeout(PAUSE);
    }
    tally
}

/// Queries over UDP and TCP from everywhere while `during` runs. Returns both results and the time that it took.
fn under_queries(endpoints: &Endpoints, during: impl FnOnce()) -> ([Tally; 2], Duration) {
    let (stop, started) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let stop = &stop;
        let udp = DELAYS.map(|delay| scope.spawn(move || query_over_udp(endpoints, delay, stop)));
        let tcp = DELAYS.map(|delay| scope.spawn(move || query_over_tcp(endpoints, delay, stop)));
        let end = SetAtEnd(stop);
        during();
        let took = started.elapsed();
        drop(end);
        let sum = [udp, tcp].map(|threads| {
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).fold(
                Tally::default(),
                |mut sum, one| {
                    (sum.asked, sum.lost) = (sum.asked + one.asked, sum.lost + one.lost);
                    sum.wrong.extend(one.wrong);
                    sum
                },
            )
        });
        (sum, took)
    })
}

#[test]
fn rolling_update_by_the_rules_of_the_chart_loses_no_query() {
    let cluster = Cluster::start("eu1");
    cluster.kubectl(&["create", "namespace", "fairway"]);
    let objects = dry_run(&cluster, &template("fairway", &[]).expect("valid")).expect("accepted");
    drop(cluster);
    let endpoints = Endpoints::default();
    let mut deployment = Deployment::new(&objects, &endpoints);
    assert!(deployment.rules.pre_stop > DELAYS[2], "load balancers get no time: {:?}", deployment.rules);
    for _ in 0..deployment.rules.replicas {
        deployment.start_pod(false);
    }
    deployment.step_until("the old Pods are ready", |all| all.pods.iter().all(|pod| pod.ready_since.is_some()));
    // The first version that clients see has both.
    *endpoints.0.lock().expect("nobody panics with it") = vec![];
    endpoints.publish(&deployment.pods);

    let ([udp, tcp], took) =
        under_queries(&endpoints, || deployment.step_until("all Pods are new", |all| all.update()));
    println!("{took:?}: {} of {} queries lost over UDP, {} of {} over TCP", udp.lost, udp.asked, tcp.lost, tcp.asked);
    udp.expect_whole(500 * took.as_secs());
    tcp.expect_whole(20 * took.as_secs());
    assert_eq!(deployment.started, 2 * u8::try_from(deployment.rules.replicas).expect("few"), "each was replaced");

    // Without the pause of preStop queries are lost, so this test would see them.
    deployment.rules.pre_stop = Duration::ZERO;
    let ([udp, _], _) = under_queries(&endpoints, || {
        deployment.pods[0].deleted = Some(Instant::now());
        deployment.step_until("the Pod has ended", |all| all.pods.len() == 1);
        deployment.step_until("its queries are lost", {
            let end = Instant::now() + DELAYS[0];
            move |_| Instant::now() >= end
        });
    });
    assert!(udp.lost > 0, "{} queries were asked, and none was lost", udp.asked);
}
