//! Two clusters whose Kubernetes APIs Fairway reads: real API servers with real controllers. Names, weights and health follow the objects.
#![cfg(feature = "real")]

mod kinds;

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, TcpListener},
    thread,
    time::{Duration, Instant},
};

use fairway_integration::{
    cluster::{Cluster, LIMIT},
    message::{Message, Record, bit},
    query::{Opt, Query},
    real::{Fairway, ask, free_port, http_get, root, wait_until},
};
use fairway_model::Rtype;
use serde_json::{Value, json};

const NAMESPACE: &str = "shop";
/// Option code of the client subnet (RFC 7871).
const CLIENT_SUBNET: u16 = 8;
/// Addresses of the ingress gateways of both clusters.
const GATEWAYS: [&str; 2] = ["127.0.7.1", "127.0.7.2"];

/// Starts a cluster with an ingress gateway that has an address, and with a service of this number of replicas that is exposed as
/// `shop.gslb.example` with these annotations.
fn cluster(name: &'static str, address: &str, replicas: u32, annotations: &str) -> Cluster {
    let cluster = Cluster::start_with_controllers(name);
    cluster.add_gateway(address);
    cluster.deploy(NAMESPACE, "web", replicas);
    match annotations {
        "" => cluster.apply(&example("istio")),
        _ => cluster.apply(&virtual_service("web", NAMESPACE, "shop.gslb.example", annotations)),
    }
    cluster
}

/// Returns the objects in the example of a page about a source.
fn example(page: &str) -> String {
    let path = root().join(format!("docs/sources/{page}.md"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, block) = text.split_once("```yaml\n").expect("the page has an example");
    block.split_once("```").expect("the example ends").0.to_owned()
}

fn virtual_service(name: &str, namespace: &str, host: &str, annotations: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{ name: {name}, namespace: {namespace}, annotations: {{ \
         {annotations} }} }}\nspec: {{ hosts: [ {host} ], gateways: [ istio-system/web ], http: [ {{ route: [ {{ destination: {{ host: web, \
         port: {{ number: 80 }} }} }} ] }} ] }}\n"
    )
}

/// Starts gateways that accept connections, as those of the clusters would, until the end of the process. Returns their port.
fn gateways() -> u16 {
    let port = free_port();
    GATEWAYS.iter().for_each(|address| accept(address, port));
    port
}

/// Accepts connections. Probes that nobody accepts fill the queue of a listener within half a minute, and fail from then on.
fn accept(address: &str, port: u16) {
    let listener = TcpListener::bind((address, port)).expect("a free port");
    thread::spawn(move || listener.incoming().for_each(drop));
}

/// Returns a configuration with these clusters, whose gateways are probed at a port.
fn config(clusters: &[(&str, &str)], port: u16, more: &str) -> String {
    let line = |(name, access): &(&str, &str)| {
        format!("  - {{ name: {name}, monitor: gateway, kubernetes: {{ {access} }} }}\n")
    };
    let clusters: String = clusters.iter().map(line).collect();
    format!(
        "zones: [ {{ name: gslb.example, ns: [ns1.example.net] }} ]\nhealth: {{ networks: {{ allow: [127.0.0.0/8] }} }}\n\
         monitors: [ {{ name: gateway, type: tcp, port: {port}, period: 200ms, timeout: 200ms, rise: 1, fall: 2 }} ]\nclusters:\n{clusters}{more}"
    )
}

fn kubeconfig(cluster: &Cluster) -> String {
    format!("kubeconfig: \"{}\"", cluster.kubeconfig().display())
}

/// Returns the answered addresses of a name for the client network 10.`client`.0/24.
fn answer(server: &Fairway, name: &str, client: u16) -> Vec<IpAddr> {
    let [high, low] = client.to_be_bytes();
    let subnet = (CLIENT_SUBNET, vec![0, 1, 24, 0, 10, high, low]);
    let edns = Some(Opt { options: vec![subnet], ..Opt::default() });
    let query = Query { flags: bit::RD, edns, ..Query::new(name.parse().expect("a name"), Rtype::A) };
    let message = Message::decode(&ask(server.dns, &query.encode()).expect("an answer")).expect("a sound message");
    let addresses = message.sections[0].iter().filter(|record| record.rtype == Rtype::A);
    let address = |record: &Record| IpAddr::from(<[u8; 4]>::try_from(&*record.rdata).expect("an IPv4 address"));
    addresses.map(address).collect()
}

