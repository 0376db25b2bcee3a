//! Objects that are declared over the control socket.

use std::{
    io::{Read, Write},
    net::{SocketAddr, UdpSocket},
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};

use super::{
    daemon::{always, options, start},
    *,
};
use crate::daemon::{Daemon, Options};
use fairway_api_types::client::Applying;
use fairway_store::objects::Kind;

/// Response to a request.
pub(super) struct Reply {
    pub(super) status: u16,
    head: String,
    pub(super) body: Value,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the status of a condition, and its reason and message.
    fn condition(&self, kind: &str) -> (String, String) {
        let all = self.body["status"]["conditions"].as_array().unwrap();
        let found = all.iter().find(|condition| condition["type"] == kind).unwrap();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), format!("{} {}", text("reason"), text("message")))
    }

    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }
}

/// A daemon with a data folder, and its control socket.
pub(super) struct Server {
    pub(super) scene: Scene,
    pub(super) daemon: Daemon,
}

impl Server {
    pub(super) async fn new(config: &str) -> Self {
        let scene = Scene::new(config);
        let daemon = start(&scene).await;
        Self { scene, daemon }
    }

    /// Restarts the daemon on the same folder.
    pub(super) async fn restart(self) -> Self {
        let Self { scene, daemon } = self;
        daemon.stop().await;
        let daemon = start(&scene).await;
        Self { scene, daemon }
    }

    pub(super) fn send(&self, method: &str, path: &str, headers: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut socket = UnixStream::connect(self.scene.data().join("control.sock")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: fairway\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: serde_json::from_str(body).unwrap_or_default() }
    }

    pub(super) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", &Value::Null)
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, "", body)
    }

    fn apply(&self, parameters: &str, body: &Value) -> Reply {
        self.send("POST", &format!("/v1/apply?{parameters}"), "", body)
    }

    /// Returns the address in the answer to a name; `None` if the name does not exist.
    pub(super) fn answer(&self, name: &str) -> Option<[u8; 4]> {
        address_of(self.daemon.dns_addresses()[0], name)
    }

    /// Writes a configuration and reloads. True if it was accepted.
    pub(super) async fn reload(&self, config: &str) -> bool {
        self.scene.write(config);
        self.daemon.control().reload().await.unwrap().is_accepted()
    }
}

/// Returns the address of an answer with one record; `None` for any other answer.
fn address_of(server: SocketAddr, name: &str) -> Option<[u8; 4]> {
    let mut query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00".to_vec();
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend(label.bytes());
    }
    query.extend(b"\x00\x00\x01\x00\x01");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&query, server).unwrap();
    let mut answer = [0; 1232];
    let length = socket.recv(&mut answer).unwrap();
    (answer[7] == 1).then(|| answer[length - 4..length].try_into().unwrap())
}

