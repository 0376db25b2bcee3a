//! Clusters with host names in place of addresses, as load balancers of clouds have them: a real authoritative server (Knot) changes their
//! addresses, and a real resolver (unbound) answers Fairway with them.
#![cfg(feature = "real")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fairway_integration::{
    cluster::{Cluster, annotated},
    message::{Message, bit},
    query::Query,
    real::{Fairway, Process, ask, call, fairway_binary, free_port, http_get, program, wait_until},
};
use fairway_model::{Name, Rtype};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
/// TTL of the host names.
const TTL: Duration = Duration::from_secs(5);

/// HTTP servers at loopback addresses, all on one port. They note the Host header of each request.
struct Gateways {
    port: u16,
    hosts: Arc<Mutex<Vec<String>>>,
}

impl Gateways {
    fn start(addresses: &[&str]) -> Self {
        let (port, hosts) = (free_port(), Arc::<Mutex<Vec<String>>>::default());
        for address in addresses {
            let listener = TcpListener::bind((*address, port)).expect("a free port of an own loopback address");
            let hosts = Arc::clone(&hosts);
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                    let host = head
                        .iter()
                        .find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
                    hosts.lock().expect("no test panics with it").extend(host);
                    // A prober that has gone needs no answer.
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                }
            });
        }
        Self { port, hosts }
    }
}

/// The zone of a cloud's load balancers, and a resolver of clients.
struct Cloud {
    folder: TempDir,
    authority: SocketAddr,
    resolver: SocketAddr,
    knot: Process,
    unbound: Option<Process>,
    serial: u32,
}

impl Cloud {
    /// Starts both with these records of `elb.test`.
    fn start(records: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let [authority, resolver] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let path = folder.path();
        write_zone(path, 1, records);
        let shown = path.display();
        let text = format!(
            "server:\n  rundir: {shown}\n  listen: 127.0.0.1@{}\ndatabase:\n  storage: {shown}\nzone:\n  - domain: elb.test\n    file: \
             {shown}/zone\n    journal-content: none\n",
            authority.port()
        );
        fs::write(path.join("knot.conf"), text).expect("the folder can be written");
        let mut command = Command::new(program("knotd", "knotd"));
        command.arg("-c").arg(path.join("knot.conf"));
        let knot = Process::start(&mut command, &path.join("knot.log"));
        let text = format!(
            "server:\n  directory: \"{shown}\"\n  username: \"\"\n  chroot: \"\"\n  interface: 127.0.0.1@{}\n  do-ip6: no\n  do-daemonize: \
             no\n  use-syslog: no\n  num-threads: 1\n  module-config: \"iterator\"\n  do-not-query-localhost: no\n  access-control: \
             127.0.0.0/8 allow\n  local-zone: \"test.\" nodefault\n  cache-max-negative-ttl: 1\nstub-zone:\n  name: \"elb.test\"\n  \
             stub-addr: 127.0.0.1@{}\nremote-control:\n  control-enable: no\n",
            resolver.port(),
            authority.port()
        );
        fs::write(path.join("unbound.conf"), text).expect("the folder can be written");
        let mut cloud = Self { folder, authority, resolver, knot, unbound: None, serial: 1 };
        wait_until("knot answers", PATIENCE, || {
            assert!(cloud.knot.is_running(), "knot ended: {}", cloud.knot.output());
            answer(authority, "elb.test", Rtype::SOA).is_some_and(|message| message.rcode() == 0)
        });
        cloud.start_resolver();
        cloud
    }

    fn start_resolver(&mut self) {
        let mut command = Command::new(program("unbound", "unbound"));
        command.arg("-dp").arg("-c").arg(self.folder.path().join("unbound.conf"));
        self.unbound = Some(Process::start(&mut command, &self.folder.path().join("unbound.log")));
        let resolver = self.resolver;
        wait_until("unbound answers", PATIENCE, || {
            answer(resolver, "elb.test", Rtype::SOA).is_some_and(|message| message.rcode() == 0)
        });
    }

