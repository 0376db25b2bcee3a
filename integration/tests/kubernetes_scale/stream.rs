//! 50 changes of objects a second next to 20,000 queries a second: latency of the answers, compared with windows in which nothing changes.
//!
//! The changes are made at a real API server first, and recorded as it answers them. They are played during the measurement, so that no API
//! server takes processor time then. The server runs on core 0, everything else on core 1.

use std::{
    collections::HashMap,
    env, fs,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::Command,
    sync::Arc,
    thread,
    time::Instant,
};

use fairway_integration::{
    cluster::{Cluster, LIMIT},
    load::connect,
    real::{Fairway, Process, fairway_binary, free_port, head, root, serve, wait_until},
};
use fairway_model::SplitMix;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Api, CLUSTERS, Client, GATEWAY_SERVICE, GATEWAYS, MOVED, NAMES, address, cluster, config, endpoints, host, memory,
    names, namespace,
    player::{Change, Player, Recording},
    slice_path, virtual_service_path,
};

/// Changes a second.
const RATE: usize = 50;
/// Longest window, in seconds.
const WINDOW_MAX: usize = 30;

const SERVICES: &str = "/api/v1/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const VIRTUAL_SERVICES: &str = "/apis/networking.istio.io/v1/virtualservices";
/// Further paths that the server reads of an API server with Istio's kinds.
const OTHERS: [&str; 3] =
    ["/apis/networking.istio.io/v1", "/apis/networking.istio.io/v1/gateways", "/apis/networking.k8s.io/v1/ingresses"];

/// Returns the number that a variable has, or this one.
fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// The objects of the first cluster that change.
struct Objects {
    /// True if the endpoints of the service with this index are ready.
    ready: Vec<bool>,
    /// True if the VirtualService with this index has its other host.
    moved: Vec<bool>,
    /// True if it leads to the service with the next index.
    is_next: Vec<bool>,
    gateway: &'static str,
    /// Numbers of changes: endpoints, hosts, routes, addresses of the gateway.
    counts: [usize; 4],
}

impl Objects {
    fn new(count: usize) -> Self {
        let none = || vec![false; count];
        Self { ready: vec![true; count], moved: none(), is_next: none(), gateway: GATEWAYS[0], counts: [0; 4] }
    }

    /// Returns the index of the service that a VirtualService leads to.
    fn service_of(&self, index: usize) -> usize {
        (index + usize::from(self.is_next[index])) % self.ready.len()
    }

    /// Returns true if the cluster has a ready endpoint for the VirtualService with this index.
    fn is_ready(&self, index: usize) -> bool {
        self.ready[self.service_of(index)]
    }

    /// Draws a change, of 1,000: 900 of endpoints, 60 of hosts, 38 of routes, 2 of the gateway's address, which is that of all names.
    /// Returns the path of the list, the path of the object, and the patch.
    fn change(&mut self, random: &mut SplitMix) -> (&'static str, String, Value) {
        let index = random.below(self.ready.len() as u64) as usize;
        let (kind, what) = match random.below(1_000) {
            0..900 => {
                self.ready[index] ^= true;
                let patch = json!({ "endpoints": endpoints(index, self.ready[index]) });
                (0, (SLICES, format!("{}/n{index}", slice_path(index)), patch))
            }
            900..960 => {
                self.moved[index] ^= true;
                let host = if self.moved[index] { other_host(index) } else { host(index) };
                (1, (VIRTUAL_SERVICES, virtual_service(index), json!({ "spec": { "hosts": [host] } })))
            }
            960..998 => {
                self.is_next[index] ^= true;
                let to = self.service_of(index);
                let host = format!("n{to}.{}.svc.cluster.local", namespace(to));
                let route = json!([{ "destination": { "host": host, "port": { "number": 80 } } }]);
                (2, (VIRTUAL_SERVICES, virtual_service(index), json!({ "spec": { "http": [{ "route": route }] } })))
            }
            _ => {
                self.gateway = if self.gateway == MOVED { GATEWAYS[0] } else { MOVED };
                let ingress = json!([{ "ip": self.gateway }]);
                let patch = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
                (3, (SERVICES, GATEWAY_SERVICE.to_owned(), patch))
            }
        };
        self.counts[kind] += 1;
        what
    }
}

fn virtual_service(index: usize) -> String {
    format!("{}/n{index}", virtual_service_path(index))
}

/// Returns the other host of a VirtualService, which the second cluster does not have.
fn other_host(index: usize) -> String {
    format!("moved{index}.gslb.example")
}