/// Returns the number of client networks, of `count`, that get each address of `shop.gslb.example`.
fn shares(server: &Fairway, count: u16) -> BTreeMap<IpAddr, u16> {
    shares_of(server, "shop.gslb.example", count)
}

/// Returns the number of client networks, of `count`, that get each address of a name.
fn shares_of(server: &Fairway, name: &str, count: u16) -> BTreeMap<IpAddr, u16> {
    let mut shares = BTreeMap::new();
    for client in 0..count {
        let answered = answer(server, name, client);
        assert_eq!(answered.len(), 1, "client {client}: {answered:?}");
        *shares.entry(answered[0]).or_default() += 1;
    }
    shares
}

/// Waits until some client networks get these gateways, and no others; returns how long that took.
#[track_caller]
fn wait_answered(server: &Fairway, gateways: &[&str]) -> Duration {
    let begun = Instant::now();
    let mut expected: Vec<IpAddr> = gateways.iter().map(|address| address.parse().expect("an address")).collect();
    expected.sort();
    wait_until(&format!("answers are {gateways:?}"), LIMIT, || {
        let mut answered: Vec<IpAddr> =
            (0..24).flat_map(|client| answer(server, "shop.gslb.example", client)).collect();
        answered.sort();
        answered.dedup();
        answered == expected
    });
    begun.elapsed()
}

/// Returns what `/v1/state` has of the Kubernetes API of a cluster.
fn kubernetes(server: &Fairway, cluster: &str) -> Value {
    let (_, body) = http_get(server.http, "/v1/state").expect("the state");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    let clusters = state["clusters"].as_array().expect("clusters");
    clusters.iter().find(|of| of["name"] == cluster).expect("the cluster")["kubernetes"].clone()
}

