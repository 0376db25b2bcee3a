//! The handlers: every code on both families, and that each reads what the other wrote.

mod memory;

use std::sync::{Arc, atomic::Ordering};

use axum::{body::Body, extract::DefaultBodyLimit, http::Request};
use fairway_model::intent::Intent;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use self::memory::MemoryStore;
use super::{
    super::problem::Refusal,
    backend::Backend,
    handler::{BODY_MAX, IntentApi, IntentRequest},
};
use crate::once::UnderWay;
use fairway_api_types::objects_wire::ApplyReport;
use fairway_intents::IntentStatus;
use fairway_store::objects::{Change, Object};

const W: &str = "/v2/projects/p/composite-apps/a/v1/traffic-intent-set";
const E: &str = "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/default/traffic-group-intents/default";

/// An inbound intent in the canonical form, and the same as the ONAP wiki prints it: the fixtures of the tests of `intents`.
const CANONICAL: &str = include_str!("../../../intents/src/tests/canonical.json");
const SEED: &str = include_str!("../../../intents/src/tests/seed.json");

/// A router over a store of its own.
struct Site {
    store: Arc<MemoryStore>,
    router: axum::Router,
}

/// A server that serves nothing.
#[derive(Debug)]
struct Nobody;

#[async_trait::async_trait]
impl Backend for Nobody {
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus> {
        vec![IntentStatus::default(); of.len()]
    }

    async fn served(&self, _: u64) {}

    async fn dry_run(&self, _: Change) -> Result<ApplyReport, Refusal> {
        Ok(ApplyReport { dry_run: true, ..ApplyReport::default() })
    }
}

/// What came back.
struct Came {
    status: u16,
    headers: axum::http::HeaderMap,
    text: String,
    body: Value,
}

impl Site {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        let (backend, order, under_way) = (Arc::new(Nobody), Arc::default(), UnderWay::default());
        let api = IntentApi { store: store.clone(), backend, order, under_way };
        let handle = move |request: IntentRequest| async move { api.handle(request).await };
        let limit = DefaultBodyLimit::max(BODY_MAX);
        Self { router: axum::Router::new().fallback(handle).layer(limit), store }
    }

    async fn send(&self, request: Request<Body>) -> Came {
        let response = TowerToHyperService::new(self.router.clone()).call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Came { status: parts.status.as_u16(), headers: parts.headers, text, body }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Came {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).unwrap();
        self.send(request).await
    }

    async fn ask_if(&self, method: &str, path: &str, header: (&str, &str), body: &str) -> Came {
        let request = Request::builder().method(method).uri(path).header(header.0, header.1);
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }
}

fn inbound(name: &str) -> String {
    json!({"metadata": {"name": name}, "spec": {"app": "shop", "serviceName": "shop", "externalName": "shop.example"}})
        .to_string()
}

#[tokio::test]
async fn an_intent_is_put_by_its_key_where_it_is_not_there_yet() {
    let site = Site::new();
    let own = "/v1/intents/inbound/p/a/v1/default/default/n";
    let absent = ("if-none-match", "*");
    assert_eq!(site.ask_if("PUT", own, absent, &inbound("n")).await.status, 201);
    let again = site.ask_if("PUT", own, absent, &inbound("n")).await;
    assert_eq!(again.status, 412, "{}", again.text);
    assert!(again.text.contains("it exists already"), "{}", again.text);
    assert_eq!(site.ask("GET", &format!("{W}/inbound-intents/n"), "").await.status, 200);
    assert_eq!(site.ask("POST", own, &inbound("n")).await.status, 405);
    assert_eq!(site.ask("GET", "/v1/intents/pool/shop", "").await.status, 404);
}

