//! The handlers: every status on both families of paths, and that each family reads what the other one wrote.

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
    backend::Backend,
    handler::{BODY_MAX, IntentApi, IntentRequest},
};
use crate::problem::ApiError;
use fairway_api_types::intent_status_wire::IntentStatus;
use fairway_api_types::objects_wire::ApplyReport;
use fairway_control::Published;
use fairway_store::objects::{Change, Key, Object, idempotency::RequestsInProgress};

const W: &str = "/v2/projects/p/composite-apps/a/v1/traffic-intent-set";
const E: &str = "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/default/traffic-group-intents/default";

/// An inbound intent in the canonical form, and the same as the ONAP wiki prints it: the fixtures of the tests of `intents`.
const CANONICAL: &str = include_str!("../../../intents/src/tests/canonical.json");
const SEED: &str = include_str!("../../../intents/src/tests/seed.json");

/// A router with a store of its own.
struct Server {
    store: Arc<MemoryStore>,
    router: axum::Router,
}

/// A server without DNS.
#[derive(Debug)]
struct NoServer;

#[async_trait::async_trait]
impl Backend for NoServer {
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus> {
        vec![IntentStatus::default(); of.len()]
    }

    fn published(&self) -> Option<Arc<Published>> {
        None
    }

    async fn served(&self, _: u64, _: &Key, _: Option<Arc<Published>>) {}

    async fn dry_run(&self, _: Change) -> Result<ApplyReport, ApiError> {
        Ok(ApplyReport { dry_run: true, ..ApplyReport::default() })
    }
}

/// A response.
struct Reply {
    status: u16,
    headers: axum::http::HeaderMap,
    text: String,
    body: Value,
}

impl Server {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        let (backend, writes) = (Arc::new(NoServer), Arc::default());
        let api = IntentApi { store: store.clone(), backend, writes, requests: RequestsInProgress::default() };
        let handle = move |request: IntentRequest| async move { api.handle(request).await };
        let limit = DefaultBodyLimit::max(BODY_MAX);
        Self { router: axum::Router::new().fallback(handle).layer(limit), store }
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let response = TowerToHyperService::new(self.router.clone()).call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Reply { status: parts.status.as_u16(), headers: parts.headers, text, body }
    }

    async fn request(&self, method: &str, path: &str, body: &str) -> Reply {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).unwrap();
        self.send(request).await
    }

    async fn request_with(&self, method: &str, path: &str, header: (&str, &str), body: &str) -> Reply {
        let request = Request::builder().method(method).uri(path).header(header.0, header.1);
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }
}

fn inbound(name: &str) -> String {
    json!({"metadata": {"name": name}, "spec": {"app": "shop", "serviceName": "shop", "externalName": "shop.example"}})
        .to_string()
}

#[tokio::test]
async fn put_by_key_with_if_none_match_creates_only() {
    let server = Server::new();
    let own = "/v1/intents/inbound/p/a/v1/default/default/n";
    let absent = ("if-none-match", "*");
    assert_eq!(server.request_with("PUT", own, absent, &inbound("n")).await.status, 201);
    let again = server.request_with("PUT", own, absent, &inbound("n")).await;
    assert_eq!(again.status, 412, "{}", again.text);
    assert!(again.text.contains("it exists already"), "{}", again.text);
    assert_eq!(server.request("GET", &format!("{W}/inbound-intents/n"), "").await.status, 200);
    assert_eq!(server.request("POST", own, &inbound("n")).await.status, 405);
    assert_eq!(server.request("GET", "/v1/intents/pool/shop", "").await.status, 404);
}

#[tokio::test]
async fn requests_have_the_documented_statuses_on_both_families() {
    for family in [W, E] {
        let server = Server::new();
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
            let reply = server.request(method, &path, &body).await;
            assert_eq!(reply.status, status, "{method} {path} {}: {}", &body[..body.len().min(80)], reply.text);
            if status >= 400 {
                assert_eq!(reply.headers["content-type"], "application/problem+json", "{method} {path}");
                assert_eq!(reply.body["status"], status, "{method} {path}");
            }
        }
        server.store.full.store(true, Ordering::Relaxed);
        let reply = server.request("POST", &at(""), &inbound("late")).await;
        assert_eq!((reply.status, reply.headers["retry-after"].as_bytes()), (503, &b"1"[..]));
        assert_eq!(server.request("GET", &at("/m"), "").await.status, 200);
    }
}