#[test]
fn names_weights_and_endpoints_follow_two_clusters() {
    let port = gateways();
    let by_pods = "external-dns.kubernetes.io/webhook-gslb-weight-by: pods";
    let eu = cluster("eu1", GATEWAYS[0], 3, by_pods);
    let us = cluster("us1", GATEWAYS[1], 1, by_pods);
    let with_events = format!("{}, events: true", kubeconfig(&eu));
    let server = Fairway::start(&config(&[("eu1", &with_events), ("us1", &kubeconfig(&us))], port, ""), &[]);
    wait_answered(&server, &GATEWAYS);
    wait_until("three endpoints and one", LIMIT, || {
        let shares = shares(&server, 200);
        shares.get(&GATEWAYS[0].parse().expect("an address")).is_some_and(|count| *count > 130)
    });
    let count = 10_000;
    let part =
        f64::from(shares(&server, count)[&GATEWAYS[0].parse::<IpAddr>().expect("an address")]) / f64::from(count);
    println!("3 pods : 1 pod: {:.1} % of {count} client networks", part * 100.0);
    assert!((part - 0.75).abs() < 0.02, "{part}");

    eu.scale(NAMESPACE, "web", 0);
    println!("scaled to 0, kubectl included: {:?} until only us1 is answered", wait_answered(&server, &GATEWAYS[1..]));
    let explained = server.command(&["explain", "shop.gslb.example"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("no ready endpoint"), "{explained}");
    eu.scale(NAMESPACE, "web", 2);
    println!("scaled to 2: {:?} until both are answered", wait_answered(&server, &GATEWAYS));

    // A name of its own, and its end.
    eu.apply(&virtual_service("more", NAMESPACE, "more.gslb.example", ""));
    wait_until("the new name is answered", LIMIT, || {
        answer(&server, "more.gslb.example", 1) == [GATEWAYS[0].parse::<IpAddr>().unwrap()]
    });
    eu.kubectl(&["-n", NAMESPACE, "delete", "virtualservice", "more"]);
    wait_until("the deleted name is gone", LIMIT, || answer(&server, "more.gslb.example", 1).is_empty());
    wait_until("one name is left in the status", LIMIT, || kubernetes(&server, "eu1")["names"] == 1);
    assert_eq!(kubernetes(&server, "eu1")["gateway"], "Service istio-system/istio-ingressgateway");

    let server = deleted_routes_are_held(server, &eu);
    // The address of the gateway changes.
    eu.give_address("service", "istio-system", "istio-ingressgateway", "127.0.7.3");
    accept("127.0.7.3", port);
    wait_answered(&server, &["127.0.7.3", GATEWAYS[1]]);
    drop(server);
    weights_over_both_clusters_are_those_of_members(&eu, &us);
}

/// The last route of the namespace is deleted while its endpoints are ready: it stays until that is confirmed, over a restart, or until the
/// endpoints are gone.
fn deleted_routes_are_held(mut server: Fairway, eu: &Cluster) -> Fairway {
    let delete = || _ = eu.kubectl(&["-n", NAMESPACE, "delete", "virtualservice", "web"]);
    let create = || eu.apply(&virtual_service("web", NAMESPACE, "shop.gslb.example", ""));
    let is_held = |server: &Fairway| server.metric("fairway_kubernetes_held_names", "eu1") > 0.0;
    delete();
    wait_until("the name is held", LIMIT, || is_held(&server));
    let reasons = ["-n", NAMESPACE, "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}"];
    wait_until("the namespace has an Event", LIMIT, || eu.kubectl(&reasons).contains("WithdrawalHeld"));
    server.process.signal("TERM");
    server.process.ended(LIMIT);
    let Fairway { folder, dns, http, .. } = server;
    server = Fairway::start_in(folder, dns, http);
    wait_until("the cluster is read again", LIMIT, || kubernetes(&server, "eu1")["readAt"].is_string());
    let problems = kubernetes(&server, "eu1")["problems"].to_string();
    assert!(problems.contains("fairway contributions confirm kubernetes:eu1/shop"), "{problems}");
    wait_answered(&server, &GATEWAYS);
    let confirm = ["contributions", "confirm", "kubernetes:eu1/shop", "--reason", "moved"];
    assert!(server.command(&confirm).status.success());
    wait_answered(&server, &GATEWAYS[1..]);
    let again = server.command(&confirm);
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && text.contains("nothing of kubernetes:eu1/shop"), "{text}");

    create();
    wait_answered(&server, &GATEWAYS);
    delete();
    wait_until("the name is held again", LIMIT, || is_held(&server));
    eu.scale(NAMESPACE, "web", 0);
    wait_answered(&server, &GATEWAYS[1..]);
    wait_until("nothing is held", LIMIT, || !is_held(&server));
    create();
    eu.scale(NAMESPACE, "web", 2);
    wait_answered(&server, &GATEWAYS);
    server
}

/// A Service of one cluster that stands for the gateway of another: an API server takes no loopback addresses in an EndpointSlice.
const OTHER_CLUSTER: &str = "apiVersion: v1
kind: Service
metadata: { name: us, namespace: shop }
spec: { ports: [ { port: 80 } ] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: us-1, namespace: shop, labels: { kubernetes.io/service-name: us } }
addressType: IPv4
endpoints: [ { addresses: [ 198.51.100.2 ] } ]
ports: [ { port: 80 } ]
";
/// The kind TrafficSplit of SMI, without its schema.
const TRAFFIC_SPLITS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: trafficsplits.split.smi-spec.io }
spec:
  group: split.smi-spec.io
  names: { kind: TrafficSplit, listKind: TrafficSplitList, plural: trafficsplits, singular: trafficsplit }
  scope: Namespaced
  versions:
    - name: v1alpha4
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
";

