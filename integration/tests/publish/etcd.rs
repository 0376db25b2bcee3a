//! A real etcd with keys of CoreDNS and others, and a real CoreDNS that reads it.

use std::{
    fs,
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant},
};

use data_encoding::BASE64;
use fairway_etcd::{Settings, Source};
use fairway_integration::{
    query::Query,
    real::{Process, ask, free_port, http_get, program, wait_until},
};
use fairway_model::{Changes, Rtype, Secret};
use fairway_providers::{
    etcd::Etcd,
    publish::{Provider, ProviderError},
};
use tempfile::TempDir;

use crate::{ZONE, contract, set};

/// Foreign keys at the start: as ExternalDNS writes them, as people write them, and one that is no record.
const FOREIGN: &[(&str, &str)] = &[
    ("/skydns/example/pub/www/1c2d3e4f", r#"{"host":"192.0.2.80","ttl":300,"targetstrip":1}"#),
    ("/skydns/example/pub/mail", r#"{"host":"192.0.2.25"}"#),
    ("/skydns/example/pub/mx", r#"{"host":"mail.pub.example","mail":true,"priority":10}"#),
    ("/skydns/example/pub/alias", r#"{"host":"www.elsewhere.example"}"#),
    ("/skydns/example/pub/theirs/5a6b7c8d", r#"{"host":"192.0.2.99","ttl":300,"targetstrip":1,"owner":"another"}"#),
    (
        "/skydns/example/pub/a-theirs/5a6b7c8e",
        r#"{"text":"\"heritage=external-dns,external-dns/owner=another,external-dns/resource=service/x/y\"","targetstrip":1}"#,
    ),
    ("/skydns/example/pub/_tcp/_sip", r#"{"host":"www.pub.example","port":5060,"priority":1,"weight":2}"#),
    ("/skydns/example/pub/broken", "no JSON"),
    ("/skydns/example/public/other", r#"{"host":"192.0.2.1"}"#),
    ("/elsewhere/example/pub/www", r#"{"host":"192.0.2.1"}"#),
];

/// A running etcd.
pub(crate) struct EtcdServer {
    pub(crate) at: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

pub(crate) fn etcd() -> EtcdServer {
    let folder = TempDir::new().expect("a temporary folder");
    let [client, peer] = [free_port(), free_port()];
    let at = SocketAddr::from(([127, 0, 0, 1], client));
    let [client, peer] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let mut command = Command::new(program("etcd", "etcd"));
    command.args(["--name", "t", "--log-level", "warn", "--unsafe-no-fsync", "--data-dir"]);
    command.arg(folder.path().join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("t={peer}")]);
    let mut process = Process::start(&mut command, &folder.path().join("log"));
    wait_until("etcd answers", Duration::from_secs(60), || {
        assert!(process.is_running(), "it ended: {}", process.output());
        http_get(at, "/health").is_some_and(|(_, body)| body.contains("\"true\""))
    });
    let server = EtcdServer { at, _process: process, _folder: folder };
    FOREIGN.iter().for_each(|(key, value)| server.put(key, value));
    server
}

impl EtcdServer {
    pub(crate) fn provider(&self) -> Etcd {
        publishing(&[self.at], None)
    }

    /// Sends a request to its gateway with another program than ours.
    fn post(&self, path: &str, body: &str) -> String {
        let url = format!("http://{}{path}", self.at);
        let said =
            Command::new("curl").args(["-s", "-m", "30", "-f", "-d", body, &url]).output().expect("curl is here");
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.success(), "{path}: {text}");
        text
    }

    fn put(&self, key: &str, value: &str) {
        self.post("/v3/kv/put", &format!("{{\"key\":\"{}\",\"value\":\"{}\"}}", base64(key), base64(value)));
    }

    fn delete(&self, key: &str) {
        self.post("/v3/kv/deleterange", &format!("{{\"key\":\"{}\"}}", base64(key)));
    }

    /// Returns all keys and values of its gateway.
    fn everything(&self) -> Vec<(String, String, String)> {
        let said = self.post("/v3/kv/range", r#"{"key":"AA==","range_end":"AA=="}"#);
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let text = |kv: &serde_json::Value, field: &str| kv[field].as_str().unwrap_or_default().to_owned();
        let kvs = said["kvs"].as_array().expect("it holds something");
        kvs.iter().map(|kv| (text(kv, "key"), text(kv, "value"), text(kv, "mod_revision"))).collect()
    }
}

fn base64(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

/// Returns a provider with these servers of one etcd. Each has 2 s to answer, or more if it is the only one.
fn publishing(servers: &[SocketAddr], password: Option<&str>) -> Etcd {
    let url = |at: &SocketAddr| format!("http://{at}").parse().expect("a URL");
    let settings = Settings {
        endpoints: servers.iter().map(url).collect(),
        user: password.map(|password| ("root".to_owned(), Source::Text(Secret::new(password)))),
        ca: None,
        identity: None,
        endpoint_timeout: Duration::from_secs(if servers.len() > 1 { 2 } else { 30 }),
        call_timeout: Duration::from_secs(30),
    };
    Etcd::new(settings, "/skydns/".to_owned(), vec![ZONE.parse().expect("a name")])
}

/// A real CoreDNS that reads an etcd.
pub(crate) struct CoreDns {
    at: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

/// Starts CoreDNS on the etcd at a URL, with an extra line for the plug-in.
pub(crate) fn coredns(etcd: &str, line: &str) -> CoreDns {
    let folder = TempDir::new().expect("a temporary folder");
    let port = free_port();
    let text = format!(
        "pub.example:{port} {{\n  bind 127.0.0.1\n  errors\n  etcd {{\n    path /skydns\n    endpoint {etcd}\n{line}  }}\n}}\n"
    );
    fs::write(folder.path().join("Corefile"), text).expect("the folder can be written");
    let mut command = Command::new(program("coredns", "coredns"));
    command.arg("-conf").arg(folder.path().join("Corefile"));
    let mut process = Process::start(&mut command, &folder.path().join("log"));
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    wait_until("CoreDNS answers", Duration::from_secs(60), || {
        assert!(process.is_running(), "it ended: {}", process.output());
        ask(at, &Query::new(ZONE.parse().expect("a name"), Rtype::SOA).encode()).is_some()
    });
    CoreDns { at, _process: process, _folder: folder }
}

impl CoreDns {
    /// Returns the answer of dig: one line per record, without owner, TTL and class.
    pub(crate) fn dig(&self, name: &str, rtype: &str) -> Vec<String> {
        let mut dig = Command::new(program("dig", "dig"));
        let (host, port) = ("@127.0.0.1", self.at.port().to_string());
        dig.args([host, "-p", &port, "+noall", "+answer", "+norecurse", "+tries=3", &format!("{name}.{ZONE}"), rtype]);
        let said = dig.output().expect("dig runs");
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let line = |line: &str| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" ");
        let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with(';')).map(line).collect();
        lines.sort();
        lines
    }
}

#[tokio::test]
async fn etcd_keeps_the_contract_and_foreign_keys() {
    let server = etcd();
    let before = server.everything();
    contract(server.provider()).await;
    assert_eq!(server.everything(), before, "not one of them was written, not even with what it held");
}

#[tokio::test]
async fn coredns_answers_published_records() {
    let server = etcd();
    let coredns = coredns(&format!("http://{}", server.at), "");
    let provider = server.provider();
    let long = format!("\"{}\" \"end; with \\\"quotes\\\" and \\\\\"", "t".repeat(255));
    let sets = vec![
        set("shop", Rtype::A, &["203.0.113.1", "203.0.113.2"]),
        set("shop", Rtype::AAAA, &["2001:db8::1"]),
        set("eu.shop", Rtype::A, &["203.0.113.9"]),
        set("lead", Rtype::CNAME, &["shop.gslb.example."]),
        set("a-shop", Rtype::TXT, &["\"heritage=external-dns,external-dns/owner=us\""]),
        set("long", Rtype::TXT, &[&long]),
        set("_web._tcp", Rtype::SRV, &["5 100 443 shop.pub.example."]),
    ];
    provider.apply(&Changes { create: sets, ..Changes::default() }).await.expect("nothing of it is there");
    assert_eq!(coredns.dig("shop", "A"), ["A 203.0.113.1", "A 203.0.113.2"], "and nothing of eu.shop");
    assert_eq!(coredns.dig("shop", "AAAA"), ["AAAA 2001:db8::1"]);
    assert_eq!(coredns.dig("eu.shop", "A"), ["A 203.0.113.9"]);
    assert_eq!(coredns.dig("lead", "A"), ["CNAME shop.gslb.example."]);
    assert_eq!(coredns.dig("a-shop", "TXT"), ["TXT \"heritage=external-dns,external-dns/owner=us\""]);
    assert_eq!(coredns.dig("long", "TXT"), [format!("TXT {long}")]);
    assert_eq!(coredns.dig("_web._tcp", "SRV"), ["SRV 5 100 443 shop.pub.example."]);
    assert_eq!(coredns.dig("www", "A"), ["A 192.0.2.80"], "what others wrote");
}

#[tokio::test]
async fn record_set_changed_since_the_read_is_not_overwritten() {
    let provider = etcd();
    let (server, provider) = (&provider, provider.provider());
    let create = |address: &str| Changes { create: vec![set("race", Rtype::A, &[address])], ..Changes::default() };
    provider.apply(&create("203.0.113.1")).await.expect("it was not there");
    provider.apply(&create("203.0.113.1")).await.expect("what is done already may come again");
    for changes in
        [create("203.0.113.2"), Changes { delete: vec![set("race", Rtype::A, &["203.0.113.9"])], ..Changes::default() }]
    {
        let error = provider.apply(&changes).await.expect_err("it is not what was read");
        assert!(matches!(&error, ProviderError::Refused(why) if why.contains("since they were read")), "{error}");
    }
    // A key that ExternalDNS writes next to ours stays, also when ours is deleted.
    let theirs = "/skydns/example/pub/race/0badcafe";
    server.put(theirs, r#"{"host":"192.0.2.77","targetstrip":1,"owner":"another"}"#);
    let delete = Changes { delete: vec![set("race", Rtype::A, &["203.0.113.1"])], ..Changes::default() };
    provider.apply(&delete).await.expect("it is as it was read");
    let left = provider.read().await.expect("it can be read");
    let left: Vec<_> = left.into_iter().filter(|set| set.set.name.to_string() == "race.pub.example.").collect();
    assert!(matches!(&left[..], [one] if *one.set.rdatas == [Box::from([192, 0, 2, 77])]), "{left:?}");
    server.delete(theirs);
}

#[tokio::test]
async fn name_that_coredns_cannot_store_is_rejected_alone() {
    let server = etcd();
    let many: Vec<_> = (0..200).map(|last| format!("203.0.113.{last}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for (bad, part) in
        [(set("many", Rtype::A, &many), "more than 128 keys"), (set("*", Rtype::A, &["203.0.113.1"]), "wildcard")]
    {
        let error = server.provider().apply(&Changes { create: vec![bad], ..Changes::default() }).await;
        assert!(matches!(&error, Err(ProviderError::Refused(why)) if why.contains(part)), "{error:?}");
    }
}

#[tokio::test]
async fn etcd_users_are_checked_and_a_silent_server_is_skipped() {
    let server = etcd();
    // It accepts connections and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let provider = publishing(&[silent.local_addr().expect("it is bound"), server.at], None);
    let begun = Instant::now();
    assert!(!provider.read().await.expect("the second server answers").is_empty());
    assert!(begun.elapsed() >= Duration::from_secs(2), "the first one was asked");
    server.post("/v3/auth/user/add", r#"{"name":"root","password":"root-of-the-tests"}"#);
    server.post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    server.post("/v3/auth/enable", "{}");
    let error = server.provider().read().await.expect_err("there is no user");
    assert!(matches!(&error, ProviderError::Unavailable(why) if why.contains("user name is empty")), "{error}");
    let error = publishing(&[server.at], Some("wrong")).read().await.expect_err("the password is wrong");
    assert!(matches!(&error, ProviderError::Unavailable(why) if why.contains("authentication failed")), "{error}");
    let provider = publishing(&[server.at], Some("root-of-the-tests"));
    provider.read().await.expect("the password is right");
    let create = Changes { create: vec![set("x", Rtype::A, &["203.0.113.1"])], ..Changes::default() };
    provider.apply(&create).await.expect("it may write");
}
