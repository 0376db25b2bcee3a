//! Several real Fairways on one real etcd: each accepts writes, all serve them; without etcd they keep serving; with equal ids they give
//! the same answers.
//!
//! Unit tests of the store cover its guarantees, also while etcd hangs or the network is cut.
#![cfg(feature = "real")]

mod balance;
mod overrides;
mod prunes;
mod webhook;

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use fairway_integration::{
    load::{connect, receive, resolve, wait_answer},
    message::Message,
    query::{Opt, Query},
    real::{Fairway, Process, free_port, http_get, program, serve, wait_until},
};
use fairway_model::Rtype;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for an event that is immediate on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The declared name.
const NAME: &str = "www.gslb.example";
/// A key that is not of the servers, in base64.
const ELSEWHERE: &str = "ZWxzZXdoZXJl";

/// A real etcd.
struct Etcd {
    folder: TempDir,
    ports: [u16; 2],
    more: &'static [&'static str],
    process: Process,
}

impl Etcd {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(more: &'static [&'static str]) -> Self {
        let (folder, ports) = (TempDir::new().expect("a temporary folder"), [free_port(), free_port()]);
        let process = run(folder.path(), ports, more);
        let etcd = Self { folder, ports, more, process };
        etcd.wait();
        etcd
    }

    fn kill(&mut self) {
        self.process.signal("KILL");
        self.process.ended(LIMIT);
    }

    fn again(&mut self) {
        self.process = run(self.folder.path(), self.ports, self.more);
        self.wait();
    }

    fn wait(&self) {
        let address = ([127, 0, 0, 1], self.ports[0]).into();
        wait_until("etcd answers", LIMIT, || {
            http_get(address, "/health").is_some_and(|(_, body)| body.contains("\"true\""))
        });
    }

    /// Sends a request to its JSON gateway, as `etcdctl` would; returns the error if it is refused.
    fn gateway(&self, path: &str, body: &Value) -> Result<Value, String> {
        let file = self.folder.path().join("body");
        std::fs::write(&file, body.to_string()).expect("the folder can be written");
        let mut command = Command::new("curl");
        command.args(["-s", "-m", "30", "-d", &format!("@{}", file.display())]);
        command.arg(format!("http://127.0.0.1:{}{path}", self.ports[0]));
        let said = String::from_utf8_lossy(&command.output().expect("curl is here").stdout).into_owned();
        match serde_json::from_str::<Value>(&said) {
            Ok(answer) if answer.get("code").is_none() => Ok(answer),
            _ => Err(said),
        }
    }

    /// Writes next to the prefix of the servers until etcd is full and raises its alarm.
    fn fill(&self) {
        let put = json!({"key": ELSEWHERE, "value": "eHh4".repeat(128 << 10)});
        wait_until("etcd is full", LIMIT, || {
            self.gateway("/v3/kv/put", &put).is_err_and(|refused| refused.contains("database space exceeded"))
        });
    }

    /// Frees space: deletes what was written, compacts, defragments, and disarms the alarm.
    fn free(&self) {
        let ask = |path: &str, body: Value| self.gateway(path, &body).expect("it is taken");
        let gone = ask("/v3/kv/deleterange", json!({"key": ELSEWHERE}));
        ask("/v3/kv/compaction", json!({"revision": gone["header"]["revision"], "physical": true}));
        ask("/v3/maintenance/defragment", json!({}));
        let alarms = ask("/v3/maintenance/alarm", json!({"action": "GET"}));
        for alarm in alarms["alarms"].as_array().expect("it gave one") {
            let (member, alarm) = (&alarm["memberID"], &alarm["alarm"]);
            ask("/v3/maintenance/alarm", json!({"action": "DEACTIVATE", "memberID": member, "alarm": alarm}));
        }
    }

    /// Returns the configuration of a server that shares it.
    fn config(&self) -> String {
        format!(
            "zones: [{{ name: gslb.example, ns: [ns1.example.net], contact: a@example.net }}]
store: {{ etcd: {{ endpoints: [\"http://127.0.0.1:{}\"] }} }}
evidence: {{ challenge: false }}
",
            self.ports[0]
        )
    }
}

fn run(folder: &Path, [client, peer]: [u16; 2], more: &[&str]) -> Process {
    let [client, peer] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let mut command = Command::new(program("etcd", "etcd"));
    command.args(["--name", "t", "--log-level", "warn", "--unsafe-no-fsync", "--data-dir"]).arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("t={peer}")]).args(more);
    Process::start(&mut command, &folder.join("log"))
}

/// Declares [`NAME`] with this address on a server.
fn declare(server: &Fairway, address: &str) -> Output {
    apply(
        server,
        &format!(
            "clusters: [{{ name: eu1, addresses: [{address}] }}]
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}] }}]
names: [{{ name: {NAME}, pool: shop }}]
"
        ),
    )
}