#[tokio::test]
async fn every_code_is_answered_on_both_families() {
    for family in [W, E] {
        let site = Site::new();
        let at = |below: &str| format!("{family}/inbound-intents{below}");
        let large = format!("{{\"metadata\":{{\"name\":\"n\",\"description\":\"{}\"}}}}", "x".repeat(300 << 10));
        let name_long = inbound(&"n".repeat(1 << 16));
        for (method, path, body, status) in [
            ("GET", at(""), String::new(), 200),
            ("POST", at(""), inbound("n"), 201),
            ("POST", at("/"), inbound("m"), 201),
            ("POST", at(""), inbound("n"), 409),
            ("POST", at(""), String::new(), 400),
            ("POST", at(""), "{}".to_owned(), 400),
            ("POST", at(""), "{\"metadata\": {\"name\": \"x\"},}".to_owned(), 422),
            ("POST", at(""), inbound("<>"), 422),
            ("POST", at(""), name_long, 422),
            ("POST", at(""), large, 413),
            ("POST", at("/n"), inbound("n"), 405),
            ("GET", at("/n"), String::new(), 200),
            ("GET", at("/n/"), String::new(), 200),
            ("GET", at("/none"), String::new(), 404),
            ("GET", at("/%2e%2e"), String::new(), 400),
            ("GET", format!("{family}/other-intents/n/x"), String::new(), 404),
            ("GET", at("/none/clients"), String::new(), 404),
            ("POST", at("/none/clients"), json!({"metadata": {"name": "c"}}).to_string(), 404),
            ("POST", format!("{family}/compound-intents/none/inbound-intents"), inbound("n"), 404),
            ("PUT", at("/n"), inbound("n"), 200),
            ("PUT", at("/new"), inbound("new"), 201),
            ("PUT", at("/n"), inbound("other"), 400),
            ("PUT", at("/n"), "[]".to_owned(), 422),
            ("GET", at("/n?dry=true"), String::new(), 400),
            ("PUT", at("/n?dryRun=perhaps"), inbound("n"), 400),
            ("PUT", at("/dry?dryRun=true"), inbound("dry"), 200),
            ("GET", at("/dry"), String::new(), 404),
            ("PUT", at(&format!("/n?reason={}", "x".repeat(1_025))), inbound("n"), 400),
            ("PUT", at("/n?reason=a%0Ab"), inbound("n"), 400),
            ("POST", at("?dryRun=true"), inbound("n"), 409),
            ("DELETE", at("/n?dryRun=true"), String::new(), 200),
            ("DELETE", at("/n"), String::new(), 204),
            ("DELETE", at("/n"), String::new(), 404),
        ] {
            let came = site.ask(method, &path, &body).await;
            assert_eq!(came.status, status, "{method} {path} {}: {}", &body[..body.len().min(80)], came.text);
            if status >= 400 {
                assert_eq!(came.headers["content-type"], "application/problem+json", "{method} {path}");
                assert_eq!(came.body["status"], status, "{method} {path}");
            }
        }
        site.store.full.store(true, Ordering::Relaxed);
        let came = site.ask("POST", &at(""), &inbound("late")).await;
        assert_eq!((came.status, came.headers["retry-after"].as_bytes()), (503, &b"1"[..]));
        assert_eq!(site.ask("GET", &at("/m"), "").await.status, 200);
    }
}

