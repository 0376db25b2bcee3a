//! The webhook for ExternalDNS in the daemon: contributions are durable, merged, served, and returned unchanged.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use fairway_providers::{Endpoint, Json, MEDIA_TYPE, Property};
use serde_json::Value;

use super::{
    objects::{Server, zone_only},
    *,
};
use crate::daemon::Daemon;

/// Returns a configuration with a zone and the webhook with `more` settings.
pub(super) fn with_webhook(more: &str) -> String {
    format!("{}webhook: {{ listen: \"127.0.0.1:0\"{more} }}\n", zone_only())
}

fn listener(daemon: &Daemon, kind: &str) -> SocketAddr {
    let listeners = daemon.control().shared().lifecycle.listeners.get().unwrap();
    listeners.iter().find(|listener| listener.kind == kind).unwrap().address.parse().unwrap()
}

/// Makes a call as ExternalDNS does. Returns status and body.
fn call_at(server: SocketAddr, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    call_with(server, method, path, "", body)
}

/// Makes a call with more header lines.
fn call_with(server: SocketAddr, method: &str, path: &str, more: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nAccept: {MEDIA_TYPE}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\n{more}\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer[end + 4..].to_vec())
}

impl Server {
    pub(super) fn call(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        call_at(listener(&self.daemon, "webhook"), method, path, body)
    }

    fn endpoints(&self, base: &str) -> Vec<Endpoint> {
        let (status, body) = self.call("GET", &format!("{base}/records"), b"");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        Vec::from_json(&body).unwrap()
    }

    #[track_caller]
    pub(super) fn change(&self, base: &str, changes: fairway_providers::Changes) {
        let (status, body) = self.call("POST", &format!("{base}/records"), &changes.to_json());
        assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
    }

    fn create(&self, base: &str, create: Vec<Endpoint>) {
        self.change(base, fairway_providers::Changes { create, ..Default::default() });
    }

    fn delete(&self, base: &str, delete: Vec<Endpoint>) {
        self.change(base, fairway_providers::Changes { delete, ..Default::default() });
    }
}

/// Returns the endpoint that external-dns creates for a Service with one address, without health checks.
pub(super) fn service(name: &str, address: &str, set: &str, weight: &str) -> Endpoint {
    let property = |name: &str, value: &str| Property { name: format!("webhook/gslb-{name}"), value: value.to_owned() };
    Endpoint {
        dns_name: name.to_owned(),
        targets: vec![address.to_owned()],
        record_type: "A".to_owned(),
        set_identifier: set.to_owned(),
        record_ttl: 60,
        labels: [("owner".to_owned(), format!("owner-of-{address}"))].into_iter().collect(),
        provider_specific: vec![property("health-scheme", "none"), property("weight", weight)],
    }
}

/// Returns the members of the pool of the only contributed name, with their weights.
fn members(server: &Server) -> Vec<(String, u16)> {
    let published = server.daemon.control().shared().serving.published();
    let pools = published
        .configured
        .merged
        .desired
        .pools
        .values()
        .filter(|pool| pool.name.as_str().starts_with("contributed+"));
    pools.flat_map(|pool| &pool.members).map(|member| (member.cluster.to_string(), member.weight.0)).collect()
}

const SHOP: &str = "shop.gslb.example";

