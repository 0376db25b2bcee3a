//! Real servers that accept dynamic updates.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use fairway_http::{Tls, Url};
use fairway_integration::{
    query::Query,
    real::{Process, ask, free_port, http_get, program, wait_until},
};
use fairway_model::{Changes, Rtype, Secret};
use fairway_providers::{
    PowerDns,
    http::Api,
    publish::{Provider, ProviderError},
    rfc2136::{Rfc2136, TsigAlgorithm, TsigKey},
};
use tempfile::TempDir;

use crate::{FOREIGN, ZONE, contract, set};

/// The key of all servers.
pub(crate) const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0cy0zMi1vY3RldHMhIQ==";

/// A running server with the zone.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

/// Writes a configuration, and returns the command.
type Made = fn(&Path, u16) -> Command;

pub(crate) fn start(made: Made) -> Server {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("pub.zone"), FOREIGN).expect("the folder can be written");
    let port = free_port();
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let mut process = Process::start(&mut made(folder.path(), port), &folder.path().join("log"));
    let query = Query::new(ZONE.parse().expect("a name"), Rtype::SOA).encode();
    wait_until("the server has its zone", Duration::from_secs(60), || {
        assert!(process.is_running(), "it ended: {}", process.output());
        // AA is set, and there is one answer.
        ask(at, &query).is_some_and(|reply| reply[2] & 4 != 0 && reply[7] == 1)
    });
    Server { at, _process: process, _folder: folder }
}

pub(crate) fn bind(folder: &Path, port: u16) -> Command {
    let shown = folder.display();
    let text = format!(
        "options {{ directory \"{shown}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no;\n\
         pid-file \"{shown}/named.pid\"; session-keyfile \"{shown}/session.key\"; lock-file none; dnssec-validation no; notify no; }};\n\
         controls {{ }};\nkey \"fairway.\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
         zone \"pub.example\" {{ type primary; file \"pub.zone\"; allow-transfer {{ key fairway.; }};\n\
         update-policy {{ deny fairway. name forbidden.pub.example. ANY; grant fairway. zonesub ANY; }}; }};\n"
    );
    fs::write(folder.join("named.conf"), text).expect("the folder can be written");
    let mut command = Command::new(program("named", "named"));
    command.args(["-f", "-n", "1", "-U", "1", "-c"]).arg(folder.join("named.conf"));
    command
}

fn knot(folder: &Path, port: u16) -> Command {
    let shown = folder.display();
    let text = format!(
        "server:\n  rundir: {shown}\n  listen: 127.0.0.1@{port}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         log:\n  - target: stderr\n    any: info\ndatabase:\n  storage: {shown}\n  journal-db-max-size: 16M\n  timer-db-max-size: 4M\n\
         key:\n  - id: fairway.\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         acl:\n  - id: ours\n    key: fairway.\n    action: [transfer, update]\n\
         zone:\n  - domain: pub.example\n    storage: {shown}\n    file: pub.zone\n    acl: ours\n    zonefile-sync: -1\n"
    );
    fs::write(folder.join("knot.conf"), text).expect("the folder can be written");
    let mut command = Command::new(program("knotd", "knotd"));
    command.arg("-c").arg(folder.join("knot.conf"));
    command
}

/// Creates the provider again for each use, because it has no state.
#[derive(Clone)]
pub(crate) struct Updates(pub(crate) SocketAddr);

impl Updates {
    fn provider(&self, secret: &str) -> Rfc2136 {
        let key = TsigKey {
            name: "fairway.".parse().expect("a name"),
            algorithm: TsigAlgorithm::Sha256,
            secret: Secret::new(secret),
        };
        let zones = vec![ZONE.parse().expect("a name")];
        Rfc2136 { server: self.0, zones, key: Some(key), timeout: Duration::from_secs(30) }
    }
}

#[async_trait::async_trait]
impl Provider for Updates {
    fn limits(&self) -> fairway_providers::publish::Limits {
        self.provider(SECRET).limits()
    }

    async fn read(&self) -> Result<Vec<fairway_model::ProviderRecordSet>, ProviderError> {
        self.provider(SECRET).read().await
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        self.provider(SECRET).apply(changes).await
    }
}

#[tokio::test]
async fn bind_keeps_the_contract() {
    let server = start(bind);
    contract(Updates(server.at)).await;
}

#[tokio::test]
async fn knot_keeps_the_contract() {
    let server = start(knot);
    contract(Updates(server.at)).await;
}

#[tokio::test]
async fn first_of_two_concurrent_writes_wins() {
    for made in [bind as Made, knot] {
        let server = start(made);
        let updates = Updates(server.at);
        let create = |address: &str| Changes { create: vec![set("race", Rtype::A, &[address])], ..Changes::default() };
        updates.apply(&create("203.0.113.1")).await.expect("it was not there");
        let error = updates.apply(&create("203.0.113.2")).await.expect_err("it is there meanwhile");
        assert!(matches!(&error, ProviderError::Refused(why) if why.contains("YXRRSET")), "{error}");
        let stale = Changes { delete: vec![set("race", Rtype::A, &["203.0.113.9"])], ..Changes::default() };
        let error = updates.apply(&stale).await.expect_err("it is not what was read");
        assert!(matches!(&error, ProviderError::Refused(why) if why.contains("NXRRSET")), "{error}");
    }
}