/// A VirtualService, and then a TrafficSplit, of `eu1` split a name over both clusters.
fn weights_over_both_clusters_are_those_of_members(eu: &Cluster, us: &Cluster) {
    eu.apply(TRAFFIC_SPLITS);
    eu.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "trafficsplits.split.smi-spec.io"]);
    for (cluster, address) in [(eu, "198.51.100.1"), (us, "198.51.100.2")] {
        cluster.give_address("service", "istio-system", "istio-ingressgateway", address);
        cluster.apply(&virtual_service("split", NAMESPACE, "split.gslb.example", ""));
    }
    eu.apply(OTHER_CLUSTER);
    let route = |routes: Value| {
        let patch = json!({ "spec": { "http": [{ "route": routes }] } }).to_string();
        eu.kubectl(&["-n", NAMESPACE, "patch", "virtualservice", "split", "--type=merge", "-p", &patch]);
    };
    let destination = |host: &str, weight: u8| json!({ "destination": { "host": host }, "weight": weight });
    route(json!([destination("web", 75), destination("us", 25)]));
    let of =
        |(name, cluster): (&str, &Cluster)| format!("{{ name: {name}, kubernetes: {{ {} }} }}", kubeconfig(cluster));
    let clusters = [("eu1", eu), ("us1", us)].map(of).join(", ");
    let zone = "zones: [ { name: gslb.example, ns: [ns1.example.net], monitor: none } ]";
    let config = format!("{zone}\nmonitors: [ {{ name: none, type: always }} ]\nclusters: [ {clusters} ]\n");
    let server = Fairway::start(&config, &[]);
    let object = |server: &Fairway| {
        let (_, body) = http_get(server.http, "/v1/state").expect("the state");
        let state: Value = serde_json::from_str(&body).expect("JSON");
        let pools = state["pools"].as_array().cloned().unwrap_or_default();
        let pool = pools.into_iter().find(|pool| pool["name"] == "contributed+split.gslb.example").unwrap_or_default();
        pool["members"][0]["weightFactors"]["object"].as_str().unwrap_or_default().to_owned()
    };
    let part = |expected: &str| {
        wait_until(expected, LIMIT, || object(&server) == expected);
        let count = 10_000;
        let shares = shares_of(&server, "split.gslb.example", count);
        let part = f64::from(shares[&"198.51.100.1".parse::<IpAddr>().expect("an address")]) / f64::from(count);
        println!("{expected}: {:.1} % of {count} client networks", part * 100.0);
        part
    };
    assert!((part("eu1: VirtualService shop/split") - 0.75).abs() < 0.02);
    for command in [&["status"][..], &["explain", "split.gslb.example"]] {
        let text = String::from_utf8_lossy(&server.command(command).stdout).into_owned();
        assert!(text.contains("weight 25 (25 of eu1: VirtualService shop/split)"), "{text}");
    }

    route(json!([destination("web", 100)]));
    eu.apply(
        "apiVersion: split.smi-spec.io/v1alpha4\nkind: TrafficSplit\nmetadata: { name: web, namespace: shop }\n\
         spec: { service: web, backends: [ { service: web, weight: 60 }, { service: us, weight: 40 } ] }\n",
    );
    assert!((part("eu1: TrafficSplit shop/web") - 0.6).abs() < 0.02);

    // The endpoint at the other gateway is none of this cluster.
    eu.scale(NAMESPACE, "web", 0);
    let other = ["198.51.100.2".parse::<IpAddr>().expect("an address")];
    wait_until("only us1 is answered", LIMIT, || {
        (0..24).all(|client| answer(&server, "split.gslb.example", client) == other)
    });
}

#[test]
fn cluster_that_cannot_be_read_keeps_its_names() {
    let port = gateways();
    let mut eu = cluster("eu1", GATEWAYS[0], 1, "");
    let us = cluster("us1", GATEWAYS[1], 1, "");
    let mut server = Fairway::start(&config(&[("eu1", &kubeconfig(&eu)), ("us1", &kubeconfig(&us))], port, ""), &[]);
    wait_answered(&server, &GATEWAYS);
    let before = shares(&server, 200);
    wait_until("what was found is written", LIMIT, || server.folder.path().join("data/kubernetes.json").exists());
    let transitions = server.metric("fairway_health_transitions_total", "");
    eu.pause_api();
    assert_eq!(shares(&server, 200), before, "the API server is paused");
    eu.resume_api();
    eu.stop_api();
    wait_until("the outage is shown", LIMIT, || server.metric("fairway_kubernetes_failing_seconds", "eu1") > 1.0);
    assert_eq!(shares(&server, 200), before, "the API server is dead");
    assert_eq!(server.metric("fairway_health_transitions_total", ""), transitions);
    let state = kubernetes(&server, "eu1");
    assert!(state["failingSince"].is_string() && state["names"] == 1, "{state:#}");
    // The other cluster is followed meanwhile.
    us.apply(&virtual_service("more", NAMESPACE, "more.gslb.example", ""));
    wait_until("the other cluster is read", LIMIT, || !answer(&server, "more.gslb.example", 1).is_empty());

    // A start while the API server is dead has the last good state.
    server.process.signal("TERM");
    server.process.ended(LIMIT);
    let Fairway { folder, dns, http, .. } = server;
    let server = Fairway::start_in(folder, dns, http);
    wait_answered(&server, &GATEWAYS);
    eu.start_api();
    eu.scale(NAMESPACE, "web", 0);
    wait_answered(&server, &GATEWAYS[1..]);
    wait_until("the outage is over", LIMIT, || server.metric("fairway_kubernetes_failing_seconds", "eu1") == 0.0);
}

