//! The page in a real browser: Debian's chromium, driven by playwright (PyPI), on the real binary.
//!
//! This file starts the servers. The scripts in `page/*.py` look, click and compare. Screenshots are left in `target/page/`.
#![cfg(feature = "real")]

use std::{fmt::Write as _, path::Path, process::Command};

use fairway_integration::{
    browser::Looker,
    real::{Fairway, Process, fairway_binary, free_port, serve},
};

/// Three clusters with capacities, three pools, and a gateway port that the script opens and closes.
fn scene(port: u16) -> String {
    format!(
        "zones: [{{ name: page.test, ns: [ns1.example.net] }}]
clusters:
  - {{ name: eu1, addresses: [127.0.1.1], location: {{ latitude: 50, longitude: 8, region: europe }}, capacity: 1000 }}
  - {{ name: us1, addresses: [127.0.2.1], location: {{ latitude: 39, longitude: -77, region: america }}, capacity: 800 }}
  - {{ name: ap1, addresses: [127.0.3.1], location: {{ latitude: 1, longitude: 104, region: asia }}, capacity: 400 }}
monitors:
  - {{ name: gateway, type: tcp, port: {port}, period: 200ms, timeout: 150ms, rise: 2, fall: 2 }}
pools:
  - name: shop
    policy: weighted
    ttl: 5s
    monitor: gateway
    members: [{{ cluster: eu1, weight: 60 }}, {{ cluster: us1, weight: 30 }}, {{ cluster: ap1, weight: 10 }}]
  - name: pay
    policy: failover
    monitor: gateway
    members: [{{ cluster: eu1, tier: 1 }}, {{ cluster: us1, tier: 2 }}]
  - name: video
    policy: sticky
    monitor: gateway
    members: [{{ cluster: us1, weight: 50 }}, {{ cluster: ap1, weight: 50 }}]
names:
  - {{ name: shop.page.test, pool: shop }}
  - {{ name: www.page.test, pool: shop }}
  - {{ name: pay.page.test, pool: pay }}
  - {{ name: video.page.test, pool: video }}
"
    )
}

#[test]
fn page_shows_the_status_and_survives_a_server_outage() {
    let port = free_port();
    let mut server = Fairway::start(&scene(port), &[]);
    let looker = Looker::start("look.py", &server, &[&port.to_string()]);
    looker.follow(|order| match order {
        "stop" => {
            server.process.signal("TERM");
            server.process.ended(std::time::Duration::from_secs(30));
        }
        "start" => {
            server.process = start(server.folder.path());
            server.wait_ready();
        }
        order => panic!("the script asks for {order:?}"),
    });
}

fn start(folder: &Path) -> Process {
    Process::start(&mut serve(folder), &folder.join("fairway-again.log"))
}

#[test]
fn page_shows_nothing_without_a_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("ops.token");
    let made = Command::new(fairway_binary()).args(["token", "create", "ops", "--out"]).arg(&file).output();
    let made = String::from_utf8(made.expect("it runs").stdout).expect("text");
    let entry = made.lines().find(|line| line.contains("sha256:")).expect("an entry").trim().trim_start_matches("- ");
    let access = format!("access: {{ tokens: [{entry}], grants: [{{ role: viewer, to: [\"token:ops\"] }}] }}\n");
    let config = access + &scene(free_port()).replace("type: tcp", "type: always");
    let config = config.lines().map(|line| match line.contains("type: always") {
        true => "  - { name: gateway, type: always }",
        false => line,
    });
    let server = Fairway::start(&(config.collect::<Vec<_>>().join("\n") + "\n"), &[]);
    let token = std::fs::read_to_string(&file).expect("a token");
    Looker::start("stranger.py", &server, &[token.trim()]).follow(|order| match order {
        "reload" => server.process.signal("HUP"),
        order => panic!("the script asks for {order:?}"),
    });
}

/// Two clusters that run a service, and two publishers: one with foreign records, and one that waits for an operator.
fn webhook_config(webhook: u16) -> String {
    format!(
        "zones: [{{ name: page.test, ns: [ns1.example.net], monitor: unchecked }}]
clusters:
  - {{ name: eu1, addresses: [127.0.1.1], services: [web], capacity: 1000 }}
  - {{ name: us1, addresses: [127.0.2.1], services: [web], capacity: 800 }}
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: weighted, monitor: unchecked, members: [{{ cluster: eu1 }}, {{ cluster: us1 }}] }}]
names: [{{ name: shop.page.test, pool: shop }}]
webhook: {{ listen: \"127.0.0.1:{webhook}\", lease: 10m }}
publish:
  providers:
    - name: static
      zones: [pub.example]
      file: pub.zone
      resync: 10s
      aliases:
        - {{ name: shop.pub.example, of: shop.page.test, as: addresses }}
        - {{ name: www.pub.example, of: shop.page.test }}
    - name: waits
      zones: [other.example]
      file: other.zone
      auto: false
      aliases: [{{ name: shop.other.example, of: shop.page.test, as: addresses }}]
"
    )
}

/// First line of the published part: the lines above it are foreign.
const PUB_ZONE: &str = "$ORIGIN pub.example.
@ 300 SOA ns admin 1 3600 600 86400 60
@ 300 NS ns
ns 300 A 192.0.2.53
www 300 A 192.0.2.80
";

#[test]
fn page_shows_contributions_and_publishing() {
    let webhook = free_port();
    let other = PUB_ZONE.replace("pub.example", "other.example");
    let server = Fairway::start(&webhook_config(webhook), &[("pub.zone", PUB_ZONE), ("other.zone", &other)]);
    let webhook = format!("127.0.0.1:{webhook}");
    Looker::start("sides.py", &server, &[&webhook]).follow(|order| panic!("the script asks for {order:?}"));
}

#[test]
fn page_creates_changes_and_deletes_an_intent() {
    let config = webhook_config(free_port());
    let server = Fairway::start(config.split("webhook:").next().expect("it has a beginning"), &[]);
    Looker::start("intents.py", &server, &[]).follow(|order| panic!("the script asks for {order:?}"));
}

/// 10,000 pools with one name each, over 40 clusters.
fn many() -> String {
    let mut config = "zones: [{ name: page.test, ns: [ns1.example.net] }]\nclusters:\n".to_owned();
    for n in 0..40 {
        let _ = writeln!(config, "- {{ name: c{n:02}, addresses: [192.0.2.{}], capacity: 1000 }}", n + 1);
    }
    config += "monitors: [{ name: unchecked, type: always }]\npools:\n";
    for n in 0..10_000 {
        let members: Vec<_> =
            (0..3).map(|m| format!("{{ cluster: c{:02}, weight: {} }}", (n * 7 + m * 11) % 40, 10 * (m + 1))).collect();
        let members = members.join(", ");
        let _ = writeln!(config, "- {{ name: p{n:05}, policy: weighted, monitor: unchecked, members: [{members}] }}");
    }
    config += "names:\n";
    for n in 0..10_000 {
        let _ = writeln!(config, "- {{ name: s{n:05}.page.test, pool: p{n:05} }}");
    }
    config
}

#[test]
fn page_draws_only_visible_rows_of_ten_thousand_services() {
    let server = Fairway::start(&many(), &[]);
    Looker::start("scroll.py", &server, &[]).follow(|order| panic!("the script asks for {order:?}"));
}
