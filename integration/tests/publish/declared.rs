//! Publishing records declared over the API: real servers of all kinds receive the names of one project.

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path, time::Duration};

use fairway_integration::{
    load::resolve,
    message::Message,
    query::Query,
    real::{Fairway, ask, free_port, http, http_get, http_json, wait_until},
};
use fairway_model::Rtype;
use fairway_providers::publish::Provider;
use serde_json::{Value, json};

use crate::{
    ZONE,
    etcd::{CoreDns, EtcdServer, coredns, etcd},
    servers::{PowerDnsServer, SECRET, Server, bind, powerdns, start},
};

const LIMIT: Duration = Duration::from_secs(60);
const SCENE: &str = "zones: [{ name: pub.example, ns: [ns1.example.net], monitor: unchecked }]
monitors: [{ name: unchecked, type: always }]
clusters: [{ name: eu1, addresses: [203.0.113.10] }, { name: us1, addresses: [203.0.113.20] }]
pools: [{ name: own, policy: weighted, monitor: unchecked, members: [{ cluster: eu1 }] }]
names: [{ name: nobodys.pub.example, pool: own }]
";
const RECORDS: &str = "/v2/projects/p/dns-update-records";
const BOTH: [&str; 2] = ["203.0.113.10", "203.0.113.20"];