/// Number of restarts of the API server, each of which ends the watches of all kinds.
const RESTARTS: u32 = 100;
/// Time for which the API server is silent.
const SILENCE: Duration = Duration::from_secs(120);

#[test]
#[ignore = "takes 12 to 22 minutes; see bench/README.md"]
fn outages_of_an_api_server_change_no_answer() {
    let port = gateways();
    let mut eu = cluster("eu1", GATEWAYS[0], 1, "");
    let us = cluster("us1", GATEWAYS[1], 1, "");
    let server = Fairway::start(&config(&[("eu1", &kubeconfig(&eu)), ("us1", &kubeconfig(&us))], port, ""), &[]);
    wait_answered(&server, &GATEWAYS);
    let (before, mut count) = (shares(&server, 100), 0);
    let transitions = server.metric("fairway_health_transitions_total", "");
    let mut is_as_before = |when: &str| {
        count += 100;
        assert_eq!(shares(&server, 100), before, "{when}");
        assert_eq!(server.metric("fairway_health_transitions_total", ""), transitions, "{when}");
    };
    eu.pause_api();
    let begun = Instant::now();
    while begun.elapsed() < SILENCE {
        is_as_before("silent");
        thread::park_timeout(Duration::from_millis(100));
    }
    eu.resume_api();
    is_as_before("after the silence");
    for restart in 0..RESTARTS {
        // An object of a kind that is watched, so that the version of each watch is one that etcd has no more.
        eu.apply(&virtual_service("more", NAMESPACE, &format!("more{restart}.gslb.example"), ""));
        eu.compact();
        eu.stop_api();
        is_as_before("stopped");
        eu.start_api();
        is_as_before("started");
        let name = format!("other{restart}.gslb.example");
        eu.apply(&virtual_service("other", NAMESPACE, &name, ""));
        wait_until("it is read again", LIMIT, || !answer(&server, &name, 1).is_empty());
        is_as_before("read again");
        if restart % 10 == 9 {
            println!("{} of {RESTARTS} restarts after {:?}", restart + 1, begun.elapsed());
        }
    }
    println!("{count} answers were right over {SILENCE:?} of silence and {RESTARTS} restarts");
}

#[test]
fn credentials_are_renewed_and_those_of_a_secret_use_no_files() {
    let eu = Cluster::start("eu1");
    eu.expose("web", GATEWAYS[0], &[("hostname", "shop.gslb.example")]);
    let whole = eu.kubectl(&["config", "view", "--raw", "--flatten"]);
    let file = |name: &str, credentials: &str| {
        let path = eu.folder.path().join(name);
        fs::write(&path, whole.replace("token: admin-token", credentials)).expect("the folder can be written");
        path.display().to_string()
    };
    for (secret, credentials) in [("good", "token: admin-token"), ("bad", "tokenFile: /etc/hostname")] {
        let from = format!("--from-file=kubeconfig={}", file(secret, credentials));
        eu.kubectl(&["create", "secret", "generic", secret, &from]);
    }
    let of_secret = |name: &str| format!("{}, secretRef: {{ namespace: default, name: {name} }}", kubeconfig(&eu));
    let old = format!("kubeconfig: \"{}\"", file("renewed", "token: expired"));
    let clusters = [("eu1", &*old), ("eu2", &of_secret("good")), ("eu3", &of_secret("bad"))];
    let server = Fairway::start(&config(&clusters, free_port(), ""), &[]);
    let failure = |cluster: &str| kubernetes(&server, cluster)["failure"].to_string();
    wait_until("the Secret is used", LIMIT, || kubernetes(&server, "eu2")["names"] == 1);
    wait_until("the refusals are shown", LIMIT, || {
        failure("eu1").contains("the credentials are not valid") && failure("eu3").contains("names a file (tokenFile")
    });
    file("renewed", "token: admin-token");
    wait_until("the renewed file is used", LIMIT, || kubernetes(&server, "eu1")["names"] == 1);
    assert_eq!(kubernetes(&server, "eu3")["names"], 0);
}