#[tokio::test]
async fn wrong_key_and_bad_record_are_different_errors() {
    for made in [bind as Made, knot] {
        let server = start(made);
        let wrong = Updates(server.at).provider("d3Jvbmcgc2VjcmV0");
        let error = wrong.read().await.expect_err("it is another secret");
        assert!(matches!(&error, ProviderError::Unavailable(why) if why.contains("BADSIG")), "{error}");
        let create = Changes { create: vec![set("x", Rtype::A, &["203.0.113.1"])], ..Changes::default() };
        assert!(matches!(wrong.apply(&create).await, Err(ProviderError::Unavailable(_))));
    }
}

#[tokio::test]
async fn name_rejected_by_bind_blocks_no_other() {
    let server = start(bind);
    let updates = Updates(server.at);
    let create = |name: &str| Changes { create: vec![set(name, Rtype::A, &["203.0.113.1"])], ..Changes::default() };
    let error = updates.apply(&create("forbidden")).await.expect_err("its policy says no");
    assert!(matches!(&error, ProviderError::Refused(why) if why.contains("REFUSED")), "{error}");
    updates.apply(&create("allowed")).await.expect("its policy says yes");
}

/// A PowerDNS with the zone in SQLite, and its API.
pub(crate) struct PowerDnsServer {
    pub(crate) provider: PowerDns,
    /// Address of its API.
    pub(crate) api: String,
    _process: Process,
    _folder: TempDir,
}

pub(crate) fn powerdns() -> PowerDnsServer {
    let folder = TempDir::new().expect("a temporary folder");
    let (dns, api, shown) = (free_port(), free_port(), folder.path().display());
    fs::write(folder.path().join("pub.zone"), FOREIGN).expect("the folder can be written");
    let text = format!(
        "launch=gsqlite3\ngsqlite3-database={shown}/pdns.sqlite\nlocal-address=127.0.0.1\nlocal-port={dns}\nsocket-dir={shown}\n\
         daemon=no\nguardian=no\nsetuid=\nsetgid=\nsecurity-poll-suffix=\nloglevel=3\napi=yes\napi-key=key-of-the-tests\n\
         webserver=yes\nwebserver-address=127.0.0.1\nwebserver-port={api}\nwebserver-allow-from=127.0.0.1\n"
    );
    fs::write(folder.path().join("pdns.conf"), text).expect("the folder can be written");
    let config = format!("--config-dir={shown}");
    let schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
    let made = Command::new("python3")
        .args(["-c", "import sqlite3,sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())"])
        .args([folder.path().join("pdns.sqlite").as_os_str(), schema.as_ref()])
        .status();
    assert!(made.is_ok_and(|status| status.success()), "{schema}: install pdns-backend-sqlite3");
    let loaded = Command::new(program("pdns_server", "pdnsutil"))
        .args([&config, "load-zone", "pub.example"])
        .arg(folder.path().join("pub.zone"))
        .output()
        .expect("pdnsutil runs");
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let mut command = Command::new(program("pdns_server", "pdns_server"));
    let mut process = Process::start(command.arg(&config), &folder.path().join("log"));
    wait_until("its API answers", Duration::from_secs(60), || {
        assert!(process.is_running(), "it ended: {}", process.output());
        http_get(SocketAddr::from(([127, 0, 0, 1], api)), "/api").is_some()
    });
    let at = format!("http://127.0.0.1:{api}");
    let url = Url::parse_base(&at).expect("a URL");
    let api =
        Api::new(url, Tls::default(), Some(("x-api-key", Secret::new("key-of-the-tests"))), Duration::from_secs(30));
    let zones = vec![ZONE.parse().expect("a name")];
    let provider = PowerDns { api, zones, timeout: Duration::from_secs(30) };
    PowerDnsServer { provider, api: at, _process: process, _folder: folder }
}

#[tokio::test]
async fn powerdns_keeps_the_contract() {
    let server = powerdns();
    contract(server.provider.clone()).await;
}

#[tokio::test]
async fn powerdns_bad_record_and_wrong_key_are_different_errors() {
    let server = powerdns();
    let twice = Changes { create: vec![set("www", Rtype::CNAME, &["elsewhere.example."])], ..Changes::default() };
    let error = server.provider.apply(&twice).await.expect_err("an address exists");
    assert!(matches!(error, ProviderError::Refused(_)), "{error}");
    let mut wrong = server.provider.clone();
    wrong.api.secret = Some(("x-api-key", Secret::new("another")));
    assert!(matches!(wrong.read().await, Err(ProviderError::Unavailable(why)) if why.contains("401")));
}
