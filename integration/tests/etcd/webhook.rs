//! The webhook of several servers on one etcd: each accepts records, all serve them, and one clock decides which owner is silent.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use fairway_integration::real::{Fairway, free_port, http_get, program, wait_until};
use serde_json::{Value, json};

use super::{Etcd, LIMIT};

const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";
const SHOP: &str = "shop.gslb.example";

/// A server with the webhook, and the webhook's address.
struct Hooked {
    server: Fairway,
    webhook: SocketAddr,
}

impl Hooked {
    fn start(etcd: &Etcd, more: &str) -> Self {
        let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let config = format!("{}webhook: {{ listen: \"{webhook}\"{more} }}\n", etcd.config());
        Self { server: Fairway::start(&config, &[]), webhook }
    }

    /// Sends one call; returns status and body.
    fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.webhook).expect("the webhook listens");
        stream.set_read_timeout(Some(LIMIT)).expect("it is not zero");
        let (host, length) = (self.webhook, body.len());
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\n\r\n{body}")
            .expect("it is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
    }

    /// Sends endpoints of an owner; retries while the server is busy, as external-dns does.
    fn bring(&self, owner: &str, create: &Value) {
        let body = json!({ "create": create }).to_string();
        wait_until("it is taken", LIMIT, || {
            let (status, answer) = self.call("POST", &format!("/owners/{owner}/records"), &body);
            assert!(matches!(status, 204 | 503), "{status} {answer}");
            status == 204
        });
    }

    /// Returns names and targets of an owner.
    fn kept(&self, owner: &str) -> BTreeSet<(String, String)> {
        let (status, body) = self.call("GET", &format!("/owners/{owner}/records"), "");
        assert_eq!(status, 200, "{body}");
        let rows: Vec<Value> = serde_json::from_str(&body).expect("it is JSON");
        rows.iter().map(|row| (row["dnsName"].to_string(), row["targets"].to_string())).collect()
    }

    fn answers(&self, name: &str) -> BTreeSet<String> {
        let mut dig = Command::new(program("dig", "dig"));
        dig.args(["+short", "+tries=1", "+time=2", "@127.0.0.1", "-p", &self.server.dns.port().to_string(), name, "A"]);
        let output = dig.output().expect("dig runs");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// Returns the lease weight of an owner.
    fn left(&self, owner: &str) -> f64 {
        let (_, body) = http_get(self.server.http, "/v1/contributions").expect("the server answers");
        let listed: Value = serde_json::from_str(&body).expect("it is JSON");
        let own = listed["items"].as_array().into_iter().flatten().find(|item| item["owner"] == owner);
        own.and_then(|own| own["leaseWeight"].as_f64()).expect("the owner is listed")
    }
}

fn endpoint(name: &str, address: &str, set: &str) -> Value {
    json!({
        "dnsName": name, "recordType": "A", "targets": [address], "setIdentifier": set,
        "providerSpecific": [
            { "name": "webhook/gslb-answers", "value": "8" },
            { "name": "webhook/gslb-health-scheme", "value": "none" },
        ],
    })
}

fn addresses<const N: usize>(all: [&str; N]) -> BTreeSet<String> {
    all.map(str::to_owned).into()
}

#[test]
fn webhook_records_of_one_server_are_served_and_returned_by_all() {
    let etcd = Etcd::start();
    let servers = [(); 2].map(|()| Hooked::start(&etcd, ""));
    servers[0].bring("east", &json!([endpoint(SHOP, "192.0.2.1", "east")]));
    servers[1].bring("west", &json!([endpoint(SHOP, "192.0.2.2", "west")]));
    for server in &servers {
        wait_until("both are members", LIMIT, || server.answers(SHOP) == addresses(["192.0.2.1", "192.0.2.2"]));
        assert_eq!((server.kept("east").len(), server.kept("west").len()), (1, 1));
    }
    // The same owner at both servers at once, with the same names: every acknowledged call counts.
    std::thread::scope(|scope| {
        for (place, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..20 {
                    let name = format!("n{round}.gslb.example");
                    server.bring("east", &json!([endpoint(&name, "192.0.2.9", &format!("of-{place}"))]));
                }
            });
        }
    });
    let rows = |server: &Hooked| {
        let (_, body) = server.call("GET", "/owners/east/records", "");
        serde_json::from_str::<Vec<Value>>(&body).map(|rows| rows.len()).unwrap_or_default()
    };
    for server in &servers {
        wait_until("all of it is given back", LIMIT, || rows(server) == 41);
        wait_until("all of it is served", LIMIT, || server.answers("n19.gslb.example") == addresses(["192.0.2.9"]));
    }
    assert_eq!(servers[0].kept("east"), servers[1].kept("east"));
}

#[test]
fn webhook_lease_is_shared_by_all_servers_and_expires_on_all() {
    let etcd = Etcd::start();
    let servers = [(); 2].map(|()| Hooked::start(&etcd, ", lease: 10s"));
    servers[0].bring("east", &json!([endpoint(SHOP, "192.0.2.1", "east")]));
    servers[0].bring("west", &json!([endpoint(SHOP, "192.0.2.2", "west")]));
    let begun = Instant::now();
    // East calls the first server only; west is silent.
    let each_second = |check: &mut dyn FnMut() -> bool| {
        wait_until("the silent one is gone", LIMIT, || {
            servers[0].kept("east");
            std::thread::park_timeout(Duration::from_millis(300));
            check()
        });
    };
    each_second(&mut || servers.iter().all(|server| server.left("west") < 1.0));
    assert!(begun.elapsed() >= Duration::from_secs(10), "it had a lease of 10 s");
    each_second(&mut || servers.iter().all(|server| server.answers(SHOP) == addresses(["192.0.2.1"])));
    assert_eq!(servers.each_ref().map(|server| (server.left("east"), server.left("west"))), [(1.0, 0.0); 2]);
    assert_eq!(servers[0].kept("west").len(), 1, "what it brought is kept");
    // That read was a call of west: its weight is restored at both.
    for server in &servers {
        wait_until("it is back", LIMIT, || server.answers(SHOP) == addresses(["192.0.2.1", "192.0.2.2"]));
    }
}