    /// Replaces the records. Returns once the authoritative server answers with them.
    fn change(&mut self, records: &str) -> Instant {
        self.serial += 1;
        write_zone(self.folder.path(), self.serial, records);
        self.knot.signal("HUP");
        let (authority, serial) = (self.authority, format!(" {} ", self.serial));
        let has_serial =
            |message: Message| message.sections[0].iter().any(|record| record.to_string().contains(&serial));
        wait_until("knot has the new zone", PATIENCE, || {
            answer(authority, "elb.test", Rtype::SOA).is_some_and(has_serial)
        });
        Instant::now()
    }

    /// Starts a server with these clusters in the pool `shop`, probed at this port each 200 ms.
    fn fairway(&self, port: u16, clusters: &[&str], more: &str) -> Fairway {
        Fairway::start(&self.config(port, clusters, more), &[])
    }

    fn config(&self, port: u16, clusters: &[&str], more: &str) -> String {
        let listed: String = clusters
            .iter()
            .enumerate()
            .map(|(number, cluster)| format!("  - {{ name: c{number}, addresses: [{cluster}] }}\n"))
            .collect();
        let members: Vec<String> =
            (0..clusters.len()).map(|number| format!("{{ cluster: c{number}, tier: {} }}", number + 1)).collect();
        let members = members.join(", ");
        format!(
            "resolvers: {{ servers: [\"{}\"] }}
zones: [ {{ name: gslb.test, ns: [ {{ name: ns1.gslb.test, addresses: [127.0.0.1] }} ], contact: a@gslb.test }} ]
monitors: [ {{ name: gateway, type: http, port: {port}, path: /, period: 200ms, timeout: 200ms, rise: 1, fall: 3 }} ]
clusters:
{listed}pools:
  - {{ name: shop, policy: failover, ttl: 1s, monitor: gateway, members: [ {members} ] }}
  - {{ name: named, policy: failover, ttl: 1s, mode: cname, monitor: gateway, members: [ {{ cluster: c0 }} ] }}
names: [ {{ name: shop.gslb.test, pool: shop }}, {{ name: gslb.test, pool: shop }}, {{ name: named.gslb.test, pool: named }} ]
{more}",
            self.resolver
        )
    }
}

const LOOPBACK: &str = "health: { networks: { allow: [127.0.0.0/8] } }\n";

fn write_zone(folder: &Path, serial: u32, records: &str) {
    let text = format!(
        "$ORIGIN elb.test.\n$TTL {}\n@ SOA ns host {serial} 3600 900 604800 1\n@ NS ns\nns A 127.0.0.1\n{records}",
        TTL.as_secs()
    );
    fs::write(folder.join("zone"), text).expect("the folder can be written");
}

fn answer(server: SocketAddr, name: &str, rtype: Rtype) -> Option<Message> {
    let name = Name::from_text(name.as_bytes(), Some(&Name::root())).expect("names of this test are names");
    let query = Query { flags: bit::RD, ..Query::new(name, rtype) };
    ask(server, &query.encode()).map(|reply| Message::decode(&reply).expect("a sound message"))
}

/// Returns the data of the records of one type in the answer, in order.
fn data(server: SocketAddr, name: &str, rtype: Rtype) -> Vec<String> {
    let message = answer(server, name, rtype).expect("an answer");
    let records = message.sections[0].iter().filter(|record| record.rtype == rtype);
    let mut data: Vec<String> =
        records.filter_map(|record| Some(record.to_string().rsplit(' ').next()?.to_owned())).collect();
    data.sort();
    data
}

fn shop(server: &Fairway) -> Vec<String> {
    data(server.dns, "shop.gslb.test", Rtype::A)
}

/// Returns the state of the first host name of a cluster.
fn host(server: &Fairway, cluster: &str) -> Value {
    let (_, body) = http_get(server.http, "/v1/state").expect("the state");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    let clusters = state["clusters"].as_array().expect("clusters");
    clusters.iter().find(|of| of["name"] == cluster).expect("the cluster")["hosts"][0].clone()
}