#[test]
fn printed_rights_suffice_and_a_missing_one_costs_its_kind_alone() {
    let port = gateways();
    let eu = cluster("eu1", GATEWAYS[0], 1, "");
    let access = format!("kubeconfig: \"{}\"", eu.token_kubeconfig().display());
    let server = Fairway::start(&config(&[("eu1", &access)], port, ""), &[]);
    let kinds = |state: &Value, word: &str| {
        let kinds = state["kinds"].as_array().cloned().unwrap_or_default();
        kinds.iter().filter(|kind| kind["state"] == word).count()
    };
    wait_until("all rights are missing", LIMIT, || kinds(&kubernetes(&server, "eu1"), "denied") == 5);
    assert!(answer(&server, "shop.gslb.example", 1).is_empty());
    eu.apply(&server.rbac("eu1").replace("[networking.k8s.io]", "[none.example]"));
    wait_answered(&server, &GATEWAYS[..1]);
    wait_until("one kind is denied", LIMIT, || kinds(&kubernetes(&server, "eu1"), "denied") == 1);
    let status = String::from_utf8_lossy(&server.command(&["status"]).stdout).into_owned();
    assert!(status.contains("eu1: Ingress denied: ingresses.networking.k8s.io is forbidden"), "{status}");
    eu.scale(NAMESPACE, "web", 0);
    wait_until("endpoints are followed", LIMIT, || explain(&server).contains("no ready endpoint"));
}

#[test]
fn server_in_a_pod_and_one_whose_token_a_command_prints_read_the_cluster() {
    let port = gateways();
    let eu = cluster("eu1", GATEWAYS[0], 1, "");
    let server = eu.fairway_in_pod(&config(&[("eu1", "inCluster: true")], port, ""));
    eu.apply(&server.rbac("eu1"));
    wait_answered(&server, &GATEWAYS[..1]);
    let access = format!("kubeconfig: \"{}\"", eu.command_kubeconfig().display());
    let other = Fairway::start(&config(&[("eu1", &access)], port, "landlock: { execute: [/usr] }\n"), &[]);
    wait_answered(&other, &GATEWAYS[..1]);
    eu.scale(NAMESPACE, "web", 0);
    for server in [&server, &other] {
        wait_until("endpoints are followed", LIMIT, || explain(server).contains("no ready endpoint"));
    }
}

fn explain(server: &Fairway) -> String {
    String::from_utf8_lossy(&server.command(&["explain", "shop.gslb.example"]).stdout).into_owned()
}

#[test]
fn namespace_claims_only_what_it_is_granted() {
    let port = gateways();
    let eu = cluster("eu1", GATEWAYS[0], 1, "");
    eu.kubectl(&["create", "namespace", "evil"]);
    eu.apply(&virtual_service("web", "evil", "bank.gslb.example", ""));
    let grants = "access: { names: [ { to: [\"namespace:eu1/shop\"], domains: [shop.gslb.example] } ] }\n";
    let server = Fairway::start(&config(&[("eu1", &kubeconfig(&eu))], port, grants), &[]);
    wait_answered(&server, &GATEWAYS[..1]);
    wait_until("both names are read", LIMIT, || kubernetes(&server, "eu1")["names"] == 2);
    assert!(answer(&server, "bank.gslb.example", 1).is_empty());
    let problems = kubernetes(&server, "eu1")["problems"].to_string();
    assert!(problems.contains("namespace:eu1/evil may not claim bank.gslb.example"), "{problems}");
}