#[tokio::test]
async fn each_family_reads_and_changes_objects_of_the_other() {
    for (writer, reader) in [(W, E), (E, W)] {
        let server = Server::new();
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
            let made = server.request("POST", &format!("{writer}/{below}"), &body).await;
            assert_eq!(made.status, 201, "{below}: {}", made.text);
            let name = made.body["name"].as_str().unwrap();
            assert!(made.body["Message"].as_str().unwrap().ends_with(" created"), "{}", made.text);
            assert_eq!(made.headers["location"].to_str().unwrap(), format!("{writer}/{below}/{name}"));
            let path = format!("{reader}/{below}/{name}");
            let read = server.request("GET", &path, "").await;
            assert_eq!((read.status, &read.body["metadata"]["name"]), (200, &json!(name)), "{path}");
            // The body of GET is a body for PUT, and changes nothing.
            let put = server.request("PUT", &path, &read.text).await;
            assert_eq!(put.status, 200, "{path}: {}", put.text);
            assert_eq!(server.request("GET", &format!("{writer}/{below}/{name}"), "").await.text, read.text);
            assert_eq!(server.request("GET", &format!("{reader}/{below}"), "").await.body, json!([read.body]));
        }
        let outbound =
            json!({"metadata": {"name": "srv"}, "spec": {"externalServiceName": "db.example", "port": "3306"}});
        assert_eq!(
            server.request("POST", &format!("{writer}/outbound-intents/o/server"), &outbound.to_string()).await.status,
            201
        );
        let read = server.request("GET", &format!("{reader}/outbound-intents/o/server"), "").await;
        assert_eq!(read.body["spec"]["port"], 3306);
    }
}

#[tokio::test]
async fn older_provider_bodies_are_dns_update_records() {
    let older = r#"{"name": "lab", "description": "d", "dnsProvider": [{"id": "coredns", "cluster-selector": {"cluster": "p1+c1"},
        "externalDnsParameters": {"--coredns-prefix": "/skydns/", "--etcd-urls": "http://127.0.0.1:2379",
        "--domain-filter": "x.example"}}]}"#;
    for path in [format!("{W}s/grp1/dnsproviders"), format!("{E}/dnsproviders")] {
        let (server, canonical) = (Server::new(), "/v2/projects/p/dns-update-records");
        let made = server.request("POST", &path, older).await;
        assert_eq!((made.status, &made.body["Message"]), (201, &json!("dns update record created")), "{}", made.text);
        assert_eq!(made.headers["location"].to_str().unwrap(), format!("{path}/lab"));
        let read = server.request("GET", &format!("{canonical}/lab"), "").await;
        let spec = json!({"provider": "etcd", "bind": [{"cluster": "p1+c1"}], "parameters": {"coredns-prefix": "/skydns/",
                "etcd-urls": "http://127.0.0.1:2379", "domain-filter": "x.example"}});
        assert_eq!((&read.body["spec"], &read.body["metadata"]["description"]), (&spec, &json!("d")), "{}", read.text);
        // PUT accepts the newer form and the body of GET on the older path too.
        let newer = json!({"metadata": {"name": "lab"}, "spec": {"provider": "aws"}}).to_string();
        for (body, provider) in [(newer.as_str(), "aws"), (older, "etcd"), (read.text.as_str(), "etcd")] {
            let put = server.request("PUT", &format!("{path}/lab"), body).await;
            assert_eq!((put.status, &put.body["spec"]["provider"]), (200, &json!(provider)), "{}", put.text);
        }
        assert_eq!(server.request("GET", &path, "").await.body, server.request("GET", canonical, "").await.body);
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
            let refused = server.request("PUT", &format!("{path}/lab"), &older.replace(from, to)).await;
            let errors = refused.body["errors"].as_array().unwrap_or_else(|| panic!("{to}: {}", refused.text));
            let pointers: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
            assert_eq!((refused.status, pointers), (422, vec![pointer]), "{}", refused.text);
        }
        assert_eq!(server.request("DELETE", &format!("{path}/lab"), "").await.status, 204);
        assert_eq!(server.request("GET", &format!("{canonical}/lab"), "").await.status, 404);
    }
}

/// Returns a record for a PowerDNS server with this API key.
fn powerdns(server: &str, key: &Value) -> Value {
    json!({"metadata": {"name": "lab"}, "spec": {"provider": "pdns", "external-dns-parameters": {
        "pdns-server": server, "pdns-api-key": key, "domain-filter": "x.example"}}})
}