#[test]
fn answers_follow_a_host_name_and_keep_its_last_good_addresses() {
    let gateways = Gateways::start(&["127.77.1.1", "127.77.1.2"]);
    let mut cloud = Cloud::start("lb A 127.77.1.1\n");
    let config = cloud.config(gateways.port, &["lb.elb.test", "192.0.2.1"], LOOPBACK);
    let mut server = Fairway::start(&config, &[]);
    // Before it was ready, the name was looked up and its address probed.
    assert_eq!(shop(&server), ["127.77.1.1"]);
    assert_eq!(data(server.dns, "gslb.test", Rtype::A), ["127.77.1.1"], "at the apex of the zone, too");
    assert_eq!(data(server.dns, "named.gslb.test", Rtype::CNAME), ["lb.elb.test."]);
    let seen = gateways.hosts.lock().expect("no test panics with it").clone();
    let named = format!("lb.elb.test:{}", gateways.port);
    assert!(!seen.is_empty() && seen.iter().all(|host| *host == named), "the name is the Host of probes: {seen:?}");

    // An address that comes and one that leaves, within the TTL of what the resolver has and a second.
    let mut slowest = Duration::ZERO;
    for (records, addresses) in [
        ("lb A 127.77.1.2\n", &["127.77.1.2"][..]),
        ("lb A 127.77.1.2\nlb A 127.77.1.1\n", &["127.77.1.1", "127.77.1.2"]),
    ] {
        let changed = cloud.change(records);
        wait_until("the answers have the new addresses", PATIENCE, || shop(&server) == addresses);
        slowest = slowest.max(changed.elapsed());
    }
    println!("the answers followed within {slowest:?}");
    // A resolver that counts in whole seconds answers from its cache for up to a second more than the TTL.
    assert!(slowest < TTL + Duration::from_millis(1_500), "{slowest:?}");

    // The load balancer's zone is emptied by mistake, then the resolver ends: nothing changes.
    cloud.change("other A 127.77.1.9\n");
    wait_until("the failure is shown", PATIENCE, || host(&server, "c0")["failure"].is_string());
    cloud.unbound = None;
    let two = ["127.77.1.1", "127.77.1.2"];
    let begun = Instant::now();
    wait_until("the look-ups fail without a resolver", PATIENCE, || {
        assert_eq!(shop(&server), two);
        host(&server, "c0")["failure"].as_str().is_some_and(|why| !why.contains("NXDOMAIN")) && begun.elapsed() > TTL
    });
    assert_eq!((server.metric("fairway_host_failing", "lb.elb.test"), shop(&server).len()), (1.0, 2));
    assert!(server.metric("fairway_host_age_seconds", "lb.elb.test") > 5.0);

    // A new process starts with them, without a resolver.
    let Fairway { process, folder, dns, http } = server;
    process.signal("TERM");
    let mut process = process;
    process.ended(PATIENCE);
    server = Fairway::start_in(folder, dns, http);
    assert_eq!(shop(&server), two);

    cloud.change("lb A 127.77.1.2\n");
    cloud.start_resolver();
    wait_until("the answers follow again", Duration::from_secs(45), || shop(&server) == ["127.77.1.2"]);
    assert!(host(&server, "c0")["failure"].is_null());
}