fn apply(server: &Fairway, text: &str) -> Output {
    let file = server.folder.path().join("objects.yaml");
    std::fs::write(&file, text).expect("the folder can be written");
    server.command(&["apply", "-f", file.to_str().expect("a path in UTF-8"), "--reason", "a test"])
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

fn state(server: &Fairway) -> Value {
    let (_, body) = http_get(server.http, "/v1/state").expect("the server answers");
    serde_json::from_str(&body).expect("it is JSON")
}

/// Sends a write over the control socket; returns the whole answer.
fn put(server: &Fairway, path: &str, body: &str) -> String {
    let socket = server.folder.path().join("data/control.sock");
    let mut command = Command::new("curl");
    command.args(["-s", "-i", "-m", "30", "-X", "PUT", "-H", "content-type: application/json", "-d", body]);
    command.arg("--unix-socket").arg(socket).arg(format!("http://fairway{path}"));
    String::from_utf8_lossy(&command.output().expect("curl is here").stdout).into_owned()
}

/// Sends a write with an idempotency key to any server; returns its answer without the date.
fn declare_once(server: &Fairway, key: &str, body: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["-s", "-i", "-m", "30", "-H", "content-type: application/json", "-d", body]);
    command.args(["-H", &format!("idempotency-key: {key}"), &format!("http://{}/v1/clusters", server.http)]);
    let text = String::from_utf8_lossy(&command.output().expect("curl is here").stdout).into_owned();
    text.lines().filter(|line| !line.starts_with("date:")).collect::<Vec<_>>().join("\n")
}

#[test]
fn repeated_write_to_another_server_is_done_once() {
    let etcd = Etcd::start();
    let servers = [(); 2].map(|()| Fairway::start(&etcd.config(), &[]));
    let body = r#"{"name": "eu1", "addresses": ["192.0.2.1"]}"#;
    let first = declare_once(&servers[0], "a", body);
    assert!(first.starts_with("HTTP/1.1 201"), "{first}");
    wait_until("the other server serves it", LIMIT, || {
        http_get(servers[1].http, "/v1/clusters/eu1").is_some_and(|(_, body)| body.contains("\"reason\":\"Served\""))
    });
    assert_eq!(declare_once(&servers[1], "a", body), first);
    let other = declare_once(&servers[1], "a", &body.replace("192.0.2.1", "192.0.2.2"));
    assert!(other.starts_with("HTTP/1.1 422"), "{other}");
    // Sent to both at once, it is executed once; the slower server returns the same answer, or asks to retry.
    let body = &body.replace("eu1", "us1");
    let said = std::thread::scope(|scope| {
        let sent = servers.each_ref().map(|server| scope.spawn(move || declare_once(server, "b", body)));
        sent.map(|sent| sent.join().expect("it ends"))
    });
    let created = said.iter().filter(|text| text.starts_with("HTTP/1.1 201")).count();
    let conflicts = said.iter().filter(|text| text.starts_with("HTTP/1.1 409")).count();
    assert!(created >= 1 && created + conflicts == 2, "{said:?}");
    let (_, history) = http_get(servers[0].http, "/v1/clusters/us1/history").expect("an answer");
    let history: Value = serde_json::from_str(&history).expect("it is JSON");
    assert_eq!(history.as_array().map(Vec::len), Some(1), "{history}");
}