#[tokio::test]
async fn secrets_of_records_are_stored_and_never_returned() {
    let secret = "hush-of-the-tests";
    let (here, there) = ("https://192.0.2.1:8081", "https://192.0.2.2:8081");
    for path in
        ["/v2/projects/p/dns-update-records".to_owned(), format!("{W}s/grp1/dnsproviders"), format!("{E}/dnsproviders")]
    {
        let (server, one) = (Server::new(), format!("{path}/lab"));
        let kept = || format!("{:?}", server.store).contains("104, 117, 115, 104, 45, 111, 102");
        let mut seen = vec![server.request("POST", &path, &powerdns(here, &json!(secret)).to_string()).await];
        assert_eq!((seen[0].status, kept()), (201, true), "{}", seen[0].text);
        seen.push(server.request("GET", &path, "").await);
        let shown = server.request("GET", &one, "").await;
        assert_eq!(shown.body["spec"]["parameters"]["pdns-api-key"], json!({"kept": true}), "{}", shown.text);
        // PUT accepts the body of GET, and the secret stays.
        let put = server.request("PUT", &one, &shown.text).await;
        assert_eq!((put.status, kept()), (200, true), "{}", put.text);
        seen.extend([shown, put]);
        // The placeholder is only valid for the same server and for a secret that is stored.
        let again = json!({"kept": true});
        for (method, at, url, key) in [
            ("PUT", &one, there, &again),
            ("POST", &path, here, &again),
            ("PUT", &one, here, &json!({"kept": false})),
            ("PUT", &one, here, &json!({"sha256": "00"})),
            ("PUT", &one, here, &json!([secret])),
        ] {
            let refused = server.request(method, at, &powerdns(url, key).to_string()).await;
            let pointer = json!("/spec/external-dns-parameters/pdns-api-key");
            assert_eq!((refused.status, &refused.body["errors"][0]["pointer"]), (422, &pointer), "{}", refused.text);
            seen.push(refused);
        }
        let moved = server.request("PUT", &one, &powerdns(there, &json!("another-one")).to_string()).await;
        assert_eq!((moved.status, kept()), (200, false), "{}", moved.text);
        for reply in seen.iter().chain([&moved]) {
            assert!(!reply.text.contains(secret) && !reply.text.contains("another-one"), "{}", reply.text);
        }
    }
}

#[tokio::test]
async fn canonical_and_wiki_bodies_work_on_both_families() {
    for family in [W, E] {
        for body in [CANONICAL, SEED] {
            let server = Server::new();
            let made = server.request("POST", &format!("{family}/inbound-intents"), body).await;
            assert_eq!(made.status, 201, "{}", made.text);
            assert_eq!(made.body["Message"], "inbound service created");
            // The response is a valid body.
            let name = made.body["name"].as_str().unwrap();
            let again = server.request("PUT", &format!("{family}/inbound-intents/{name}"), &made.text).await;
            assert_eq!(again.status, 200, "{}", again.text);
        }
    }
}

#[tokio::test]
async fn private_key_is_stored_and_never_returned() {
    let server = Server::new();
    let path = format!("{W}/inbound-intents");
    let key = "PEMwriteonly";
    let mut seen = vec![server.request("POST", &path, CANONICAL).await];
    seen.push(server.request("GET", &path, "").await);
    let shown = server.request("GET", &format!("{path}/shop-in"), "").await;
    let hash = shown.body["spec"]["certificates"]["privateKey"]["sha256"].as_str().unwrap().to_owned();
    assert_eq!(hash.len(), 64);
    let kept = |server: &Server| format!("{:?}", server.store).contains("80, 69, 77, 119, 114, 105, 116, 101");
    assert!(kept(&server), "the store has the key");
    seen.push(server.request("PUT", &format!("{path}/shop-in"), &shown.text).await);
    assert_eq!(seen.last().unwrap().status, 200);
    assert!(kept(&server), "the hash keeps the stored key");
    let wrong = shown.text.replace(&hash, &"0".repeat(64));
    seen.push(server.request("PUT", &format!("{path}/shop-in"), &wrong).await);
    assert_eq!(seen.last().unwrap().body["errors"][0]["pointer"], "/spec/certificates/privateKey");
    let odd = CANONICAL.replace(key, "no PEM: SECRET").replace("shop-in", "x");
    seen.push(server.request("POST", &path, &odd).await);
    assert_eq!(seen.last().unwrap().status, 422);
    for reply in &seen {
        assert!(!reply.text.contains(key) && !reply.text.contains("SECRET"), "{}", reply.text);
    }
}

