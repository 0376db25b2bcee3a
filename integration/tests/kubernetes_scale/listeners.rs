//! A cluster with 10,000 hosts in 1,000 ListenerSets of one Gateway, of which one host changes. No controller of the Gateway API runs, so this
//! test writes the status of its objects.

use std::time::{Duration, Instant};

use fairway_integration::{
    cluster::{Cluster, LIMIT},
    load::connect,
    real::{Fairway, fairway_binary, wait_until},
};
use serde_json::{Value, json};

use super::{
    Access, Api, Client, GATEWAYS, MEDIAN_MAX, MEMORY_MAX_KIB, NAMESPACES, P99_MAX, SYNC_MAX, address, config,
    create_backend, memory, names, namespace, report,
};

const SETS: usize = 1_000;
/// Listeners of a ListenerSet, with a host each.
const HOSTS: usize = 10;
const CHANGES: usize = 100;
const GROUP: &str = "gateway.networking.k8s.io";

fn host(index: usize, listener: usize) -> String {
    format!("h{listener}.n{index}.gslb.example")
}

fn path(namespace: &str, plural: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/{plural}")
}

/// Returns the listeners of the ListenerSet with this index; the first one has this host.
fn listeners(index: usize, first: &str) -> Value {
    let hosts = std::iter::once(first.to_owned()).chain((1..HOSTS).map(|listener| host(index, listener)));
    let listener = |(number, host): (usize, String)| json!({ "name": format!("l{number}"), "port": 80, "protocol": "HTTP", "hostname": host });
    hosts.enumerate().map(listener).collect()
}

fn accepted() -> Value {
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    json!([condition("Accepted"), condition("Programmed")])
}

/// Creates the Service with this index, its EndpointSlice, its ListenerSet, and its HTTPRoute for all listeners of this.
fn create(api: &mut Api, index: usize) {
    create_backend(api, index);
    let (name, namespace) = (format!("n{index}"), namespace(index));
    let metadata = json!({ "name": name });
    let sets = path(&namespace, "listenersets");
    api.create(
        &sets,
        &json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ListenerSet", "metadata": metadata,
            "spec": { "parentRef": { "namespace": "infra", "name": "edge" }, "listeners": listeners(index, &host(index, 0)) },
        }),
    );
    api.patch(&format!("{sets}/{name}/status"), &json!({ "status": { "conditions": accepted() } }));
    let parent = json!({ "group": GROUP, "kind": "ListenerSet", "name": name });
    let routes = path(&namespace, "httproutes");
    api.create(
        &routes,
        &json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "HTTPRoute", "metadata": metadata,
            "spec": { "parentRefs": [parent], "rules": [{ "backendRefs": [{ "name": name, "port": 80 }] }] },
        }),
    );
    let status = json!([{ "parentRef": parent, "controllerName": "test.example/test", "conditions": accepted() }]);
    api.patch(&format!("{routes}/{name}/status"), &json!({ "status": { "parents": status } }));
}

/// Starts a cluster with a Gateway that has an address, and with all ListenerSets.
fn cluster() -> (Cluster, Access) {
    let cluster = Cluster::start("eu1");
    for kind in ["gateways", "listenersets", "httproutes"] {
        cluster.apply_kinds(&format!("gateway-api-{GROUP}_{kind}.yaml"));
    }
    let access = Access::of(&cluster);
    let mut api = access.connect();
    api.create_namespaces((0..NAMESPACES).map(namespace).chain(["infra".to_owned()]));
    let gateways = path("infra", "gateways");
    api.create(
        &gateways,
        &json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Gateway", "metadata": { "name": "edge" },
            "spec": {
                "gatewayClassName": "test", "allowedListeners": { "namespaces": { "from": "All" } },
                "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }],
            },
        }),
    );
    let addresses = json!([{ "type": "IPAddress", "value": GATEWAYS[0] }]);
    api.patch(&format!("{gateways}/edge/status"), &json!({ "status": { "addresses": addresses } }));
    access.fill(SETS, create);
    (cluster, access)
}

/// Starts the server, and waits until all hosts are answered; returns it with the time that this took.
fn start(cluster: &Cluster) -> (Fairway, Duration) {
    let config = config(&[("eu1", &cluster.kubeconfig())]) + "log: { level: \"info,fairway_control=debug\" }\n";
    fairway_binary();
    let begun = Instant::now();
    let server = Fairway::start(&config, &[]);
    wait_until("all hosts are in the state", LIMIT, || names(&server) == [(SETS * HOSTS) as u64]);
    println!("all hosts in the state after {:.2?}", begun.elapsed());
    let mut client = Client { socket: connect(server.dns), id: 0 };
    for (index, listener) in (0..SETS).flat_map(|index| (0..HOSTS).map(move |listener| (index, listener))) {
        client.wait(&host(index, listener), index, Instant::now(), |answer| answer.is_some());
    }
    (server, begun.elapsed())
}

#[test]
#[ignore = "for a release build; see bench/README.md"]
fn host_of_one_of_1000_listener_sets_changes_alone() {
    let begun = Instant::now();
    let (cluster, access) = cluster();
    println!("{SETS} ListenerSets of {HOSTS} hosts, written in {:.1?}", begun.elapsed());
    let (server, synced) = start(&cluster);
    let resident = memory(&server, "VmRSS");
    println!(
        "all hosts answered after {synced:.2?}; resident {} MiB, at most {} MiB; processor time {:.2?}",
        resident / 1_024,
        memory(&server, "VmHWM") / 1_024,
        server.process.cpu_time()
    );
    let mut api = access.connect();
    let mut client = Client { socket: connect(server.dns), id: 0 };
    let before = server.process.cpu_time();
    let change = |number: usize| {
        let (index, new) = (number * SETS / CHANGES, format!("new{number}.gslb.example"));
        let path = format!("{}/n{index}", path(&namespace(index), "listenersets"));
        let changed = api.patch(&path, &json!({ "spec": { "listeners": listeners(index, &new) } }));
        let waited = client.wait(&new, index, changed, |answer| answer == Some(address(GATEWAYS[0])));
        client.wait(&host(index, 0), index, changed, |answer| answer.is_none());
        waited
    };
    let times = (0..CHANGES).map(change).collect();
    let (median, p99) = report("changes of a host", times, server.process.cpu_time() - before);
    let log = server.process.output();
    let applied: Vec<_> = log.lines().filter(|line| line.contains("changes applied")).collect();
    println!("{} reloads; the last one: {}", applied.len(), applied.last().unwrap_or(&""));
    println!("resident at the end {} MiB", memory(&server, "VmRSS") / 1_024);
    // Of the 10,000 names, only the new one and the old one.
    let of_changes = &applied[applied.len().saturating_sub(CHANGES)..];
    assert!(!of_changes.is_empty(), "{log}");
    for line in of_changes {
        assert!(line.contains("names: 1 added, 0 changed, 1 removed"), "{line}");
    }
    if !cfg!(debug_assertions) {
        assert!(synced <= SYNC_MAX && resident <= MEMORY_MAX_KIB, "{synced:?}, {resident} KiB");
        assert!(median <= MEDIAN_MAX && p99 <= P99_MAX, "median {median:?}, p99 {p99:?}");
    }
}