#[tokio::test]
async fn what_one_family_writes_the_other_reads_and_changes() {
    for (writer, reader) in [(W, E), (E, W)] {
        let site = Site::new();
        for (below, body) in [
            ("inbound-intents", inbound("n")),
            (
                "inbound-intents/n/clients",
                json!({"metadata": {"name": "c"}, "spec": {"cidrs": ["198.51.100.0/24"]}}).to_string(),
            ),
            (
                "inbound-intents/n/clients/c/access-points",
                json!({"metadata": {"name": "a"}, "spec": {"url": ["/x"], "access": ["get"]}}).to_string(),
            ),
            ("outbound-intents", json!({"metadata": {"name": "o"}, "spec": {"app": "mysql"}}).to_string()),
            (
                "compound-intents",
                json!({"metadata": {"name": "all"}, "spec": {"externalName": "all.example", "ttl": 30}}).to_string(),
            ),
            ("compound-intents/all/inbound-intents", inbound("part")),
        ] {
            let made = site.ask("POST", &format!("{writer}/{below}"), &body).await;
            assert_eq!(made.status, 201, "{below}: {}", made.text);
            let name = made.body["name"].as_str().unwrap();
            assert!(made.body["Message"].as_str().unwrap().ends_with(" created"), "{}", made.text);
            assert_eq!(made.headers["location"].to_str().unwrap(), format!("{writer}/{below}/{name}"));
            let path = format!("{reader}/{below}/{name}");
            let read = site.ask("GET", &path, "").await;
            assert_eq!((read.status, &read.body["metadata"]["name"]), (200, &json!(name)), "{path}");
            // What is got can be put, and changes nothing.
            let put = site.ask("PUT", &path, &read.text).await;
            assert_eq!(put.status, 200, "{path}: {}", put.text);
            assert_eq!(site.ask("GET", &format!("{writer}/{below}/{name}"), "").await.text, read.text);
            assert_eq!(site.ask("GET", &format!("{reader}/{below}"), "").await.body, json!([read.body]));
        }
        let server =
            json!({"metadata": {"name": "srv"}, "spec": {"externalServiceName": "db.example", "port": "3306"}});
        assert_eq!(
            site.ask("POST", &format!("{writer}/outbound-intents/o/server"), &server.to_string()).await.status,
            201
        );
        let read = site.ask("GET", &format!("{reader}/outbound-intents/o/server"), "").await;
        assert_eq!(read.body["spec"]["port"], 3306);
    }
}

