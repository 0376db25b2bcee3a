//! Two clusters with 5,000 services each: time until all names are served, memory, and time from a change of an object to the first answer
//! that shows it. The API servers are real; no controllers run, so this test writes the EndpointSlices itself.
#![cfg(feature = "real")]

mod api;
mod listeners;
mod player;
mod stream;

use std::{
    collections::HashMap,
    fs,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, UdpSocket},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use fairway_integration::{
    cluster::{Cluster, LIMIT},
    load::{Reply, connect},
    query::{Opt, Query},
    real::{Fairway, fairway_binary, http_get, wait_until},
};
use fairway_model::{Rtype, SplitMix};
use serde_json::{Value, json};

use self::api::{Access, Api, create_backend, endpoints, namespace, slice_path};

/// Services of a cluster, unless the variable `FAIRWAY_KUBERNETES_NAMES` has another number, of at least 100.
const NAMES: usize = 5_000;
/// Namespaces that the services are in.
const NAMESPACES: usize = 50;
const CLUSTERS: [&str; 2] = ["eu1", "us1"];
/// Addresses of the ingress gateways of both clusters.
const GATEWAYS: [&str; 2] = ["127.0.7.1", "127.0.7.2"];
/// The other address of the first gateway.
const MOVED: &str = "127.0.7.3";
const GATEWAY_SERVICE: &str = "/api/v1/namespaces/istio-system/services/istio-ingressgateway/status";
/// Option code of the client subnet (RFC 7871).
const CLIENT_SUBNET: u16 = 8;

const ENDPOINT_CHANGES: usize = 200;
const HOST_CHANGES: usize = 100;
const GATEWAY_CHANGES: usize = 20;
/// Time for which nothing changes while processor time is measured.
const IDLE: Duration = Duration::from_secs(10);

/// Goals, for a release build.
const SYNC_MAX: Duration = Duration::from_secs(10);
const MEMORY_MAX_KIB: u64 = 300 * 1_024;
const MEDIAN_MAX: Duration = Duration::from_millis(250);
const P99_MAX: Duration = Duration::from_secs(1);

fn virtual_service_path(index: usize) -> String {
    format!("/apis/networking.istio.io/v1/namespaces/{}/virtualservices", namespace(index))
}

/// Creates the Service with this index, its EndpointSlice and its VirtualService.
fn create_service(api: &mut Api, index: usize) {
    create_backend(api, index);
    let name = format!("n{index}");
    api.create(
        &virtual_service_path(index),
        &json!({
            "apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": { "name": name },
            "spec": {
                "hosts": [host(index)], "gateways": ["istio-system/web"],
                "http": [{ "route": [{ "destination": { "host": name, "port": { "number": 80 } } }] }],
            },
        }),
    );
}

/// Starts a cluster with an ingress gateway that has an address, and with this number of services that are exposed there.
fn cluster(at: usize, count: usize) -> (Cluster, Access) {
    let cluster = Cluster::start(CLUSTERS[at]);
    cluster.add_gateway(GATEWAYS[at]);
    let access = Access::of(&cluster);
    access.connect().create_namespaces((0..NAMESPACES).map(namespace));
    access.fill(count, create_service);
    (cluster, access)
}

/// A client that asks the server for names, each from a network of its own.
struct Client {
    socket: UdpSocket,
    id: u16,
}

impl Client {
    /// Returns the only address of a name for the client network 10.`index`.0/24, or `None` if there is none.
    fn ask(&mut self, name: &str, index: usize) -> Option<IpAddr> {
        self.id = self.id.wrapping_add(1);
        let [.., high, low] = index.to_be_bytes();
        let edns = Some(Opt { options: vec![(CLIENT_SUBNET, vec![0, 1, 24, 0, 10, high, low])], ..Opt::default() });
        let query = Query { id: self.id, edns, ..Query::new(name.parse().expect("a name"), Rtype::A) };
        self.socket.send(&query.encode()).expect("the server listens");
        let mut octets = [0; 1_232];
        let length = self.socket.recv(&mut octets).expect("an answer within five seconds");
        assert_eq!(octets[..2], self.id.to_be_bytes(), "{name}: the id of another query");
        let reply = Reply::read(&octets[..length]).expect("a valid answer");
        assert!(reply.addresses.len() < 2, "{name}: {reply:?}");
        reply.addresses.into_iter().next()
    }

