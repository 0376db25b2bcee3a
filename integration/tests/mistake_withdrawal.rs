//! A client of the webhook that withdraws everything, as ExternalDNS with `--policy=sync` does after an upgrade that no longer reads the
//! annotations: the answers stay until somebody confirms.

use std::{net::SocketAddr, time::Duration};

use fairway_integration::{
    load::resolve,
    real::{self, Fairway, Process, free_port, http_get, serve, wait_until},
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);
const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// Sends a call of the webhook; returns status and body.
fn call(server: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    real::call(server, &format!("{method} {path}"), ("", MEDIA_TYPE), body, LIMIT).expect("it answers")
}

/// A server with the webhook, and a client of it with two base paths.
struct Scene {
    server: Fairway,
    webhook: SocketAddr,
}

impl Scene {
    fn start(more: &str) -> Self {
        let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
        // The gateways of this test are on loopback.
        let zones =
            "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\nhealth: { networks: { allow: [127.0.0.0/8] } }\n";
        Self { server: Fairway::start(&format!("{zones}webhook: {{ listen: \"{webhook}\" }}\n{more}"), &[]), webhook }
    }

    fn records(&self, owner: &str) -> Vec<Value> {
        let (status, body) = call(self.webhook, "GET", &format!("/owners/{owner}/records"), "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn change(&self, owner: &str, what: &str, endpoints: &[Value]) {
        let body = json!({ what: endpoints }).to_string();
        let (status, body) = call(self.webhook, "POST", &format!("/owners/{owner}/records"), &body);
        assert_eq!(status, 204, "{body}");
    }

    /// Deletes all records of an owner that it sees, as a client does whose sources have become empty.
    fn delete_all(&self, owner: &str) {
        self.change(owner, "delete", &self.records(owner));
    }

    fn answers(&self, name: &str, expected: &[&str]) -> bool {
        resolve(self.server.dns, name).is_some_and(|reply| reply.is(expected))
    }

    /// True if a name does not exist (RFC 8020).
    fn is_gone(&self, name: &str) -> bool {
        resolve(self.server.dns, name).is_some_and(|reply| reply.rcode == 3)
    }

    /// Returns the condition `Held` of each owner: owner, status, reason.
    fn held(&self) -> Vec<(String, String, String)> {
        let (status, body) = http_get(self.server.http, "/v1/contributions").expect("it answers");
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = body["items"].as_array().expect("items").iter();
        let row = |item: &Value| {
            let condition = &item["conditions"][0];
            (text(&item["owner"]), text(&condition["status"]), text(&condition["reason"]))
        };
        items.map(row).collect()
    }

    fn restart(&mut self) {
        self.server.process.signal("KILL");
        self.server.process.ended(LIMIT);
        let folder = self.server.folder.path();
        self.server.process = Process::start(&mut serve(folder), &folder.join("fairway.log"));
        self.server.wait_ready();
    }
}

/// Returns the address record of a name, and the record of the registry that comes with it.
fn named(name: &str, address: &str, owner: &str) -> [Value; 2] {
    let none = json!([{"name": "webhook/gslb-health-scheme", "value": "none"}]);
    let registry =
        format!("\"heritage=external-dns,external-dns/owner={owner},external-dns/resource=service/default/x\"");
    [
        json!({"dnsName": name, "recordType": "A", "targets": [address], "providerSpecific": none}),
        json!({"dnsName": format!("a-{name}"), "recordType": "TXT", "targets": [registry],
            "labels": {"ownedRecord": name}, "providerSpecific": none}),
    ]
}

fn name(owner: &str, number: usize) -> String {
    format!("{owner}{number}.gslb.example")
}

#[test]
fn owners_that_delete_everything_change_no_answer_until_it_is_confirmed() {
    let mut scene = Scene::start("");
    let owners = [("east", "203.0.113.10"), ("west", "203.0.113.20")];
    for (owner, address) in owners {
        let rows: Vec<Value> = (0..20).flat_map(|number| named(&name(owner, number), address, owner)).collect();
        scene.change(owner, "create", &rows);
    }
    let all_answered = |scene: &Scene| {
        owners.iter().all(|(owner, address)| (0..20).all(|number| scene.answers(&name(owner, number), &[address])))
    };
    wait_until("all names are answered", LIMIT, || all_answered(&scene));

    for (owner, _) in owners {
        scene.delete_all(owner);
        assert_eq!(scene.records(owner), Vec::<Value>::new(), "the client sees its change accepted");
        scene.delete_all(owner);
    }
    assert!(all_answered(&scene), "a name is no longer answered");
    let held = |owner: &str| (owner.to_owned(), "True".to_owned(), "manyNames".to_owned());
    assert_eq!(scene.held(), [held("east"), held("west")]);
    assert_eq!(scene.server.metric("fairway_withdrawals_held_endpoints", ""), 80.0);
    let log = scene.server.process.output();
    assert_eq!(log.matches("withdrawal held").count(), 2, "one line per owner: {log}");

    scene.restart();
    assert!(all_answered(&scene), "a restart released what was held");

    // Created again: no longer held, and unchanged in the answers.
    let back: Vec<Value> = (0..20).flat_map(|number| named(&name("west", number), "203.0.113.20", "west")).collect();
    scene.change("west", "create", &back);
    assert_eq!(scene.held()[1].1, "False");
    assert_eq!(scene.records("west").len(), 40);

    let confirmed = scene.server.command(&["contributions", "confirm", "east", "--reason", "the cluster is gone"]);
    let output = String::from_utf8_lossy(&confirmed.stdout).into_owned();
    assert!(confirmed.status.success() && output.contains("removed 40 endpoints of east"), "{output}");
    wait_until("the confirmed names are gone", LIMIT, || (0..20).all(|n| scene.is_gone(&name("east", n))));
    assert!((0..20).all(|number| scene.answers(&name("west", number), &["203.0.113.20"])));
    assert_eq!(scene.server.metric("fairway_withdrawals_released_endpoints_total", "cause=\"confirmed\""), 40.0);
    let again = scene.server.command(&["contributions", "confirm", "east"]);
    assert!(!again.status.success(), "nothing is held any more");
}

#[test]
fn few_names_are_withdrawn_at_once_and_holds_can_be_switched_off() {
    let scene = Scene::start("");
    let rows: Vec<Value> = (0..3).flat_map(|number| named(&name("east", number), "203.0.113.10", "east")).collect();
    scene.change("east", "create", &rows);
    wait_until("all names are answered", LIMIT, || (0..3).all(|n| scene.answers(&name("east", n), &["203.0.113.10"])));
    scene.change("east", "delete", &rows[..2]);
    wait_until("the first name is gone", LIMIT, || scene.is_gone(&name("east", 0)));
    assert!(scene.answers(&name("east", 1), &["203.0.113.10"]));

    let scene = Scene::start("withdrawals: { holdFor: 0s }\n");
    scene.change("east", "create", &rows);
    wait_until("all names are answered", LIMIT, || scene.answers(&name("east", 2), &["203.0.113.10"]));
    scene.delete_all("east");
    wait_until("all names are gone", LIMIT, || (0..3).all(|number| scene.is_gone(&name("east", number))));
}

#[test]
fn last_healthy_member_of_a_shared_name_is_held_until_another_is_healthy() {
    let scene = Scene::start("");
    let port = free_port();
    let probed = |owner: &str, address: &str| {
        json!({"dnsName": "shop.gslb.example", "recordType": "A", "targets": [address], "setIdentifier": owner,
            "providerSpecific": [{"name": "webhook/gslb-health-scheme", "value": "tcp"},
                {"name": "webhook/gslb-health-port", "value": port.to_string()}]})
    };
    let listen = |address: &str| std::net::TcpListener::bind((address, port)).expect("loopback has the port");
    let _east = listen("127.0.0.10");
    let (east, west) = (probed("east", "127.0.0.10"), probed("west", "127.0.0.20"));
    scene.change("east", "create", std::slice::from_ref(&east));
    scene.change("west", "create", &[west]);
    wait_until("west is down", LIMIT, || {
        scene.server.metric("fairway_target_status", r#"state="down""#) == 1.0
            && scene.answers("shop.gslb.example", &["127.0.0.10"])
    });
    scene.change("east", "delete", &[east]);
    assert!(scene.answers("shop.gslb.example", &["127.0.0.10"]));
    assert_eq!(scene.held()[0], ("east".to_owned(), "True".to_owned(), "lastHealthyMember".to_owned()));

    let _west = listen("127.0.0.20");
    wait_until("the other member is healthy and alone", LIMIT, || scene.answers("shop.gslb.example", &["127.0.0.20"]));
    wait_until("nothing is held", LIMIT, || scene.held().len() == 1);
    // Counted once the release is acknowledged, which is after it is shown.
    wait_until("the release is counted", LIMIT, || {
        scene.server.metric("fairway_withdrawals_released_endpoints_total", "cause=\"replaced\"") == 1.0
    });
}