#[test]
fn host_names_that_lead_nowhere_leave_others_alone() {
    let gateways = Gateways::start(&["127.77.2.1"]);
    let many: String =
        (1..=250).flat_map(|n| [format!("many A 198.51.100.{n}\n"), format!("many A 203.0.113.{n}\n")]).collect();
    let mut cloud = Cloud::start(&format!(
        "good A 127.77.2.1\nsecret A 169.254.169.254\nsecret AAAA ::1\nloop CNAME pool\npool CNAME loop\nsix AAAA 2001:db8::6\n{many}"
    ));
    let clusters =
        ["none.elb.test", "loop.elb.test", "secret.elb.test", "six.elb.test", "many.elb.test", "good.elb.test"];
    let server = cloud.fairway(gateways.port, &clusters, LOOPBACK);
    wait_until("the one that can be reached is answered", PATIENCE, || shop(&server) == ["127.77.2.1"]);
    for (cluster, why) in [("c0", "NXDOMAIN"), ("c1", "")] {
        let host = host(&server, cluster);
        assert!(host["failure"].as_str().is_some_and(|text| text.contains(why)), "{host}");
        assert_eq!((&host["addresses"], &host["resolvedAt"]), (&json!([]), &Value::Null));
    }
    assert_eq!(host(&server, "c3")["addresses"], json!(["2001:db8::6"]));
    assert_eq!(host(&server, "c4")["addresses"].as_array().map(Vec::len), Some(8), "of 500 addresses");

    // The owner of the zone of a host name must not make this server connect to what only its machine reaches, or answer with it.
    let (_, body) = http_get(server.http, "/v1/state").expect("the state");
    assert!(body.contains("link-local addresses are not allowed"), "{body:.2000}");
    let mut only = cloud.fairway(gateways.port, &["secret.elb.test"], "");
    wait_until("it is refused", PATIENCE, || {
        let (_, body) = http_get(only.http, "/v1/state").expect("the state");
        ["loopback", "link-local"].iter().all(|what| body.contains(&format!("{what} addresses are not allowed")))
    });
    for rtype in [Rtype::A, Rtype::AAAA] {
        assert_eq!(data(only.dns, "shop.gslb.test", rtype), Vec::<String>::new());
    }

    // A name that is there later needs no change of the configuration.
    cloud.change("none A 127.77.2.1\n");
    wait_until("it is resolved", Duration::from_secs(45), || host(&server, "c0")["addresses"] == json!(["127.77.2.1"]));
    only.process.signal("TERM");
    only.process.ended(PATIENCE);

    // One that this server itself steers to the cluster is an error.
    let config = cloud.config(gateways.port, &["shop.gslb.test"], "");
    let folder = TempDir::new().expect("a temporary folder");
    let head = fairway_integration::real::head(only.dns, only.http);
    fs::write(folder.path().join("fairway.yaml"), head + &config).expect("the folder can be written");
    let checked =
        Command::new(fairway_binary()).arg("check").arg(folder.path().join("fairway.yaml")).output().expect("it runs");
    let text = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(!checked.status.success() && text.contains("leads back to its own name"), "{text}");
}

#[test]
fn cname_of_the_webhook_with_a_set_identifier_is_a_member() {
    let gateways = Gateways::start(&["127.77.3.1", "127.77.3.2"]);
    let mut cloud = Cloud::start("eu A 127.77.3.1\nus A 127.77.3.2\n");
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let more = format!("{LOOPBACK}webhook: {{ listen: \"{webhook}\" }}\n");
    let server = cloud.fairway(gateways.port, &["eu.elb.test"], &more);
    let endpoint = |set: &str, target: &str| {
        let monitor =
            [("health-port", gateways.port.to_string()), ("health-path", "/".to_owned()), ("answers", "2".to_owned())];
        let properties: Vec<Value> = monitor
            .iter()
            .map(|(word, value)| json!({"name": format!("webhook/gslb-{word}"), "value": value}))
            .collect();
        json!({"dnsName": "app.gslb.test", "recordType": "CNAME", "targets": [target], "setIdentifier": set, "recordTTL": 5,
            "providerSpecific": properties})
    };
    let post = |changes: Value| {
        let media_type = "application/external.dns.webhook+json;version=1";
        call(webhook, "POST /records", ("", media_type), &changes.to_string(), PATIENCE).expect("an answer").0
    };
    assert_eq!(post(json!({"create": [endpoint("eu", "eu.elb.test"), endpoint("us", "US.elb.test.")]})), 204);
    let app = || data(server.dns, "app.gslb.test", Rtype::A);
    wait_until("both are answered", PATIENCE, || app() == ["127.77.3.1", "127.77.3.2"]);
    let (_, state) = http_get(server.http, "/v1/state").expect("the state");
    let state: Value = serde_json::from_str(&state).expect("JSON");
    let pools = state["pools"].as_array().expect("pools");
    let members = pools.iter().find(|pool| pool["names"][0] == "app.gslb.test.").expect("its pool")["members"].clone();
    let clusters: Vec<&str> =
        members.as_array().expect("members").iter().filter_map(|of| of["cluster"].as_str()).collect();
    assert_eq!(clusters, ["c0", "at+us.elb.test"], "a host name of a declared cluster is that cluster");
    let (_, rows) = http_get(webhook, "/records").expect("the records");
    let rows: Value = serde_json::from_str(&rows).expect("JSON");
    assert_eq!(
        (rows.as_array().map(Vec::len), &rows[0]["recordType"]),
        (Some(2), &json!("CNAME")),
        "as they came: {rows}"
    );

    cloud.change("eu A 127.77.3.1\nus A 127.77.3.1\n");
    wait_until("the answer follows the address", PATIENCE, || app() == ["127.77.3.1"]);
    assert_eq!(post(json!({"delete": [endpoint("eu", "eu.elb.test")]})), 204);
    wait_until("only the other one is left", PATIENCE, || {
        let (_, state) = http_get(server.http, "/v1/state").expect("the state");
        let state: Value = serde_json::from_str(&state).expect("JSON");
        let pool = state["pools"]
            .as_array()
            .and_then(|pools| pools.iter().find(|pool| pool["names"][0] == "app.gslb.test."))
            .cloned();
        pool.is_some_and(|pool| {
            pool["members"].as_array().is_some_and(|of| of.len() == 1 && of[0]["cluster"] == "at+us.elb.test")
        })
    });
}