    /// Asks for a name until the answer is right; returns the time since the change.
    fn wait(&mut self, name: &str, index: usize, changed: Instant, right: impl Fn(Option<IpAddr>) -> bool) -> Duration {
        loop {
            if right(self.ask(name, index)) {
                return changed.elapsed();
            }
            assert!(changed.elapsed() < LIMIT, "{name} is not answered as expected within {LIMIT:?}");
            // Leaves the processor to the server.
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

fn host(index: usize) -> String {
    format!("n{index}.gslb.example")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns the numbers below `end` in random order.
fn shuffled(random: &mut SplitMix, end: usize) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..end).collect();
    for last in (1..end).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers
}

/// Makes changes of one kind, one after the other; returns the times from the API server's answer to the first right one over DNS.
type Change = fn(&mut [Api; 2], &mut Client, &mut SplitMix, usize) -> Vec<Duration>;

/// Makes the endpoints of services unready or ready again. The measured client is one that was answered with the cluster.
fn change_endpoints(apis: &mut [Api; 2], client: &mut Client, random: &mut SplitMix, count: usize) -> Vec<Duration> {
    let names: Vec<_> = shuffled(random, count).into_iter().take(ENDPOINT_CHANGES / 2).collect();
    // Each name is at two places of the order: its endpoints leave at the first one, and return at the second.
    let order = shuffled(random, names.len() * 2).into_iter().map(|place| names[place / 2]);
    let mut left = HashMap::new();
    let times = order.map(|index| {
        let name = host(index);
        let path = format!("{}/n{index}", slice_path(index));
        let mut change = |at: usize, ready| apis[at].patch(&path, &json!({ "endpoints": endpoints(index, ready) }));
        match left.remove(&index) {
            Some(at) => client.wait(&name, index, change(at, true), |answer| answer == Some(address(GATEWAYS[at]))),
            None => {
                let before = client.ask(&name, index);
                let at = GATEWAYS.iter().position(|gateway| before == Some(address(gateway))).expect("a gateway");
                left.insert(index, at);
                client.wait(&name, index, change(at, false), |answer| answer == Some(address(GATEWAYS[1 - at])))
            }
        }
    });
    times.collect()
}

/// Gives VirtualServices a new host each, in both clusters in turn.
fn change_hosts(apis: &mut [Api; 2], client: &mut Client, random: &mut SplitMix, count: usize) -> Vec<Duration> {
    let names = shuffled(random, count).into_iter().take(HOST_CHANGES);
    let times = names.enumerate().map(|(sequence, index)| {
        let (name, at) = (format!("new{index}.gslb.example"), sequence % 2);
        assert_eq!(client.ask(&name, index), None, "{name} is not there yet");
        let path = format!("{}/n{index}", virtual_service_path(index));
        let changed = apis[at].patch(&path, &json!({ "spec": { "hosts": [name] } }));
        client.wait(&name, index, changed, |answer| answer == Some(address(GATEWAYS[at])))
    });
    times.collect()
}

/// Changes the address of the first gateway, which is that of half of the answers, there and back.
fn change_gateway(apis: &mut [Api; 2], client: &mut Client, random: &mut SplitMix, count: usize) -> Vec<Duration> {
    let of_first = |index: &usize| client.ask(&host(*index), *index) == Some(address(GATEWAYS[0]));
    let names: Vec<_> = shuffled(random, count).into_iter().filter(of_first).take(GATEWAY_CHANGES).collect();
    let times = names.iter().enumerate().map(|(sequence, index)| {
        let next = if sequence % 2 == 0 { MOVED } else { GATEWAYS[0] };
        let changed =
            apis[0].patch(GATEWAY_SERVICE, &json!({ "status": { "loadBalancer": { "ingress": [{ "ip": next }] } } }));
        client.wait(&host(*index), *index, changed, |answer| answer == Some(address(next)))
    });
    times.collect()
}

/// Sorts and prints times, with the processor time of the server; returns median and p99.
fn report(what: &str, mut times: Vec<Duration>, processor: Duration) -> (Duration, Duration) {
    times.sort_unstable();
    let (median, p99) = (times[times.len() / 2], times[(times.len() * 99 / 100).min(times.len() - 1)]);
    let (count, longest) = (times.len(), times[times.len() - 1]);
    println!(
        "{count} {what}: median {median:.1?}, p99 {p99:.1?}, longest {longest:.1?}; processor time of each {:.1?}",
        processor / count as u32
    );
    (median, p99)
}

/// Returns a figure of proc_pid_status(5) in KiB.
fn memory(server: &Fairway, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("the field");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Returns the numbers of names that the state has for the clusters.
fn names(server: &Fairway) -> Vec<u64> {
    let (_, body) = http_get(server.http, "/v1/state").expect("the state");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    let clusters = state["clusters"].as_array().expect("clusters");
    clusters.iter().map(|cluster| cluster["kubernetes"]["names"].as_u64().unwrap_or_default()).collect()
}

/// Returns a configuration with these clusters, whose names are answered without probes.
fn config(clusters: &[(&str, &Path)]) -> String {
    let line = |(name, kubeconfig): &(&str, &Path)| {
        format!("  - {{ name: {name}, kubernetes: {{ kubeconfig: \"{}\" }} }}\n", kubeconfig.display())
    };
    format!(
        "zones: [ {{ name: gslb.example, ns: [ns1.example.net], monitor: trust }} ]\nmonitors: [ {{ name: trust, type: always }} ]\n\
         health: {{ networks: {{ allow: [127.0.0.0/8] }} }}\nclusters:\n{}",
        clusters.iter().map(line).collect::<String>()
    )
}

/// Starts the server, and waits until all names of both clusters are answered; returns it with the time that this took.
fn start(clusters: &[&Cluster; 2], count: usize) -> (Fairway, Duration) {
    let [eu, us] = clusters.map(Cluster::kubeconfig);
    let config = config(&[(CLUSTERS[0], &eu), (CLUSTERS[1], &us)]);
    // The program is built before the time begins.
    fairway_binary();
    let begun = Instant::now();
    let server = Fairway::start(&config, &[]);
    println!("ready after {:.2?}", begun.elapsed());
    wait_until("all names of both clusters are in the state", LIMIT, || names(&server) == [count as u64; 2]);
    println!("all names in the state after {:.2?}", begun.elapsed());
    let mut client = Client { socket: connect(server.dns), id: 0 };
    for index in 0..count {
        client.wait(&host(index), index, Instant::now(), |answer| answer.is_some());
    }
    (server, begun.elapsed())
}

fn measure(count: usize) {
    // Another order in each run; the seed is printed.
    let seed = RandomState::new().hash_one(count);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{count} services in each of two clusters, {build} build, seed {seed}");
    let mut random = SplitMix::new(seed);
    let begun = Instant::now();
    let [(eu, eu_api), (us, us_api)] = thread::scope(|scope| {
        [0, 1]
            .map(|at| scope.spawn(move || cluster(at, count)))
            .map(|thread| thread.join().expect("the cluster is filled"))
    });
    println!("clusters filled in {:.1?}", begun.elapsed());

    let (server, synced) = start(&[&eu, &us], count);
    let resident = memory(&server, "VmRSS");
    println!(
        "all names answered after {synced:.2?}; resident {} MiB, at most {} MiB; processor time {:.2?}",
        resident / 1_024,
        memory(&server, "VmHWM") / 1_024,
        server.process.cpu_time()
    );

    let mut apis = [eu_api.connect(), us_api.connect()];
    let mut client = Client { socket: connect(server.dns), id: 0 };
    let mut measured = |what, change: Change| {
        let before = server.process.cpu_time();
        let times = change(&mut apis, &mut client, &mut random, count);
        report(what, times, server.process.cpu_time() - before)
    };
    let times = [
        measured("changes of endpoints", change_endpoints),
        measured("changes of the gateway's address", change_gateway),
        measured("new hosts", change_hosts),
    ];
    let (before, begun) = (server.process.cpu_time(), Instant::now());
    while begun.elapsed() < IDLE {
        thread::park_timeout(IDLE.saturating_sub(begun.elapsed()));
    }
    println!("processor time of {:.1?} without changes {:.2?}", begun.elapsed(), server.process.cpu_time() - before);
    println!(
        "resident at the end {} MiB, at most {} MiB",
        memory(&server, "VmRSS") / 1_024,
        memory(&server, "VmHWM") / 1_024
    );

    // The goals are for 5,000 services and a release build.
    if !cfg!(debug_assertions) {
        assert!(synced <= SYNC_MAX, "all names answered after {synced:?}");
        assert!(resident <= MEMORY_MAX_KIB, "{resident} KiB resident");
        for (median, p99) in times {
            assert!(median <= MEDIAN_MAX && p99 <= P99_MAX, "median {median:?}, p99 {p99:?}");
        }
    }
}

#[test]
#[ignore = "for a release build; see bench/README.md"]
fn changes_of_two_full_clusters_are_answered_soon() {
    let count = std::env::var("FAIRWAY_KUBERNETES_NAMES").map_or(NAMES, |count| count.parse().expect("a number"));
    measure(count);
}