/// Returns a configuration with a zone and without steered names.
pub(super) fn zone_only() -> String {
    "version: 1
listen: { dns: [\"127.0.0.1:0\"], http: \"127.0.0.1:0\" }
zones: [ { name: gslb.example, ns: [ { name: ns1.gslb.example, addresses: [192.0.2.53] } ], contact: a@gslb.example } ]
"
    .to_owned()
}

const SHOP: &str = "api.gslb.example";

/// Returns a name with all objects that it needs.
fn shop() -> Value {
    json!({
        "monitors": [{"name": "unchecked", "type": "always"}],
        "clusters": [{"name": "ap1", "addresses": ["192.0.2.1"]}, {"name": "ap2", "addresses": ["192.0.2.2"]}],
        "pools": [pool("ap1")],
        "names": [{"name": SHOP, "pool": "api"}],
    })
}

/// Returns a pool of one cluster.
fn pool(cluster: &str) -> Value {
    json!({"name": "api", "policy": "failover", "monitor": "unchecked", "members": [{"cluster": cluster}]})
}

/// Starts a server with the objects of [`shop`].
async fn declared() -> Server {
    let server = Server::new(&zone_only()).await;
    server.apply("", &shop()).expect(200);
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_objects_are_in_the_answers() {
    let server = Server::new(&zone_only()).await;
    for section in ["monitors", "clusters", "pools", "names"] {
        for body in shop()[section].as_array().unwrap() {
            let created = server.send("POST", &format!("/v1/{section}?reason=first"), "", body).expect(201);
            let location = format!("/v1/{section}/{}", body["name"].as_str().unwrap());
            assert_eq!(created.header("location"), Some(location.as_str()));
            assert_eq!(
                (created.condition("Accepted").0, created.condition("Served").0),
                ("True".into(), "True".into())
            );
            let read = server.get(&location).expect(200);
            assert_eq!(read.body["name"], body["name"]);
            assert_eq!(read.header("etag"), created.header("etag"));
        }
    }
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 1]));
    server.put("/v1/pools/api", &pool("ap2")).expect(200);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 2]));
    server.send("DELETE", &format!("/v1/names/{SHOP}"), "", &Value::Null).expect(204);
    assert_eq!(server.answer(SHOP), None);
    server.get(&format!("/v1/names/{SHOP}")).expect(404);
    let http = fairway_api_types::client::Client::new(fairway_api_types::client::Reach::Http(
        server.daemon.http_address().unwrap(),
    ));
    assert_eq!(http.objects_after("clusters", "").await.unwrap().items.len(), 2, "clusters over HTTP");
    http.delete_object("monitors", "nothing", "").await.unwrap_err();
    let another = json!({"clusters": [{"name": "ap9", "addresses": ["192.0.2.9"]}]});
    assert!(http.apply(&another, &Applying::default()).await.unwrap().served, "change over HTTP must be served");
    let by = server.get("/v1/clusters/ap9/history").body[0]["by"].clone();
    assert_eq!(by, "127.0.0.1 without authentication");
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_object_is_rejected_with_its_errors_and_changes_nothing() {
    let server = declared().await;
    let revision = server.get("/v1/pools").body["revision"].clone();
    let rejected = server.put("/v1/pools/api", &pool("ap9")).expect(422);
    let detail = rejected.body["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("pools/api: ") && detail.contains("ap9"), "{detail}");
    assert_eq!(rejected.body["errors"][0]["pointer"], "/members/0/cluster");
    assert_eq!(
        rejected.body["errors"].as_array().unwrap().len(),
        1,
        "only the pool has an error, not the name that refers to it"
    );
    let invalid = json!({"name": "api", "members": [{"cluster": "ap1", "weight": 70_000}], "colour": "red"});
    let rejected = server.put("/v1/pools/api", &invalid).expect(422);
    let pointers: Vec<_> = rejected.body["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert!(pointers.contains(&&json!("/members/0/weight")) && pointers.contains(&&json!("/colour")), "{pointers:?}");
    let used = server.send("DELETE", "/v1/clusters/ap1", "", &Value::Null).expect(409);
    assert!(used.body["detail"].as_str().unwrap().contains("pools/api"), "{}", used.body);
    server.send("DELETE", "/v1/clusters/nobody", "", &Value::Null).expect(404);
    server.send("POST", "/v1/pools", "", &pool("ap1")).expect(409);
    server.put("/v1/pools/other", &pool("ap1")).expect(400);
    server.send("PUT", "/v1/pools/api", "", &Value::Null).expect(400);
    server.put("/v1/pools/api", &json!([])).expect(422);
    server.get("/v1/pools?limit=0").expect(400);
    assert_eq!(server.get("/v1/pools").body["revision"], revision);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 1]));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn write_with_an_outdated_revision_is_rejected() {
    let server = declared().await;
    let tag = server.get("/v1/pools/api").header("etag").unwrap().to_owned();
    let with =
        |header: &str, cluster: &str| server.send("PUT", "/v1/pools/api", &format!("{header}\r\n"), &pool(cluster));
    let changed = with(&format!("if-match: {tag}"), "ap2").expect(200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    with(&format!("if-match: {tag}"), "ap1").expect(412);
    with("if-none-match: *", "ap1").expect(412);
    with("if-match: *", "ap2").expect(200);
    with("if-match: 7", "ap1").expect(412);
    server.send("DELETE", "/v1/pools/api", &format!("if-match: {tag}\r\n"), &Value::Null).expect(412);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 2]));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_changes_all_or_nothing_and_a_dry_run_nothing() {
    let server = Server::new(&zone_only()).await;
    let mut invalid = shop();
    invalid["pools"] = json!([pool("ap9")]);
    server.apply("", &invalid).expect(422);
    assert_eq!(server.get("/v1/clusters").body["items"], json!([]));
    let dry_run = server.apply("dryRun=true", &shop()).expect(200);
    assert_eq!((&dry_run.body["dryRun"], &dry_run.body["revision"]), (&json!(true), &json!(0)));
    assert!(dry_run.body["effect"].as_array().unwrap().contains(&json!("names: 1 added, 0 changed, 0 removed")));
    assert_eq!((server.get("/v1/names").body["items"].clone(), server.answer(SHOP)), (json!([]), None));
    let created = server.apply("", &shop()).expect(200);
    assert_eq!((created.body["created"].as_array().unwrap().len(), &created.body["served"]), (5, &json!(true)));
    let same = server.apply("", &shop()).expect(200);
    assert_eq!((&same.body["unchanged"], &same.body["revision"]), (&json!(5), &json!(0)));
    let mut less = shop();
    less["clusters"].as_array_mut().unwrap().pop();
    assert_eq!(server.apply("", &less).expect(200).body["deleted"], json!([]));
    assert_eq!(server.apply("prune=true&dryRun=true", &less).expect(200).body["deleted"], json!(["clusters/ap2"]));
    server.get("/v1/clusters/ap2").expect(200);
    assert_eq!(server.apply("prune=true", &less).expect(200).body["deleted"], json!(["clusters/ap2"]));
    server.get("/v1/clusters/ap2").expect(404);
    let page = server.get("/v1/clusters?limit=1&contains=ap").expect(200);
    assert_eq!((page.body["items"].as_array().unwrap().len(), &page.body["next"]), (1, &Value::Null));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn body_of_many_small_values_is_rejected_before_it_fills_the_memory() {
    let server = Server::new(&zone_only()).await;
    let reply = server.apply("", &json!({"pools": vec![json!({}); 150_000]})).expect(413);
    assert!(reply.body.to_string().contains("300000 values"), "{}", reply.body);
    let reply = server.apply("", &json!({"pools": vec![json!({}); 10_000]})).expect(422);
    let errors = reply.body["errors"].as_array().expect("a list").len();
    assert!((101..200).contains(&errors), "{errors} errors are shown");
    // One object has a bound of its own. Commas of texts are no values.
    let path = "/v1/pools/web";
    let padded = |padding: usize| json!({"name": "web", "x": "a".repeat(padding)});
    server.put(path, &padded((2 << 20) + 1 - padded(0).to_string().len())).expect(413);
    server.put(path, &json!({"name": "web", "members": vec![json!(",,,"); 90_000]})).expect(422);
    assert_eq!(server.get(path).status, 404);
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_takes_precedence_over_an_object_and_the_conflict_is_shown() {
    let server = Server::new(&always()).await;
    let other = json!({"name": "eu1", "addresses": ["192.0.2.9"]});
    let created = server.put("/v1/clusters/eu1", &other).expect(201);
    let (status, why) = created.condition("Conflict");
    assert!(status == "True" && why.contains("Shadowed") && why.contains("fairway.yaml"), "{why}");
    assert_eq!(created.condition("Served").0, "False");
    assert_eq!(server.answer("shop.gslb.example"), Some([127, 0, 0, 1]));
    let state = fairway_api::state(server.daemon.control()).await.unwrap();
    assert!(state.conflicts.len() == 1 && state.conflicts[0].contains("cluster/eu1"), "{:?}", state.conflicts);
    server.put("/v1/clusters/ap1", &json!({"name": "ap1", "addresses": ["192.0.2.1"]})).expect(201);
    let more = json!({"name": "shop", "policy": "failover", "monitor": "gateway", "members": [{"cluster": "ap1"}]});
    let pool = server.put("/v1/pools/shop", &more).expect(201);
    assert_eq!((pool.condition("Conflict").0, pool.condition("Served").0), ("False".into(), "True".into()));
    let state = fairway_api::state(server.daemon.control()).await.unwrap();
    let members: Vec<_> = state.pools[0].members.iter().map(|member| member.cluster.as_str()).collect();
    assert_eq!(members, ["eu1", "us1", "ap1"], "members of both sources");
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_rejected_because_of_files_returns_when_they_are_fixed() {
    let server = Server::new(&always()).await;
    let own = json!({"name": "api", "policy": "failover", "monitor": "gateway", "members": [{"cluster": "us1"}]});
    let name = json!({"name": SHOP, "pool": "api"});
    server.apply("", &json!({"pools": [own], "names": [name]})).expect(200);
    assert_eq!(server.answer(SHOP), Some([127, 0, 0, 2]));
    let without = always().replace("  - { name: us1, addresses: [127.0.0.2] }\n", "").replace(", { cluster: us1 }", "");
    assert!(server.reload(&without).await, "objects must not prevent a reload of files");
    let pool = server.get("/v1/pools/api").expect(200);
    let (status, why) = pool.condition("Accepted");
    assert!(status == "False" && why.contains("us1"), "{why}");
    assert_eq!(server.get(&format!("/v1/names/{SHOP}")).condition("Served").0, "False");
    assert_eq!((server.answer(SHOP), server.answer("shop.gslb.example")), (None, Some([127, 0, 0, 1])));
    assert!(server.reload(&always()).await);
    assert_eq!(server.get("/v1/pools/api").condition("Accepted").0, "True");
    assert_eq!(server.answer(SHOP), Some([127, 0, 0, 2]));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_files_do_not_prevent_changes_of_objects() {
    let server = declared().await;
    assert!(!server.reload("version: 1\nnonsense: true\n").await);
    server.put("/v1/pools/api", &pool("ap2")).expect(200);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 2]));
    let state = fairway_api::state(server.daemon.control()).await.unwrap();
    assert!(state.config.stale, "the configuration must still be stale");
    assert!(server.reload(&zone_only()).await);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 2]));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_keeps_objects_and_their_history() {
    let server = declared().await;
    let path = "/v1/pools/api?reason=ap1%20is%20rebuilt";
    let tag = server.put(path, &pool("ap2")).expect(200).header("etag").unwrap().to_owned();
    let server = server.restart().await;
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 2]), "first answer after a restart");
    let pool = server.get("/v1/pools/api").expect(200);
    assert_eq!((pool.header("etag"), &pool.body["metadata"]["generation"]), (Some(tag.as_str()), &json!(2)));
    let history = server.get("/v1/pools/api/history").expect(200).body;
    let [last, first] = history.as_array().unwrap().as_slice() else { panic!("{history}") };
    assert_eq!(last["reason"], "ap1 is rebuilt");
    assert_eq!(last["by"], format!("local user {}", rustix::process::geteuid().as_raw()));
    assert!(last["at"].as_str().unwrap() >= first["at"].as_str().unwrap());
    assert_eq!(first["object"]["members"][0]["cluster"], "ap1");
    server.send("DELETE", &format!("/v1/names/{SHOP}?reason=over"), "", &Value::Null).expect(204);
    let history = server.get(&format!("/v1/names/{SHOP}/history")).expect(200).body;
    assert_eq!((&history[0]["object"], &history[0]["reason"]), (&Value::Null, &json!("over")));
    server.get("/v1/pools/nobody/history").expect(404);
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replacement_has_all_objects_before_it_answers() {
    let listen = format!("dns: [\"127.0.0.1:{}\"], http: off", gateway().1);
    let config = zone_only().replace("dns: [\"127.0.0.1:0\"], http: \"127.0.0.1:0\"", &listen);
    let Server { scene, daemon } = Server::new(&config).await;
    let address = daemon.dns_addresses()[0];
    let server = Server { scene, daemon };
    server.apply("", &shop()).expect(200);
    let Server { scene, daemon } = server;
    let stop = Arc::new(AtomicU64::new(0));
    let asker = {
        let stop = Arc::clone(&stop);
        tokio::task::spawn_blocking(move || {
            let mut answers = vec![];
            while stop.load(Relaxed) == 0 {
                answers.push(address_of(address, SHOP));
            }
            answers
        })
    };
    let old = tokio::spawn(daemon.run_until_stopped());
    let daemon = Daemon::start(Options { replace: true, ..options(&scene) }).await.unwrap();
    tokio::time::timeout(PATIENCE, old).await.unwrap().unwrap();
    let server = Server { scene, daemon };
    server.put("/v1/pools/api", &pool("ap1")).expect(200);
    stop.store(1, Relaxed);
    assert!(asker.await.unwrap().iter().all(|answer| *answer == Some([192, 0, 2, 1])));
    server.put("/v1/pools/api", &pool("ap2")).expect(200);
    assert_eq!(server.answer(SHOP), Some([192, 0, 2, 2]));
    server.daemon.stop().await;
}

fn settings(data_dir: Option<PathBuf>) -> fairway_config::Settings {
    fairway_config::Settings { data_dir, ..fairway_config::Settings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_read_only_store_are_served() {
    let server = declared().await;
    let (data, revision) = (server.scene.data(), server.get("/v1/pools").body["revision"].clone());
    let found = Arc::default();
    // As on a disk that became read-only: the folder exists, but its lock was not taken.
    let objects = fairway_control::objects::at_start(&settings(Some(data)), None, &found).await;
    assert!(objects.err().unwrap().contains("cannot be written to"));
    assert_eq!((found.load().of(Kind::Pool).count(), json!(found.load().revision)), (1, revision));
    server.daemon.stop().await;
}