#[tokio::test]
async fn older_bodies_of_providers_are_dns_update_records() {
    let older = r#"{"name": "lab", "description": "d", "dnsProvider": [{"id": "coredns", "cluster-selector": {"cluster": "p1+c1"},
        "externalDnsParameters": {"--coredns-prefix": "/skydns/", "--etcd-urls": "http://127.0.0.1:2379",
        "--domain-filter": "x.example"}}]}"#;
    for path in [format!("{W}s/grp1/dnsproviders"), format!("{E}/dnsproviders")] {
        let (site, canonical) = (Site::new(), "/v2/projects/p/dns-update-records");
        let made = site.ask("POST", &path, older).await;
        assert_eq!((made.status, &made.body["Message"]), (201, &json!("dns update record created")), "{}", made.text);
        assert_eq!(made.headers["location"].to_str().unwrap(), format!("{path}/lab"));
        let read = site.ask("GET", &format!("{canonical}/lab"), "").await;
        let spec = json!({"provider": "etcd", "bind": [{"cluster": "p1+c1"}], "parameters": {"coredns-prefix": "/skydns/",
                "etcd-urls": "http://127.0.0.1:2379", "domain-filter": "x.example"}});
        assert_eq!((&read.body["spec"], &read.body["metadata"]["description"]), (&spec, &json!("d")), "{}", read.text);
        // The other form of the same, and what GET gives, can be put there, too.
        let newer = json!({"metadata": {"name": "lab"}, "spec": {"provider": "aws"}}).to_string();
        for (body, provider) in [(newer.as_str(), "aws"), (older, "etcd"), (read.text.as_str(), "etcd")] {
            let put = site.ask("PUT", &format!("{path}/lab"), body).await;
            assert_eq!((put.status, &put.body["spec"]["provider"]), (200, &json!(provider)), "{}", put.text);
        }
        assert_eq!(site.ask("GET", &path, "").await.body, site.ask("GET", canonical, "").await.body);
        for (from, to, pointer) in [
            (r#""id": "coredns","#, "", "/spec/provider"),
            (r#"{"cluster": "p1+c1"}"#, r#"{"cloud": "x"}"#, "/dnsProvider/0/cluster-selector"),
            (r#""/skydns/""#, "[]", "/dnsProvider/0/externalDnsParameters/--coredns-prefix"),
            (r#""/skydns/""#, r#""/""#, "/dnsProvider/0/externalDnsParameters/--coredns-prefix"),
            ("--etcd-urls", "--etcd-url", "/dnsProvider/0/externalDnsParameters/--etcd-url"),
            (r#", "--etcd-urls": "http://127.0.0.1:2379""#, "", "/dnsProvider/0/externalDnsParameters"),
            ("externalDnsParameters", "parametres", "/dnsProvider/0/parametres"),
            ("}}]}", "}}, {}]}", "/dnsProvider/1"),
            (r#""dnsProvider""#, r#""spec": {"provider": "aws"}, "dnsProvider""#, "/dnsProvider/0/id"),
        ] {
            let refused = site.ask("PUT", &format!("{path}/lab"), &older.replace(from, to)).await;
            let errors = refused.body["errors"].as_array().unwrap_or_else(|| panic!("{to}: {}", refused.text));
            let pointers: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
            assert_eq!((refused.status, pointers), (422, vec![pointer]), "{}", refused.text);
        }
        assert_eq!(site.ask("DELETE", &format!("{path}/lab"), "").await.status, 204);
        assert_eq!(site.ask("GET", &format!("{canonical}/lab"), "").await.status, 404);
    }
}

/// A record for a PowerDNS, with its key and where it is.
fn powerdns(server: &str, key: &Value) -> Value {
    json!({"metadata": {"name": "lab"}, "spec": {"provider": "pdns", "external-dns-parameters": {
        "pdns-server": server, "pdns-api-key": key, "domain-filter": "x.example"}}})
}

#[tokio::test]
async fn secrets_of_records_are_kept_and_never_shown() {
    let secret = "hush-of-the-tests";
    let (here, there) = ("http://192.0.2.1:8081", "http://192.0.2.2:8081");
    for path in
        ["/v2/projects/p/dns-update-records".to_owned(), format!("{W}s/grp1/dnsproviders"), format!("{E}/dnsproviders")]
    {
        let (site, one) = (Site::new(), format!("{path}/lab"));
        let kept = || format!("{:?}", site.store).contains("104, 117, 115, 104, 45, 111, 102");
        let mut seen = vec![site.ask("POST", &path, &powerdns(here, &json!(secret)).to_string()).await];
        assert_eq!((seen[0].status, kept()), (201, true), "{}", seen[0].text);
        seen.push(site.ask("GET", &path, "").await);
        let shown = site.ask("GET", &one, "").await;
        assert_eq!(shown.body["spec"]["parameters"]["pdns-api-key"], json!({"kept": true}), "{}", shown.text);
        // What GET gives, PUT takes, and the secret stays.
        let put = site.ask("PUT", &one, &shown.text).await;
        assert_eq!((put.status, kept()), (200, true), "{}", put.text);
        seen.extend([shown, put]);
        // It goes nowhere else, it is not made of nothing, and it is no other text.
        let again = json!({"kept": true});
        for (method, at, server, key) in [
            ("PUT", &one, there, &again),
            ("POST", &path, here, &again),
            ("PUT", &one, here, &json!({"kept": false})),
            ("PUT", &one, here, &json!({"sha256": "00"})),
            ("PUT", &one, here, &json!([secret])),
        ] {
            let refused = site.ask(method, at, &powerdns(server, key).to_string()).await;
            let pointer = json!("/spec/external-dns-parameters/pdns-api-key");
            assert_eq!((refused.status, &refused.body["errors"][0]["pointer"]), (422, &pointer), "{}", refused.text);
            seen.push(refused);
        }
        let moved = site.ask("PUT", &one, &powerdns(there, &json!("another-one")).to_string()).await;
        assert_eq!((moved.status, kept()), (200, false), "{}", moved.text);
        for came in seen.iter().chain([&moved]) {
            assert!(!came.text.contains(secret) && !came.text.contains("another-one"), "{}", came.text);
        }
    }
}

#[tokio::test]
async fn the_canonical_body_and_the_seeds_own_work_on_both_families() {
    for family in [W, E] {
        for body in [CANONICAL, SEED] {
            let site = Site::new();
            let made = site.ask("POST", &format!("{family}/inbound-intents"), body).await;
            assert_eq!(made.status, 201, "{}", made.text);
            assert_eq!(made.body["Message"], "inbound service created");
            // The answer can be sent again, as it is.
            let name = made.body["name"].as_str().unwrap();
            let again = site.ask("PUT", &format!("{family}/inbound-intents/{name}"), &made.text).await;
            assert_eq!(again.status, 200, "{}", again.text);
        }
    }
}

#[tokio::test]
async fn a_private_key_is_kept_and_never_shown() {
    let site = Site::new();
    let path = format!("{W}/inbound-intents");
    let key = "PEMwriteonly";
    let mut seen = vec![site.ask("POST", &path, CANONICAL).await];
    seen.push(site.ask("GET", &path, "").await);
    let shown = site.ask("GET", &format!("{path}/shop-in"), "").await;
    let hash = shown.body["spec"]["certificates"]["privateKey"]["sha256"].as_str().unwrap().to_owned();
    assert_eq!(hash.len(), 64);
    let kept = |site: &Site| format!("{:?}", site.store).contains("80, 69, 77, 119, 114, 105, 116, 101");
    assert!(kept(&site), "the store has the key");
    seen.push(site.ask("PUT", &format!("{path}/shop-in"), &shown.text).await);
    assert_eq!(seen.last().unwrap().status, 200);
    assert!(kept(&site), "a hash stands for the key that is kept");
    let wrong = shown.text.replace(&hash, &"0".repeat(64));
    seen.push(site.ask("PUT", &format!("{path}/shop-in"), &wrong).await);
    assert_eq!(seen.last().unwrap().body["errors"][0]["pointer"], "/spec/certificates/privateKey");
    let odd = CANONICAL.replace(key, "no PEM: SECRET").replace("shop-in", "x");
    seen.push(site.ask("POST", &path, &odd).await);
    assert_eq!(seen.last().unwrap().status, 422);
    for came in &seen {
        assert!(!came.text.contains(key) && !came.text.contains("SECRET"), "{}", came.text);
    }
}

#[tokio::test]
async fn a_set_names_what_is_there_and_holds_it() {
    let site = Site::new();
    let body = json!({"name": "grp1", "description": "d", "set": [{"inbound": "n"}, {"outbound": "o"}]}).to_string();
    let refused = site.ask("POST", W, &body).await;
    let pointers: Vec<_> =
        refused.body["errors"].as_array().unwrap().iter().map(|of| of["pointer"].as_str().unwrap()).collect();
    assert_eq!((refused.status, pointers), (422, vec!["/set/0/inbound", "/set/1/outbound"]));
    assert_eq!(site.ask("POST", &format!("{W}?defer=true"), &body).await.status, 201);
    assert_eq!(site.ask("POST", &format!("{E}/inbound-intents"), &inbound("n")).await.status, 201);
    let held = site.ask("DELETE", &format!("{W}/inbound-intents/n"), "").await;
    assert_eq!(held.status, 409);
    assert!(held.text.contains("is in use by the traffic-set \\\"grp1\\\""), "{}", held.text);
    let shown = site.ask("GET", &format!("{W}/grp1"), "").await;
    assert_eq!((&shown.body["name"], &shown.body["set"][0]["inbound"]), (&json!("grp1"), &json!("n")));
    assert_eq!(site.ask("DELETE", &format!("{W}/grp1/"), "").await.status, 204);
    assert_eq!(site.ask("DELETE", &format!("{W}/inbound-intents/n"), "").await.status, 204);
}

#[tokio::test]
async fn parents_outlive_their_children() {
    let site = Site::new();
    site.ask(
        "POST",
        &format!("{W}/compound-intents"),
        "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"externalName\":\"c.example\"}}",
    )
    .await;
    site.ask("POST", &format!("{W}/compound-intents/c/inbound-intents"), &inbound("n")).await;
    // An inbound intent of the same name has nothing to do with it.
    site.ask("POST", &format!("{W}/inbound-intents"), &inbound("c")).await;
    assert_eq!(site.ask("DELETE", &format!("{W}/inbound-intents/c"), "").await.status, 204);
    assert_eq!(site.ask("DELETE", &format!("{E}/compound-intents/c"), "").await.status, 409);
    assert_eq!(site.ask("DELETE", &format!("{E}/compound-intents/c/inbound-intents/n"), "").await.status, 204);
    assert_eq!(site.ask("DELETE", &format!("{E}/compound-intents/c"), "").await.status, 204);
    let group = E.rsplit_once('/').unwrap().0;
    assert_eq!(site.ask("POST", &format!("{group}/blue/inbound-intents"), &inbound("n")).await.status, 404);
    assert_eq!(site.ask("POST", group, "{\"metadata\":{\"name\":\"blue\"}}").await.status, 201);
    assert_eq!(site.ask("POST", &format!("{group}/blue/inbound-intents"), &inbound("n")).await.status, 201);
    assert_eq!(site.ask("DELETE", &format!("{group}/blue"), "").await.status, 409);
}

#[tokio::test]
async fn a_change_can_be_tied_to_what_was_seen() {
    let site = Site::new();
    let path = format!("{W}/inbound-intents/n");
    let made = site.ask("PUT", &path, &inbound("n")).await;
    let tag = made.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(site.ask_if("GET", &path, ("if-none-match", &tag), "").await.status, 304);
    assert_eq!(
        site.ask_if("PUT", &path, ("if-match", &tag), &inbound("n").replace("shop.example", "b.example")).await.status,
        200
    );
    assert_eq!(site.ask_if("PUT", &path, ("if-match", &tag), &inbound("n")).await.status, 412);
    assert_eq!(site.ask_if("DELETE", &path, ("if-match", &tag), "").await.status, 412);
    assert_eq!(
        site.ask_if("PUT", &format!("{W}/inbound-intents/m"), ("if-match", "*"), &inbound("m")).await.status,
        412
    );
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let site = Site::new();
    for name in ["a", "b", "c"] {
        site.ask("POST", &format!("{W}/inbound-intents"), &inbound(name)).await;
    }
    let first = site.ask("GET", &format!("{W}/inbound-intents?limit=2"), "").await;
    let next = format!("<{W}/inbound-intents?limit=2&after=b>; rel=\"next\"");
    assert_eq!((first.body.as_array().unwrap().len(), first.headers["link"].to_str().unwrap()), (2, next.as_str()));
    let second = site.ask("GET", &format!("{W}/inbound-intents?limit=2&after=b"), "").await;
    assert_eq!((&second.body[0]["metadata"]["name"], second.headers.get("link")), (&json!("c"), None));
    assert_eq!(site.ask("GET", &format!("{W}/inbound-intents?limit=1001"), "").await.status, 400);
}

#[tokio::test]
async fn the_seeds_pseudo_json_is_taken_where_that_is_asked_for() {
    let site = Site::new();
    let body = inbound("n").replace("\"app\"", "// a comment\n \"intervalSweepless\"");
    let strict = site.ask("POST", &format!("{W}/inbound-intents"), &body).await;
    assert!(strict.body["detail"].as_str().unwrap().starts_with("line 1 column"), "{}", strict.text);
    let body = inbound("n").replace("\"app\"", "// a comment\n \"app\"");
    assert_eq!(site.ask("POST", &format!("{W}/inbound-intents?lenient=true"), &body).await.status, 201);
}