#[test]
fn host_name_in_the_status_of_a_service_is_read_and_contributed_as_one_member() {
    let gateways = Gateways::start(&["127.77.8.1", "127.77.8.2"]);
    let mut cloud = Cloud::start("eks A 127.77.8.1\n");
    let cluster = Cluster::start("eks");
    let annotations = annotated(&[("hostname", "app.gslb.test"), ("set-identifier", "eks")]);
    cluster.apply(&format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: app\n  annotations:\n{annotations}spec:\n  type: LoadBalancer\n  ports: [{{ port: 443 }}]\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: app, labels: {{ kubernetes.io/service-name: app }} }}\n\
         addressType: IPv4\nports: []\nendpoints: [ {{ addresses: [10.1.1.1], conditions: {{ ready: true }} }} ]\n"
    ));
    let status = r#"{"status":{"loadBalancer":{"ingress":[{"hostname":"eks.elb.test"}]}}}"#;
    cluster.kubectl(&["patch", "service", "app", "--subresource=status", "--type=merge", "-p", status]);
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let kubeconfig = cluster.kubeconfig();
    let config = format!(
        "{LOOPBACK}resolvers: {{ servers: [\"{}\"] }}\nwebhook: {{ listen: \"{webhook}\" }}\nzones: [ {{ name: gslb.test, ns: [ns1.example.net] }} ]\n\
         monitors: [ {{ name: gateway, type: http, port: {}, path: /, period: 200ms, timeout: 200ms, rise: 1, fall: 3 }} ]\n\
         clusters: [ {{ name: eks, monitor: gateway, kubernetes: {{ kubeconfig: \"{}\" }} }} ]\n",
        cloud.resolver,
        gateways.port,
        kubeconfig.display()
    );
    let server = Fairway::start(&config, &[]);
    let app = || data(server.dns, "app.gslb.test", Rtype::A);
    wait_until("the Service is answered", PATIENCE, || app() == ["127.77.8.1"]);
    cloud.change("eks A 127.77.8.2\n");
    wait_until("the answer follows the host name", PATIENCE, || app() == ["127.77.8.2"]);

    let _external_dns = cluster.external_dns(&format!("http://{webhook}"), "eks", &["--source=service"], &[]);
    wait_until("external-dns contributes the same", PATIENCE, || {
        http_get(webhook, "/records").is_some_and(|(_, rows)| rows.contains("eks.elb.test"))
    });
    {
        let (_, state) = http_get(server.http, "/v1/state").expect("the state");
        let state: Value = serde_json::from_str(&state).expect("JSON");
        let pools = state["pools"].as_array().expect("pools");
        let members = pools[0]["members"].as_array().expect("members");
        assert_eq!((pools.len(), members.len(), &members[0]["cluster"]), (1, 1, &json!("eks")), "{pools:?}");
    }
    assert_eq!(app(), ["127.77.8.2"]);
}