fn request(server: &Fairway, method: &str, path: &str, body: &Value, status: u16) -> Value {
    let (code, text) = http_json(server.http, method, path, &body.to_string()).expect("it answers");
    assert_eq!(code, status, "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Declares an intent of a project, on all clusters.
fn intend(server: &Fairway, project: &str, name: &str) {
    let body = json!({"metadata": {"name": name}, "spec": {"app": "a", "serviceName": "a", "externalSupport": true,
        "externalName": format!("{name}.pub.example")}});
    request(server, "PUT", &format!("/v1/intents/inbound/{project}/a/v1/default/default/{name}"), &body, 201);
}

fn declare(server: &Fairway, name: &str, provider: &str, parameters: Value) {
    let mut all = json!({"domain-filter": "pub.example", "interval": "10s", "txt-owner-id": "us"});
    all.as_object_mut().expect("a map").extend(parameters.as_object().expect("a map").clone());
    let body = json!({"metadata": {"name": name}, "spec": {"provider": provider, "external-dns-parameters": all}});
    let made = request(server, "POST", RECORDS, &body, 201).to_string();
    assert!(!made.contains(SECRET) && !made.contains("key-of-the-tests"), "{made}");
}

/// Returns the addresses that a DNS server answers, sorted.
fn addresses(server: SocketAddr, name: &str) -> Vec<String> {
    let query = Query::new(format!("{name}.pub.example.").parse().expect("a name"), Rtype::A).encode();
    let Some(reply) = ask(server, &query).and_then(|reply| Message::decode(&reply).ok()) else { return Vec::new() };
    let dotted = |rdata: &[u8]| rdata.iter().map(u8::to_string).collect::<Vec<_>>().join(".");
    let mut all: Vec<_> = reply.sections[0].iter().map(|record| dotted(&record.rdata)).collect();
    all.sort();
    all
}

/// Returns the reason of the condition `Published` of a record.
fn published(server: &Fairway, name: &str) -> String {
    let (_, text) = http_get(server.http, &format!("{RECORDS}/{name}")).expect("it answers");
    let shown: Value = serde_json::from_str(&text).expect("it is JSON");
    let all = shown["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let of = all.iter().find(|of| of["type"] == "Published").unwrap_or_else(|| panic!("{text}"));
    of["reason"].as_str().unwrap_or_default().to_owned()
}

fn publishers(server: &Fairway) -> BTreeSet<String> {
    let (_, text) = http_get(server.http, "/v1/publishing").expect("it answers");
    let state: Value = serde_json::from_str(&text).expect("it is JSON");
    let names = state["providers"].as_array().into_iter().flatten().map(|of| of["name"].as_str().unwrap_or_default());
    names.map(str::to_owned).collect()
}

fn taken_out(server: &Fairway, cluster: &str) {
    let output = server.command(&["override", "add", cluster, "down", "--reason", "test", "--for", "1h", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A server of each kind, with foreign records, and their names `www`.
struct Servers {
    bind: Server,
    powerdns: PowerDnsServer,
    etcd: EtcdServer,
    coredns: CoreDns,
    webhook: SocketAddr,
    /// Address of the other Fairway, which answers the records that it receives.
    other: Fairway,
}

impl Servers {
    fn start() -> Self {
        let etcd = etcd();
        let coredns = coredns(&format!("http://{}", etcd.at), "");
        let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let listens = format!("webhook: {{ listen: \"{webhook}\" }}\n");
        let other = Fairway::start(&format!("zones: [{{ name: pub.example, ns: [ns1.example.net] }}]\n{listens}"), &[]);
        Self { bind: start(bind), powerdns: powerdns(), etcd, coredns, webhook, other }
    }

    /// Declares a record for each supported provider.
    fn declare(&self, fairway: &Fairway) {
        let key = json!({"rfc2136-host": "127.0.0.1", "rfc2136-port": self.bind.at.port(), "rfc2136-zone": "pub.example",
            "rfc2136-tsig-keyname": "fairway", "rfc2136-tsig-secret": SECRET, "rfc2136-tsig-secret-alg": "hmac-sha256",
            "rfc2136-tsig-axfr": true});
        let (etcd, webhook) = (format!("http://{}", self.etcd.at), format!("http://{}/owners/p", self.webhook));
        declare(fairway, "bind", "rfc2136", key);
        let key = json!({"pdns-server": self.powerdns.api, "pdns-api-key": "key-of-the-tests"});
        declare(fairway, "pdns", "pdns", key);
        declare(fairway, "etcd", "coredns", json!({"etcd-urls": etcd, "coredns-prefix": "/skydns/"}));
        declare(fairway, "hook", "webhook", json!({"webhook-provider-url": webhook}));
        declare(fairway, "zone", "file", json!({"path": "pub.zone"}));
        let body = json!({"metadata": {"name": "kube"}, "spec": {"provider": "dnsendpoint", "parameters": {
            "domain-filter": "pub.example"}}});
        request(fairway, "POST", RECORDS, &body, 201);
    }

    /// Returns the number of addresses that PowerDNS has for a name.
    async fn in_powerdns(&self, name: &str) -> usize {
        let name = format!("{name}.{ZONE}");
        let sets = self.powerdns.provider.read().await.expect("it can be read");
        let of = sets.into_iter().find(|set| set.set.name.to_string() == name && set.set.rtype == Rtype::A);
        of.map_or(0, |of| of.set.rdatas.len())
    }

    /// True if the other Fairway answers a name with some of the addresses.
    fn is_brought(&self, name: &str) -> bool {
        let some = [&BOTH[..1], &BOTH[1..], &BOTH[..]];
        let reply = resolve(self.other.dns, &format!("{name}.pub.example"));
        reply.is_some_and(|reply| some.iter().any(|some| reply.is(some)))
    }

    /// Checks that none of these names is published anywhere, and that foreign records are unchanged.
    async fn have_none_of(&self, names: &[&str], text: &str) {
        for name in names {
            assert!(addresses(self.bind.at, name).is_empty() && self.coredns.dig(name, "A").is_empty(), "{name}");
            assert!(!text.contains(name) && !self.is_brought(name), "{name}");
            assert_eq!(self.in_powerdns(name).await, 0, "{name}");
        }
        assert_eq!((addresses(self.bind.at, "www"), self.in_powerdns("www").await), (vec!["192.0.2.80".to_owned()], 1));
        assert_eq!(self.coredns.dig("www", "A"), ["A 192.0.2.80"]);
    }
}

/// Returns the text of all files of a record.
fn files(data: &Path, folder: &str) -> String {
    let files = fs::read_dir(data.join("published/p").join(folder)).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
}

#[tokio::test]
async fn each_provider_gets_the_names_of_its_project_only() {
    let servers = Servers::start();
    let fairway = Fairway::start(SCENE, &[]);
    for (project, name) in [("p", "shop"), ("p", "www"), ("q", "pay")] {
        intend(&fairway, project, name);
    }
    servers.declare(&fairway);
    let data = fairway.folder.path().join("data");
    let [zone, objects] = ["zone", "kube/objects"].map(|folder| (folder, || files(&data, folder)));
    let at_bind = || addresses(servers.bind.at, "shop");
    let at_coredns = || servers.coredns.dig("shop", "A");
    wait_until("BIND", LIMIT, || at_bind() == BOTH);
    wait_until("CoreDNS", LIMIT, || at_coredns() == BOTH.map(|address| format!("A {address}")));
    wait_until("another Fairway", LIMIT, || servers.is_brought("shop"));
    for (folder, text) in [&zone, &objects] {
        wait_until(folder, LIMIT, || BOTH.iter().all(|address| text().contains(address)));
    }
    for name in ["bind", "pdns", "etcd", "hook", "zone", "kube"] {
        wait_until(name, LIMIT, || published(&fairway, name) == "Published");
    }
    assert_eq!(servers.in_powerdns("shop").await, 2);
    servers.have_none_of(&["pay", "nobodys"], &((zone.1)() + &(objects.1)())).await;
    let status = String::from_utf8_lossy(&fairway.command(&["publish", "status"]).stdout).into_owned();
    assert!(status.contains("p/bind: ok") && status.contains("www.pub.example."), "{status}");
    let plan = fairway.command(&["publish", "plan", "p/bind", "--json"]);
    assert!(String::from_utf8_lossy(&plan.stdout).contains("\"create\": []"));
    assert_eq!(fairway.metric("fairway_publish_failing", "provider=\"p/bind\""), 0.0);

    // A restart resumes declared records. A deleted one stops, and leaves the published records.
    let Fairway { process, folder, dns, http: api } = fairway;
    drop(process);
    let fairway = Fairway::start_in(folder, dns, api);
    wait_until("all run again", LIMIT, || publishers(&fairway).len() == 6);
    assert_eq!(http(fairway.http, "DELETE", &format!("{RECORDS}/bind")).map(|(code, _)| code), Some(204));
    wait_until("BIND's has ended", LIMIT, || !publishers(&fairway).contains("p/bind"));
    taken_out(&fairway, "us1");
    wait_until("CoreDNS follows", LIMIT, || at_coredns() == ["A 203.0.113.10"]);
    for (folder, text) in [&zone, &objects] {
        wait_until(folder, LIMIT, || !text().contains(BOTH[1]) && text().contains(BOTH[0]));
    }
    let follows = async {
        while servers.in_powerdns("shop").await != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, follows).await.expect("PowerDNS follows");
    assert_eq!(at_bind(), BOTH, "it stays as it was left");
    let log = fairway.process.output();
    assert!(!log.contains(SECRET) && !log.contains("key-of-the-tests"), "{log}");
}