#[test]
fn write_to_one_server_is_served_by_all_despite_an_etcd_outage() {
    let mut etcd = Etcd::start();
    let mut servers = [(); 3].map(|()| Fairway::start(&etcd.config(), &[]));
    for (at, address) in ["192.0.2.1", "192.0.2.2", "192.0.2.3"].into_iter().enumerate() {
        done(&declare(&servers[at], address));
        servers.iter().for_each(|server| wait_answer(server.dns, NAME, &[address], LIMIT));
    }
    let revisions: Vec<_> = servers.iter().map(|server| state(server)["store"]["revision"].clone()).collect();
    assert!(revisions.iter().all(|revision| *revision == revisions[0] && revision.as_u64() > Some(0)), "{revisions:?}");

    etcd.kill();
    let refused = put(&servers[0], "/v1/clusters/eu1", r#"{"name": "eu1", "addresses": ["192.0.2.9"]}"#);
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("application/problem+json"), "{refused}");
    assert!(refused.contains("etcd at"), "{refused}");
    for server in &servers {
        wait_until("it is said", LIMIT, || state(server)["store"]["error"].is_string());
        assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.3"])));
        let status = said(&server.command(&["status"]));
        assert!(status.contains("store") && status.contains("not available since"), "{status}");
        assert_eq!(server.metric("fairway_store_up", ""), 0.0);
    }
    // Started without etcd, it serves the last known state.
    servers[1].process.signal("KILL");
    servers[1].process.ended(LIMIT);
    servers[1].process = Process::start(&mut serve(servers[1].folder.path()), &servers[1].folder.path().join("again"));
    servers[1].wait_ready();
    assert!(resolve(servers[1].dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.3"])));

    etcd.again();
    for server in &servers {
        wait_until("etcd is back", LIMIT, || state(server)["store"]["error"].is_null());
    }
    done(&declare(&servers[1], "192.0.2.4"));
    servers.iter().for_each(|server| wait_answer(server.dns, NAME, &["192.0.2.4"], LIMIT));
    let history = servers.iter().map(|server| said(&server.command(&["store", "history", "cluster/eu1"])));
    let history: Vec<_> = history.collect();
    assert!(history.iter().all(|text| *text == history[0] && text.contains("a test")), "{history:?}");
}

/// Returns pools of every policy, over five clusters.
fn pools() -> String {
    let members = (1..=5).map(|n| format!("{{ cluster: c{n}, weight: {} }}", n * 10)).collect::<Vec<_>>().join(", ");
    let mut text = "monitors: [{ name: unchecked, type: always }]\nclusters:\n".to_owned();
    for n in 1..=5 {
        text += &format!("  - {{ name: c{n}, addresses: [192.0.2.{n}, \"2001:db8::{n}\"] }}\n");
    }
    text += "pools:\n";
    let policies = ["failover", "weighted", "sticky"];
    for policy in policies {
        text += &format!("  - {{ name: {policy}, policy: {policy}, monitor: unchecked, members: [{members}] }}\n");
    }
    text += "names:\n";
    for policy in policies {
        text += &format!("  - {{ name: {policy}.gslb.example, pool: {policy} }}\n");
    }
    text
}

/// Returns the number of queries: FAIRWAY_SAME, else 6,000. `bench/full` sends a million.
#[test]
fn servers_with_equal_ids_give_the_same_answers() {
    let count: u32 =
        std::env::var("FAIRWAY_SAME").map_or(6_000, |text| text.parse().expect("FAIRWAY_SAME is a number"));
    let etcd = Etcd::start();
    let servers = [(); 3].map(|()| Fairway::start(&etcd.config(), &[]));
    done(&apply(&servers[0], &pools()));
    let forced = [("c2", "down"), ("c4", "drain")];
    for (server, (cluster, force)) in servers.iter().flat_map(|server| forced.map(|forced| (server, forced))) {
        done(&server.command(&["override", "add", cluster, force, "--reason", "a test", "--for", "1h"]));
    }
    let ids = |server: &Fairway| {
        let config = state(server)["config"].clone();
        (config["snapshot"].clone(), config["runtimeState"].clone())
    };
    wait_until("all have the same ids", LIMIT, || {
        let all = servers.each_ref().map(ids);
        all.iter().all(|pair| *pair == all[0])
            && resolve(servers[2].dns, "failover.gslb.example").is_some_and(|reply| reply.rcode == 0)
    });
    let sockets = servers.each_ref().map(|server| connect(server.dns));
    let names = ["failover", "weighted", "sticky", "nothing", ""].map(|label| format!("{label}.gslb.example"));
    let (mut draw, mut given) = (0x5eed_u64, std::collections::BTreeSet::new());
    for number in 0..count {
        // Marsaglia's xorshift generator: the same clients in each run.
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        let [a, b, c, which, kind, ..] = draw.to_be_bytes();
        let name = names[usize::from(which) % names.len()].trim_start_matches('.').parse().expect("a name");
        let rtype = [Rtype::A, Rtype::AAAA, Rtype::TXT][usize::from(kind) % 3];
        let id = u16::try_from(number % 65_536).expect("it is below 65,536");
        let subnet = vec![0, 1, 24, 0, a.max(1), b, c];
        let edns = Some(Opt { options: vec![(8, subnet)], ..Opt::default() });
        let packet = Query { id, edns, ..Query::new(name, rtype) }.encode();
        sockets.iter().for_each(|socket| _ = socket.send(&packet).expect("the server listens"));
        let replies = sockets.each_ref().map(|socket| receive(socket, id).expect("an answer"));
        let sections = replies.each_ref().map(|octets| {
            let message = Message::decode(octets).expect("a sound answer");
            format!("{:?} {:?} {:?}", message.rcode(), message.sections[0], message.sections[1])
        });
        assert!(sections.iter().all(|other| *other == sections[0]), "query {number}: {sections:#?}");
        given.insert(sections[0].clone());
    }
    println!("{count} queries to each of 3 servers, {} different answers, 0 differences", given.len());
    assert!(given.len() >= 8, "the answers are no choice: {given:?}");
    let after = servers.each_ref().map(ids);
    assert!(after.iter().all(|pair| *pair == after[0]), "{after:?}");
}

/// A backup of the local copy starts a server with a store of its own.
#[test]
fn backup_works_with_and_without_etcd_and_starts_a_new_server() {
    let mut etcd = Etcd::start();
    let server = Fairway::start(&etcd.config(), &[]);
    done(&declare(&server, "192.0.2.1"));
    wait_until("it is served", LIMIT, || resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
    let scratch = TempDir::new().expect("a temporary folder");
    let path = |name: &str| scratch.path().join(name).to_str().expect("a plain path").to_owned();
    let count = |output: &Output| said(output).split_once(": ").map(|(_, count)| count.trim().to_owned());
    let beside = server.command(&["store", "backup", &path("with.redb")]);
    done(&beside);
    done(&server.command(&["store", "verify"]));
    etcd.kill();
    let without = server.command(&["store", "backup", &path("without.redb")]);
    done(&without);
    assert_eq!(count(&beside), count(&without), "the copy is whole without etcd, too");
    assert!(said(&server.command(&["store", "history", "name/www.gslb.example"])).contains("a test"));
    let refused = server.command(&["store", "restore", &path("with.redb")]);
    assert!(!refused.status.success(), "{}", said(&refused));

    let zone = "zones: [{ name: gslb.example, ns: [ns1.example.net], contact: a@example.net }]\n";
    let mut own = Fairway::start(zone, &[]);
    own.process.signal("TERM");
    own.process.ended(LIMIT);
    done(&own.command(&["store", "restore", &path("with.redb")]));
    own.process = Process::start(&mut serve(own.folder.path()), &own.folder.path().join("again.log"));
    own.wait_ready();
    assert!(resolve(own.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])), "it is answered");
    done(&declare(&own, "192.0.2.2"));
    wait_until("it takes writes", LIMIT, || resolve(own.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.2"])));
}
