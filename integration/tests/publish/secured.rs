//! The daemon publishes to an etcd with mutual TLS, read by CoreDNS, to objects in a folder, and to a webhook over TLS that needs a
//! token.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use fairway_integration::{
    load::resolve,
    real::{Fairway, Process, free_port, http_get, program, wait_until},
};
use tempfile::TempDir;

use crate::etcd::coredns;

const LIMIT: Duration = Duration::from_secs(60);

/// Creates an authority and certificates: `ca.pem`, `server.pem`, `client.pem` and their keys.
fn certify(folder: &Path) {
    let script = r#"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca-key.pem -out ca.pem -days 30 -subj /CN=authority
for name in server client; do
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $name-key.pem -out $name.csr -subj /CN=$name
  printf "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=${name}Auth\nbasicConstraints=CA:FALSE\n" >$name.ext
  openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 30 -extfile $name.ext -out $name.pem
done"#;
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", script]).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(shell.status().is_ok_and(|status| status.success()), "openssl makes certificates");
}

fn etcd(folder: &Path, port: u16) -> Process {
    let [peer, health] = [free_port(), free_port()];
    let (client, peer) = (format!("https://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new(program("etcd", "etcd"));
    command.current_dir(folder).args(["--name", "t", "--log-level", "warn", "--unsafe-no-fsync", "--data-dir", "etcd"]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("t={peer}")]);
    command.args(["--listen-metrics-urls", &format!("http://127.0.0.1:{health}")]);
    command.args(["--cert-file", "server.pem", "--key-file", "server-key.pem", "--trusted-ca-file", "ca.pem"]);
    let mut process = Process::start(command.arg("--client-cert-auth"), &folder.join("log"));
    let health = SocketAddr::from(([127, 0, 0, 1], health));
    wait_until("etcd answers", LIMIT, || {
        assert!(process.is_running(), "it ended: {}", process.output());
        http_get(health, "/health").is_some_and(|(_, body)| body.contains("\"true\""))
    });
    process
}

#[test]
fn daemon_publishes_over_tls_and_coredns_answers() {
    let folder = TempDir::new().expect("a temporary folder");
    certify(folder.path());
    let port = free_port();
    let _etcd = etcd(folder.path(), port);
    let shown = folder.path().display();
    let tls = format!("tls {shown}/client.pem {shown}/client-key.pem {shown}/ca.pem\n");
    let coredns = coredns(&format!("https://127.0.0.1:{port}"), &tls);
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
monitors: [{{ name: unchecked, type: always }}]
clusters:
  - {{ name: eu1, addresses: [203.0.113.10, \"2001:db8::10\"] }}
  - {{ name: us1, addresses: [203.0.113.20] }}
pools: [{{ name: shop, policy: weighted, monitor: unchecked, members: [{{ cluster: eu1 }}, {{ cluster: us1 }}] }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
publish:
  owner: us
  providers:
    - name: coredns
      zones: [pub.example]
      etcd:
        endpoints: [\"https://127.0.0.1:{port}\"]
        tls: {{ ca: {{ file: ca.pem }}, cert: {{ file: client.pem }}, key: {{ file: client-key.pem }} }}
      aliases:
        - {{ name: shop.pub.example, of: shop.gslb.example, as: addresses }}
        - {{ name: lead.pub.example, of: shop.gslb.example }}
    - name: objects
      zones: [pub.example]
      dnsendpoint: {{ folder: objects }}
      aliases: [{{ name: shop.pub.example, of: shop.gslb.example, as: addresses }}]
"
    );
    let text = |file: &str| fs::read_to_string(folder.path().join(file)).expect("it was made");
    let files = ["ca.pem", "client.pem", "client-key.pem"].map(|file| (file, text(file)));
    let fairway = Fairway::start(&config, &files.each_ref().map(|(file, text)| (*file, &**text)));
    let both = ["A 203.0.113.10", "A 203.0.113.20"];
    wait_until("CoreDNS answers both", LIMIT, || coredns.dig("shop", "A") == both);
    assert_eq!(coredns.dig("shop", "AAAA"), ["AAAA 2001:db8::10"]);
    assert_eq!(coredns.dig("a-shop", "TXT"), ["TXT \"heritage=external-dns,external-dns/owner=us\""]);
    wait_until("the alias", LIMIT, || coredns.dig("lead", "A") == ["CNAME shop.gslb.example."]);
    let object = fairway.folder.path().join("objects/fairway-objects-all.json");
    wait_until("the object", LIMIT, || fs::read_to_string(&object).is_ok_and(|text| text.contains("203.0.113.20")));
    let taken = fairway.command(&["override", "add", "us1", "down", "--reason", "test", "--for", "1h"]);
    assert!(taken.status.success());
    wait_until("the address of us1 goes", LIMIT, || coredns.dig("shop", "A") == both[..1]);
    wait_until("from the object, too", LIMIT, || {
        fs::read_to_string(&object).is_ok_and(|t| !t.contains("203.0.113.20"))
    });
}

/// Returns the SHA-256 of a token.
fn sum(token: &str) -> String {
    let sum = Command::new("sh").args(["-c", &format!("printf %s {token} | sha256sum")]).output().expect("sh runs");
    String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap_or_default().to_owned()
}

/// Returns one webhook three times: configured correctly, with another token, and with another authority.
fn to_webhook(webhook: SocketAddr) -> String {
    let one = |name: &str, token: &str, ca: &str| {
        format!(
            "    - name: {name}
      zones: [pub.example]
      webhook: {{ url: \"https://{webhook}/owners/{name}\", token: {{ file: {token} }}, tls: {{ ca: {{ file: {ca} }} }}, weights: fairway }}
      aliases: [{{ name: {name}.pub.example, of: shop.gslb.example, as: addresses }}]
"
        )
    };
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
monitors: [{{ name: unchecked, type: always }}]
clusters: [{{ name: eu1, addresses: [203.0.113.10] }}, {{ name: us1, addresses: [203.0.113.20] }}]
pools:
  - name: shop
    policy: weighted
    monitor: unchecked
    members: [{{ cluster: eu1, weight: 70 }}, {{ cluster: us1, weight: 30 }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
publish:
  owner: us
  providers:
{}{}{}",
        one("right", "token", "ca.pem"),
        one("unknown", "other.token", "ca.pem"),
        one("untrusting", "token", "other.pem"),
    )
}

#[test]
fn webhook_over_tls_needs_certificate_and_token() {
    let [folder, other] = [(); 2].map(|()| TempDir::new().expect("a temporary folder"));
    certify(folder.path());
    certify(other.path());
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let shown = folder.path().display();
    let server = Fairway::start(
        &format!(
            "zones: [{{ name: pub.example, ns: [ns1.example.net] }}]
webhook: {{ listen: \"{webhook}\", token: {}, tls: {{ cert: {{ file: {shown}/server.pem }}, key: {{ file: {shown}/server-key.pem }} }} }}
",
            sum("fwt_right")
        ),
        &[],
    );
    let text = |folder: &TempDir| fs::read_to_string(folder.path().join("ca.pem")).expect("it was made");
    let fairway = Fairway::start(
        &to_webhook(webhook),
        &[
            ("token", "fwt_right"),
            ("other.token", "fwt_wrong"),
            ("ca.pem", &text(&folder)),
            ("other.pem", &text(&other)),
        ],
    );
    let served = |name: &str| {
        let reply = resolve(server.dns, &format!("{name}.pub.example")).expect("an answer");
        ["203.0.113.10", "203.0.113.20"].iter().any(|address| reply.is(&[address]))
    };
    wait_until("it is published", LIMIT, || served("right"));
    let publisher_status = |number: usize| {
        let (_, text) = http_get(fairway.http, "/v1/publishing").expect("it answers");
        let state: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        state["providers"][number].clone()
    };
    wait_until("it is well", LIMIT, || publisher_status(0)["status"] == "ok");
    let (_, text) = http_get(server.http, "/v1/contributions").expect("it answers");
    let kept: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let weights = kept["items"].as_array().into_iter().flatten().map(|item| &item["members"][0]["weight"]);
    assert_eq!(weights.collect::<Vec<_>>(), [70, 30], "each set keeps its weight: {text}");
    for (number, name, why) in [(1, "unknown", "401"), (2, "untrusting", "invalid peer certificate")] {
        wait_until("it fails", LIMIT, || publisher_status(number)["status"] == "failing");
        let state = publisher_status(number);
        let error = state["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(why) && !error.contains("fwt_"), "{state}");
        assert!(!served(name), "{name}");
        assert_eq!(fairway.metric("fairway_publish_failing", &format!("\"{name}\"")), 1.0);
        let text = String::from_utf8_lossy(&fairway.command(&["publish", "status"]).stdout).into_owned();
        assert_eq!(text.matches(&error).count(), 1, "{text}");
    }
    // The corrected file works: it is read again.
    fs::write(fairway.folder.path().join("other.token"), "fwt_right").expect("the folder can be written");
    wait_until("it is published with the right token", LIMIT, || served("unknown"));
}