/// Makes changes, and records them.
fn changes(api: &mut Api, objects: &mut Objects, random: &mut SplitMix, count: usize) -> Vec<Change> {
    let mut change = || {
        let (list, path, patch) = objects.change(random);
        let object = api.patched(&path, &patch);
        let read: Value = serde_json::from_str(&object).expect("JSON");
        let version = read["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number");
        Change { list, version, event: format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", object.trim_end()) }
    };
    (0..count).map(|_| change()).collect()
}

/// Two clusters that are played: the first one changes, and the second one has the same objects at another gateway.
struct Played {
    players: [Player; 2],
    kubeconfigs: [PathBuf; 2],
    _folder: TempDir,
}

/// Records a cluster of `count` services with `length` changes; returns the players and the objects after all changes.
fn record(count: usize, length: usize, random: &mut SplitMix) -> (Played, Objects) {
    let (recorded, access) = cluster(0, count);
    let (mut api, mut objects) = (access.connect(), Objects::new(count));
    let lists = [SERVICES, SLICES, VIRTUAL_SERVICES].into_iter().chain(OTHERS);
    let answers: HashMap<_, _> = lists.map(|path| (path.to_owned(), api.get(path))).collect();
    let begun = Instant::now();
    let changes = changes(&mut api, &mut objects, random, length);
    println!("{length} changes recorded in {:.1?}", begun.elapsed());
    let second = answers.iter().map(|(path, body)| (path.clone(), body.replace(GATEWAYS[0], GATEWAYS[1]))).collect();
    let recordings =
        [Recording { answers, changes: Arc::new(changes) }, Recording { answers: second, changes: Arc::default() }];
    (play(recordings, &recorded), objects)
}

/// Starts the players with the certificate of the recorded cluster.
fn play(recordings: [Recording; 2], recorded: &Cluster) -> Played {
    let folder = TempDir::new().expect("a temporary folder");
    let kubeconfig = recorded.kubeconfig();
    let certificates = kubeconfig.parent().expect("it is in a folder").join("certs");
    let [certificate, key] = ["apiserver.crt", "apiserver.key"].map(|name| {
        fs::copy(certificates.join(name), folder.path().join(name)).expect("kube-apiserver wrote it");
        folder.path().join(name)
    });
    let players = recordings.map(|recording| Player::start(recording, &certificate, &key));
    let kubeconfigs = [0, 1].map(|at| {
        let path = folder.path().join(CLUSTERS[at]);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: p\n\
             clusters: [ {{ name: p, cluster: {{ server: \"https://{}\", certificate-authority: \"{}\" }} }} ]\n\
             users: [ {{ name: p, user: {{ token: any }} }} ]\ncontexts: [ {{ name: p, context: {{ cluster: p, user: p }} }} ]\n",
            players[at].address,
            certificate.display()
        );
        fs::write(&path, text).expect("the folder can be written");
        path
    });
    Played { players, kubeconfigs, _folder: folder }
}

/// Starts the server on core 0, and waits until it has all names of both clusters. Moves this process to core 1.
fn start(played: &Played, count: usize) -> Fairway {
    let folder = TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let clusters = [0, 1].map(|at| (CLUSTERS[at], &*played.kubeconfigs[at]));
    // The hosts change at random, by which many names leave within ten minutes.
    let config = head(dns, http) + &config(&clusters) + "withdrawals: { holdFor: 0s, holdLastFor: 0s }\n";
    fs::write(folder.path().join("fairway.yaml"), config).expect("the folder can be written");
    let server = serve(folder.path());
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(server.get_program()).args(server.get_args()).env_remove("FAIRWAY_PARTS");
    let process = Process::start(&mut command, &folder.path().join("fairway.log"));
    let own = std::process::id().to_string();
    let moved = Command::new("taskset").args(["-a", "-c", "-p", "1", &own]).output();
    assert!(moved.is_ok_and(|output| output.status.success()), "this needs two cores, and taskset");
    let mut server = Fairway { process, folder, dns, http };
    server.wait_ready();
    wait_until("all names of both clusters are in the state", LIMIT, || names(&server) == [count as u64; 2]);
    server
}

/// Returns the answer for each name, asked from a network of its own.
fn answers(server: &Fairway, name: fn(usize) -> String, count: usize) -> Vec<Option<IpAddr>> {
    let mut client = Client { socket: connect(server.dns), id: 0 };
    (0..count).map(|index| client.ask(&name(index), index)).collect()
}

/// Returns the load generator's program, built if necessary.
fn generator() -> PathBuf {
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "fairway-bench", "--bin", "dnsgen"]).current_dir(root());
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(build.status().is_ok_and(|status| status.success()), "cargo build --package fairway-bench failed");
    fairway_binary().with_file_name("dnsgen")
}

/// Result of a window.
struct Window {
    p50: f64,
    p99: f64,
    /// Percentage of answers that could not be timed, since something else used the core.
    untimed: f64,
}

/// Sends queries for all names during a window; fails if an answer is lost or wrong.
fn window(generator: &PathBuf, server: &Fairway, seconds: usize) -> Window {
    let mut command = Command::new(generator);
    command.arg("--server").arg(server.dns.to_string()).arg("--file").arg(server.folder.path().join("queries"));
    command.args(["--rate", &number("FAIRWAY_STREAM_QUERIES", 20_000).to_string(), "--dur", &seconds.to_string()]);
    for gateway in GATEWAYS.into_iter().chain([MOVED]) {
        command.args(["--allow", &format!("{gateway}/32")]);
    }
    let output = command.output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stdout);
    let result: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!((result["wrong"].as_u64(), result["lost"].as_u64()), (Some(0), Some(0)), "wrong and lost: {text}");
    assert!(result["right"].as_u64() > Some(0), "{text}");
    let figure = |key: &str| result[key].as_f64().expect("a number");
    Window { p50: figure("p50_us"), p99: figure("p99_us"), untimed: figure("untimed") * 100.0 }
}

/// Measures the pairs of windows; returns the first and the second one of each. Prints the memory at a tenth, at half and at the end.
fn measure(server: &Fairway, player: &Player, pairs: usize, seconds: usize) -> Vec<[Window; 2]> {
    let generator = generator();
    let mut resident = Vec::new();
    let windows = (0..pairs).map(|_| {
        let without = window(&generator, server, seconds);
        let released = player.released();
        let with = thread::scope(|scope| {
            scope.spawn(|| player.release(seconds * RATE, RATE));
            window(&generator, server, seconds)
        });
        assert_eq!(player.released(), released + seconds * RATE);
        wait_until("the last change is sent to the server", LIMIT, || player.sent() == player.released());
        resident.push(memory(server, "VmRSS"));
        [without, with]
    });
    let windows: Vec<_> = windows.collect();
    for percent in [10, 50, 100] {
        let pair = (pairs * percent).div_ceil(100);
        println!("resident after {percent} % of the time: {:.1} MiB", resident[pair - 1] as f64 / 1_024.0);
    }
    println!("resident at most {:.1} MiB", memory(server, "VmHWM") as f64 / 1_024.0);
    windows
}

/// Returns median, minimum and maximum.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    format!("{:.2} [{:.2}..{:.2}]", values[values.len() / 2], values[0], values[values.len() - 1])
}

fn report(windows: &[[Window; 2]]) {
    for (at, what) in ["without", "with"].into_iter().enumerate() {
        let of = |value: fn(&Window) -> f64| spread(windows.iter().map(move |pair| value(&pair[at])));
        let [p50, p99, untimed] = [of(|window| window.p50), of(|window| window.p99), of(|window| window.untimed)];
        println!("windows {what} changes: p50 {p50} µs, p99 {p99} µs; answers that were not timed {untimed} %");
    }
    let ratio =
        |value: fn(&Window) -> f64| spread(windows.iter().map(move |[without, with]| value(with) / value(without)));
    let (count, p50, p99) = (windows.len(), ratio(|window| window.p50), ratio(|window| window.p99));
    println!("ratio of {count} pairs of windows: p50 {p50}, p99 {p99}; goal for p99: 1.2");
}

/// Fails unless the names are answered as the objects are. Returns the number of answers that differ from the first ones.
fn check(server: &Fairway, objects: &Objects, first: &[Option<IpAddr>]) -> usize {
    let (gateway, second) = (Some(address(objects.gateway)), Some(address(GATEWAYS[1])));
    let expected = |index: usize| match first[index] {
        of_first if of_first == second => second,
        _ if objects.moved[index] || !objects.is_ready(index) => second,
        _ => gateway,
    };
    let expected: Vec<_> = (0..first.len()).map(expected).collect();
    // The last changes may have been released a moment ago.
    wait_until("each name is answered as its objects are", LIMIT, || answers(server, host, first.len()) == expected);
    for (index, answer) in answers(server, other_host, first.len()).into_iter().enumerate() {
        match (objects.moved[index], objects.is_ready(index)) {
            (false, _) => assert_eq!(answer, None, "{}", other_host(index)),
            (true, true) => assert_eq!(answer, gateway, "{}", other_host(index)),
            // No cluster has a ready endpoint.
            (true, false) => {}
        }
    }
    expected.iter().zip(first).filter(|(now, before)| now != before).count()
}

#[test]
#[ignore = "for a release build; takes 25 minutes; see bench/README.md"]
fn latency_stays_during_50_changes_a_second() {
    let (count, seconds) = (number("FAIRWAY_KUBERNETES_NAMES", NAMES), number("FAIRWAY_STREAM_SECONDS", 600));
    let seed = number("FAIRWAY_STREAM_SEED", RandomState::new().hash_one(count) as usize >> 1);
    let window = seconds.min(WINDOW_MAX);
    let pairs = seconds / window;
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{count} services, {pairs} pairs of windows of {window} s, {build} build, seed {seed}");
    let (played, objects) = record(count, pairs * window * RATE, &mut SplitMix::new(seed as u64));
    fairway_binary();
    let server = start(&played, count);
    let queries: String = (0..count).map(|index| format!("{} A\n", host(index))).collect();
    fs::write(server.folder.path().join("queries"), queries).expect("the folder can be written");
    let first = answers(&server, host, count);
    let processor = server.process.cpu_time();
    let windows = measure(&server, &played.players[0], pairs, window);
    report(&windows);
    let changed = check(&server, &objects, &first);
    let [endpoints, hosts, routes, addresses] = objects.counts;
    println!(
        "changes: {endpoints} of endpoints, {hosts} of hosts, {routes} of routes, {addresses} of the gateway's address"
    );
    println!("processor time of the server {:.1?}", server.process.cpu_time() - processor);
    println!("{changed} of {count} names are answered with another address than before, all as their objects are");
    assert!(changed > 0, "no answer has changed");
}