#[tokio::test(flavor = "multi_thread")]
async fn name_of_two_clients_keeps_the_endpoints_of_the_one_that_stays() {
    let server = Server::new(&with_webhook("")).await;
    let (east, west) = (service(SHOP, "192.0.2.1", "east", "60"), service(SHOP, "192.0.2.2", "west", "40"));
    server.create("/owners/east", vec![east.clone()]);
    server.create("/owners/west", vec![west.clone()]);
    assert_eq!(members(&server), [("at+192.0.2.1".to_owned(), 60), ("at+192.0.2.2".to_owned(), 40)]);
    assert!(matches!(server.answer(SHOP), Some([192, 0, 2, 1 | 2])));
    assert_eq!((server.endpoints("/owners/east"), server.endpoints("/owners/west")), (vec![east.clone()], vec![west]));
    assert_eq!(server.endpoints(""), []);
    server.delete("/owners/east", vec![east]);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 2]));
    assert_eq!(server.endpoints("/owners/east"), []);
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_of_another_owner_at_the_shared_path_is_neither_replaced_nor_deleted() {
    let server = Server::new(&with_webhook("")).await;
    let (of_a, of_b) = (service(SHOP, "192.0.2.1", "", "1"), service(SHOP, "192.0.2.2", "", "1"));
    let other = service("other.gslb.example", "192.0.2.2", "", "1");
    server.create("", vec![of_a.clone()]);
    // Both clients started with an empty list.
    server.create("", vec![of_b.clone(), other.clone()]);
    assert_eq!(
        (server.answer(SHOP), server.answer("other.gslb.example")),
        (Some([192, 0, 2, 1]), Some([192, 0, 2, 2]))
    );
    let items = server.get("/v1/contributions").expect(200).body["items"].clone();
    let of_b_listed = items.as_array().unwrap().iter().find(|item| item["owner"] == "owner-of-192.0.2.2").unwrap();
    assert_eq!(of_b_listed["names"], 1);
    let conflict = of_b_listed["conditions"].as_array().unwrap().iter().find(|of| of["type"] == "Conflict").unwrap();
    assert_eq!((&conflict["status"], &conflict["reason"]), (&"True".into(), &"OwnedByAnother".into()));
    assert!(conflict["message"].as_str().unwrap().starts_with(&format!("{SHOP}: A: a write was refused")));
    server.delete("", vec![of_b]);
    assert_eq!(server.endpoints(""), [of_a.clone(), other.clone()]);
    // The name is free once its owner has gone.
    server.delete("", vec![of_a]);
    assert_eq!(server.endpoints(""), [other]);
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_endpoint_survives_a_restart_and_a_repeated_create_changes_nothing() {
    let server = Server::new(&with_webhook("")).await;
    let shop = service(SHOP, "192.0.2.1", "", "1");
    server.create("", vec![shop.clone()]);
    let revision = |server: &Server| server.daemon.control().shared().serving.published().configured.objects.revision;
    let before = revision(&server);
    server.create("", vec![shop.clone()]);
    assert_eq!(revision(&server), before);
    let server = server.restart().await;
    assert_eq!(server.endpoints(""), [shop]);
    assert_eq!((server.answer(SHOP), revision(&server)), (Some([192, 0, 2, 1]), before));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn update_with_a_wrong_old_endpoint_is_applied() {
    let server = Server::new(&with_webhook("")).await;
    let (old, new) = (service(SHOP, "192.0.2.8", "", "1"), service(SHOP, "192.0.2.1", "", "1"));
    server.change(
        "",
        fairway_providers::Changes { update_old: vec![old], update_new: vec![new.clone()], ..Default::default() },
    );
    assert_eq!((server.endpoints(""), server.answer(SHOP)), (vec![new], Some([192, 0, 2, 1])));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_duplicate_of_a_batch_wins_and_a_second_delete_is_harmless() {
    let server = Server::new(&with_webhook("")).await;
    let endpoints = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| service(SHOP, address, "", "1"));
    // Names are equal regardless of case and final dot.
    let upper_case = Endpoint { dns_name: format!("{}.", SHOP.to_uppercase()), ..endpoints[2].clone() };
    server.create("/owners/a", vec![endpoints[0].clone(), endpoints[1].clone(), upper_case.clone()]);
    assert_eq!(server.endpoints("/owners/a"), std::slice::from_ref(&upper_case));
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 3]));
    server.delete("/owners/a", vec![upper_case.clone(), endpoints[0].clone()]);
    server.delete("/owners/a", vec![upper_case]);
    assert_eq!((server.endpoints("/owners/a"), server.answer(SHOP)), (vec![], None));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_text_with_quotes_and_escapes_is_returned_unchanged() {
    let server = Server::new(&with_webhook("")).await;
    let text = format!("\"{}\\\"quoted\\\" and \\\\ and \\010\"", "x".repeat(4_096));
    let target = |target: &str| Endpoint {
        record_type: "TXT".to_owned(),
        targets: vec![target.to_owned()],
        ..service("note.gslb.example", "", "", "1")
    };
    server.create("/owners/a", vec![target(&text)]);
    assert_eq!(server.endpoints("/owners/a"), [target(&text)]);
    assert!(
        server.daemon.control().shared().serving.published().configured.merged.contributed.warnings().next().is_none()
    );
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weight_of_a_member_is_shown_with_its_source() {
    let server = Server::new(&with_webhook("")).await;
    let mut west = service(SHOP, "192.0.2.2", "west", "1");
    west.provider_specific.retain(|property| property.name != "webhook/gslb-weight");
    server.create("/owners/east", vec![service(SHOP, "192.0.2.1", "east", "60")]);
    server.create("/owners/west", vec![west]);
    let items = server.get("/v1/contributions").expect(200).body["items"].clone();
    let member = |at: usize| items[at]["members"][0].clone();
    assert_eq!((&member(0)["weight"], &member(0)["declared"]), (&60.into(), &60.into()), "{items}");
    assert_eq!((&member(1)["weight"], &member(1)["declared"]), (&1.into(), &Value::Null), "{items}");
    let state = server.get("/v1/state").expect(200).body;
    let pool = state["pools"].as_array().unwrap().iter().find(|pool| pool["names"][0] == "shop.gslb.example.").unwrap();
    assert_eq!(pool["members"][0]["weightFrom"]["owner"], "east", "{pool}");
    assert_eq!(pool["members"][1]["weightFrom"]["leaseWeight"], 1.0, "{pool}");
    let factors = |at: usize| pool["members"][at]["weightFactors"].clone();
    assert_eq!(factors(0), serde_json::json!({"base": 60, "from": "webhook"}));
    assert_eq!(factors(1), serde_json::json!({"base": 1, "from": "default"}));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unservable_endpoint_is_kept_and_reported_and_blocks_nothing() {
    let server = Server::new(&with_webhook("")).await;
    let odd = [
        service("else.where.test", "192.0.2.1", "", "1"),
        service("bad.gslb.example", "no address", "", "1"),
        // The zone itself has an address at this name.
        service("ns1.gslb.example", "192.0.2.9", "", "1"),
        Endpoint { record_type: "ODD".to_owned(), ..service("odd.gslb.example", "x", "", "1") },
    ];
    let all: Vec<_> = odd.into_iter().chain([service(SHOP, "192.0.2.1", "", "1")]).collect();
    server.create("/owners/a", all.clone());
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 1]));
    let mut kept = server.endpoints("/owners/a");
    kept.sort_by_key(Endpoint::key);
    let mut all = all;
    all.sort_by_key(Endpoint::key);
    assert_eq!(kept, all);
    let published = server.daemon.control().shared().serving.published();
    let reported = published.configured.merged.contributed.warnings().map(|warning| warning.name);
    let reported: std::collections::BTreeSet<_> = reported.collect();
    let expected = ["bad.gslb.example", "bad.gslb.example", "else.where.test", "ns1.gslb.example", "odd.gslb.example"];
    assert_eq!(reported.iter().map(|name| &**name).collect::<std::collections::BTreeSet<_>>(), expected.into());
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contribution_joins_a_declared_pool_and_a_known_address_is_its_cluster() {
    let config = format!("{}webhook: {{ listen: \"127.0.0.1:0\" }}\n", daemon::always());
    let server = Server::new(&config).await;
    server.create(
        "/owners/a",
        vec![service(SHOP, "192.0.2.7", "a", "1"), service("new.gslb.example", "127.0.0.2", "a", "1")],
    );
    let published = server.daemon.control().shared().serving.published();
    let pool = |name: &str| {
        let pools = published.configured.merged.desired.pools.values();
        let pool = pools.into_iter().find(|pool| pool.name.as_str() == name).unwrap();
        pool.members.iter().map(|member| member.cluster.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(pool("shop"), ["eu1", "us1", "at+192.0.2.7"]);
    assert_eq!(pool("contributed+new.gslb.example"), ["us1"]);
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_negotiates_its_zones_and_the_health_listener_serves_its_metrics_and_nothing_else() {
    let health = "listen: { health: { address: \"127.0.0.1:0\", metrics: true }, ";
    let server = Server::new(&with_webhook("").replace("listen: { dns", &format!("{health}dns"))).await;
    let (status, body) = server.call("GET", "/", b"");
    assert_eq!((status, body), (200, br#"{"include":["gslb.example"]}"#.to_vec()));
    let health = listener(&server.daemon, "health");
    let get = |path: &str| call_with(health, "GET", path, "Connection: close\r\n", b"");
    assert_eq!((get("/healthz"), get("/livez")), ((200, b"ok\n".to_vec()), (200, b"ok\n".to_vec())));
    assert_eq!(get("/readyz"), (200, b"ready\n".to_vec()));
    let metrics = String::from_utf8(get("/metrics").1).unwrap();
    assert!(metrics.contains("fairway_webhook_calls_total{call=\"negotiate\",code=\"200\"} 1"), "{metrics}");
    assert_eq!((get("/v1/state").0, get("/").0, get("/openapi.json").0), (404, 404, 404));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn required_token_follows_the_configuration() {
    let token = |shown: &str| format!(", token: {}", fairway_access::TokenHash::of(shown));
    let server = Server::new(&with_webhook("")).await;
    let hook = listener(&server.daemon, "webhook");
    let status = |shown: &str| {
        let line = format!("Authorization: Bearer {shown}\r\n");
        call_with(hook, "GET", "/records", if shown.is_empty() { "" } else { &line }, b"").0
    };
    assert_eq!(status(""), 200);
    assert!(server.reload(&with_webhook(&token("first"))).await);
    assert_eq!((status(""), status("first")), (401, 200));
    assert!(server.reload(&with_webhook(&token("second"))).await);
    assert_eq!((status("first"), status("second")), (401, 200));
    let last = fairway_api::state(server.daemon.control()).await.unwrap().config.last_reload.unwrap();
    assert_eq!(last.warnings, Vec::<String>::new());
    assert!(!server.reload(&with_webhook(", token: none")).await);
    assert_eq!((status(""), status("second")), (401, 200), "a rejected configuration must change nothing");
    assert!(server.reload(&zone_only()).await);
    assert_eq!((status("second"), status("first")), (503, 503), "status without the section webhook");
    let last = fairway_api::state(server.daemon.control()).await.unwrap().config.last_reload.unwrap();
    assert_eq!(last.warnings, ["webhook changed; restart fairway to apply it"]);
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_during_a_stop_get_503() {
    let server = Server::new(&with_webhook("")).await;
    server.create("", vec![service(SHOP, "192.0.2.1", "", "1")]);
    let hook = listener(&server.daemon, "webhook");
    server.daemon.control().shared().lifecycle.readiness.send_replace(fairway_control::Readiness::Draining);
    for (method, path) in [("GET", "/"), ("GET", "/records"), ("POST", "/records")] {
        assert_eq!(call_at(hook, method, path, b"{}").0, 503, "{method} {path}");
    }
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contributions_are_listed_and_only_evicted_ones_are_removed() {
    let server = Server::new(&with_webhook("")).await;
    let (east, west) = (service(SHOP, "192.0.2.1", "east", "1"), service(SHOP, "192.0.2.2", "west", "1"));
    server.create("/owners/east", vec![east]);
    server.create("/owners/west", vec![west, service("odd.gslb.example", "x", "west", "1")]);
    let listed = server.get("/v1/contributions").expect(200).body;
    let of = |index: usize, field: &str| listed["items"][index][field].clone();
    assert_eq!((of(0, "owner"), of(0, "endpoints"), of(1, "path")), ("east".into(), 1.into(), "/owners/west".into()));
    assert_eq!((of(1, "names"), of(1, "leaseWeight"), of(1, "fadesAt")), (2.into(), 1.0.into(), Value::Null));
    assert_eq!(listed["items"][1]["warnings"][0]["name"], "odd.gslb.example");
    assert!(of(0, "lastSeen").is_string());
    let evict = |query: &str| server.send("DELETE", &format!("/v1/contributions?{query}"), "", &Value::Null);
    evict("owner=nobody").expect(404);
    evict("owner=west&colour=red").expect(400);
    evict("owner=west&path=/owners/east").expect(404);
    assert_eq!(evict("owner=west&set=west&reason=gone").expect(200).body["endpoints"], 2);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 1]));
    assert_eq!(server.endpoints("/owners/west"), []);
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contribution_loses_weight_and_expires_until_its_client_calls_again() {
    let server = Server::new(&with_webhook(", lease: 100s")).await;
    let (east, west) = (service(SHOP, "192.0.2.1", "east", "1"), service(SHOP, "192.0.2.2", "west", "1"));
    server.create("/owners/east", vec![east]);
    server.create("/owners/west", vec![west.clone()]);
    let ledger = Arc::clone(&server.daemon.control().shared().declarations.webhook.get().unwrap().0);
    let now = fairway_model::Timestamp::from(std::time::SystemTime::now()).secs();
    // The daemon also checks the leases each second, by its own clock. So the other time is set until it takes effect.
    let expect_members_after = async |later: u64, expected: &[(&str, u16)]| {
        let deadline = std::time::Instant::now() + PATIENCE;
        let expected: Vec<_> = expected.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        while members(&server) != expected {
            assert!(std::time::Instant::now() < deadline, "{:?}", members(&server));
            ledger.update_leases(now + later).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    expect_members_after(155, &[("at+192.0.2.1", 500), ("at+192.0.2.2", 500)]).await;
    expect_members_after(250, &[]).await;
    assert_eq!(server.endpoints("/owners/west"), [west]);
    expect_members_after(0, &[("at+192.0.2.1", 1), ("at+192.0.2.2", 1)]).await;
    server.daemon.stop().await;
}