#[tokio::test]
async fn set_requires_its_intents_and_keeps_them_from_deletion() {
    let server = Server::new();
    let body = json!({"name": "grp1", "description": "d", "set": [{"inbound": "n"}, {"outbound": "o"}]}).to_string();
    let refused = server.request("POST", W, &body).await;
    let pointers: Vec<_> =
        refused.body["errors"].as_array().unwrap().iter().map(|of| of["pointer"].as_str().unwrap()).collect();
    assert_eq!((refused.status, pointers), (422, vec!["/set/0/inbound", "/set/1/outbound"]));
    assert_eq!(server.request("POST", &format!("{W}?defer=true"), &body).await.status, 201);
    assert_eq!(server.request("POST", &format!("{E}/inbound-intents"), &inbound("n")).await.status, 201);
    let held = server.request("DELETE", &format!("{W}/inbound-intents/n"), "").await;
    assert_eq!(held.status, 409);
    assert!(held.text.contains("is in use by the traffic-set \\\"grp1\\\""), "{}", held.text);
    let shown = server.request("GET", &format!("{W}/grp1"), "").await;
    assert_eq!((&shown.body["name"], &shown.body["set"][0]["inbound"]), (&json!("grp1"), &json!("n")));
    assert_eq!(server.request("DELETE", &format!("{W}/grp1/"), "").await.status, 204);
    assert_eq!(server.request("DELETE", &format!("{W}/inbound-intents/n"), "").await.status, 204);
}

#[tokio::test]
async fn parent_with_children_cannot_be_deleted() {
    let server = Server::new();
    server
        .request(
            "POST",
            &format!("{W}/compound-intents"),
            "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"externalName\":\"c.example\"}}",
        )
        .await;
    server.request("POST", &format!("{W}/compound-intents/c/inbound-intents"), &inbound("n")).await;
    // An inbound intent of the same name is another object.
    server.request("POST", &format!("{W}/inbound-intents"), &inbound("c")).await;
    assert_eq!(server.request("DELETE", &format!("{W}/inbound-intents/c"), "").await.status, 204);
    assert_eq!(server.request("DELETE", &format!("{E}/compound-intents/c"), "").await.status, 409);
    assert_eq!(server.request("DELETE", &format!("{E}/compound-intents/c/inbound-intents/n"), "").await.status, 204);
    assert_eq!(server.request("DELETE", &format!("{E}/compound-intents/c"), "").await.status, 204);
    let group = E.rsplit_once('/').unwrap().0;
    assert_eq!(server.request("POST", &format!("{group}/blue/inbound-intents"), &inbound("n")).await.status, 404);
    assert_eq!(server.request("POST", group, "{\"metadata\":{\"name\":\"blue\"}}").await.status, 201);
    assert_eq!(server.request("POST", &format!("{group}/blue/inbound-intents"), &inbound("n")).await.status, 201);
    assert_eq!(server.request("DELETE", &format!("{group}/blue"), "").await.status, 409);
}

#[tokio::test]
async fn if_match_with_an_old_etag_is_rejected() {
    let server = Server::new();
    let path = format!("{W}/inbound-intents/n");
    let made = server.request("PUT", &path, &inbound("n")).await;
    let tag = made.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(server.request_with("GET", &path, ("if-none-match", &tag), "").await.status, 304);
    assert_eq!(
        server
            .request_with("PUT", &path, ("if-match", &tag), &inbound("n").replace("shop.example", "b.example"))
            .await
            .status,
        200
    );
    assert_eq!(server.request_with("PUT", &path, ("if-match", &tag), &inbound("n")).await.status, 412);
    assert_eq!(server.request_with("DELETE", &path, ("if-match", &tag), "").await.status, 412);
    assert_eq!(
        server.request_with("PUT", &format!("{W}/inbound-intents/m"), ("if-match", "*"), &inbound("m")).await.status,
        412
    );
}

#[tokio::test]
async fn long_list_has_pages() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.request("POST", &format!("{W}/inbound-intents"), &inbound(name)).await;
    }
    let first = server.request("GET", &format!("{W}/inbound-intents?limit=2"), "").await;
    let next = format!("<{W}/inbound-intents?limit=2&after=b>; rel=\"next\"");
    assert_eq!((first.body.as_array().unwrap().len(), first.headers["link"].to_str().unwrap()), (2, next.as_str()));
    let second = server.request("GET", &format!("{W}/inbound-intents?limit=2&after=b"), "").await;
    assert_eq!((&second.body[0]["metadata"]["name"], second.headers.get("link")), (&json!("c"), None));
    assert_eq!(server.request("GET", &format!("{W}/inbound-intents?limit=1001"), "").await.status, 400);
}

#[tokio::test]
async fn wiki_syntax_is_accepted_with_lenient() {
    let server = Server::new();
    let body = inbound("n").replace("\"app\"", "// a comment\n \"intervalSweepless\"");
    let strict = server.request("POST", &format!("{W}/inbound-intents"), &body).await;
    assert!(strict.body["detail"].as_str().unwrap().starts_with("line 1 column"), "{}", strict.text);
    let body = inbound("n").replace("\"app\"", "// a comment\n \"app\"");
    assert_eq!(server.request("POST", &format!("{W}/inbound-intents?lenient=true"), &body).await.status, 201);
}
