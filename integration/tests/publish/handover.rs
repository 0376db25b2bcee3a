//! Record sets of the real external-dns are taken over, in BIND, with plain and with encrypted registries: external-dns leaves them
//! alone from the first step on, deletes its remaining ones, and reads ours.
//!
//! Its source `fake` creates other names in example.com each time, so that with the policy `sync` it deletes all that it owns.

use std::{
    fs,
    net::SocketAddr,
    panic::{self, AssertUnwindSafe},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

use fairway_integration::real::{Fairway, free_port, program, wait_until};

use crate::servers::{SECRET, bind, start};

const LIMIT: Duration = Duration::from_secs(60);
const KEY: &str = "passphrasewhichneedstobe32bytes!";
const OURS: &str = "203.0.113.10";

/// BIND with the zone that external-dns writes to.
fn bind_with_example(folder: &Path, port: u16) -> Command {
    let zone = "$ORIGIN example.com.\n$TTL 300\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n";
    fs::write(folder.join("example.zone"), zone).expect("the folder can be written");
    let command = bind(folder, port);
    let path = folder.join("named.conf");
    let text = fs::read_to_string(&path).expect("it was written")
        + "zone \"example.com\" { type primary; file \"example.zone\"; allow-transfer { key fairway.; };\n\
           update-policy { grant fairway. zonesub ANY; }; };\n";
    fs::write(path, text).expect("the folder can be written");
    command
}

/// Runs one loop of external-dns with this owner id.
fn external_dns(server: SocketAddr, owner: &str, sealed: bool) {
    let mut command = Command::new(program("external-dns", "external-dns"));
    command
        .args([
            "--once",
            "--source=fake",
            "--provider=rfc2136",
            "--rfc2136-host=127.0.0.1",
            "--rfc2136-zone=example.com",
        ])
        .args(["--rfc2136-tsig-keyname=fairway.", "--rfc2136-tsig-secret-alg=hmac-sha256", "--rfc2136-tsig-axfr"])
        .args(["--registry=txt", "--policy=sync"])
        .arg(format!("--rfc2136-port={}", server.port()))
        .arg(format!("--rfc2136-tsig-secret={SECRET}"))
        .arg(format!("--txt-owner-id={owner}"))
        .arg(format!("--metrics-address=127.0.0.1:{}", free_port()));
    if sealed {
        command.arg("--txt-encrypt-enabled").arg(format!("--txt-encrypt-aes-key={KEY}"));
    }
    let output = command.output().expect("external-dns runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn dig(server: SocketAddr, arguments: &[&str]) -> Vec<String> {
    let mut dig = Command::new(program("dig", "dig"));
    dig.args(["+tries=1", "+time=2", "@127.0.0.1", "-p", &server.port().to_string()]).args(arguments);
    let output = dig.output().expect("dig runs");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Returns the names with addresses that have a registry record, and true if some of those records are readable.
fn names(server: SocketAddr) -> (Vec<String>, bool) {
    let key = format!("hmac-sha256:fairway.:{SECRET}");
    let zone = dig(server, &["-y", &key, "+noall", "+answer", "example.com", "AXFR"]);
    let of = |rtype: &'static str| {
        zone.iter().filter_map(move |line| {
            let words: Vec<_> = line.split_whitespace().collect();
            (words.get(3) == Some(&rtype)).then(|| words[0].to_owned())
        })
    };
    let texts: Vec<_> = of("TXT").collect();
    let mut names: Vec<_> = of("A").filter(|name| texts.contains(&format!("a-{name}"))).collect();
    names.sort();
    names.dedup();
    (names, zone.iter().any(|line| line.contains("heritage=external-dns")))
}

fn address(server: SocketAddr, name: &str) -> Vec<String> {
    dig(server, &["+short", name, "A"])
}

/// Names to take over, in BIND, with their records.
struct Scene {
    at: SocketAddr,
    sealed: bool,
    fairway: Fairway,
    taken: Vec<(String, Vec<String>)>,
    left: Vec<String>,
}

impl Scene {
    fn start(at: SocketAddr, sealed: bool) -> Self {
        external_dns(at, "them", sealed);
        let (all, is_readable) = names(at);
        assert!(all.len() >= 4 && is_readable != sealed, "{all:?}");
        let (taken, left) = all.split_at(all.len() / 2);
        let alias = |name: &String| format!("        - {{ name: {name}, of: shop.gslb.example, as: addresses }}\n");
        let aliases: String = taken.iter().map(alias).collect();
        let registry = if sealed { "      registry: { key: { file: registry.key } }\n" } else { "" };
        let config = format!(
            "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
monitors: [{{ name: unchecked, type: always }}]
clusters: [{{ name: eu1, addresses: [{OURS}] }}]
pools: [{{ name: shop, policy: weighted, monitor: unchecked, members: [{{ cluster: eu1 }}] }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
publish:
  owner: us
  providers:
    - name: bind
      zones: [example.com]
      rfc2136: {{ server: \"{at}\", tsig: {{ name: fairway, secret: {{ file: tsig.secret }} }} }}
      resync: 10s
{registry}      aliases:
{aliases}"
        );
        let fairway = Fairway::start(&config, &[("tsig.secret", SECRET), ("registry.key", KEY)]);
        let taken = taken.iter().map(|name| (name.clone(), address(at, name))).collect();
        Self { at, sealed, fairway, taken, left: left.to_vec() }
    }

    fn take(&self, arguments: &[&str]) -> String {
        let order = ["publish", "take", "bind", "--from", "them", "--reason", "a test"];
        let output = self.fairway.command(&[&order, arguments].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn status(&self) -> String {
        String::from_utf8_lossy(&self.fairway.command(&["publish", "status"]).stdout).into_owned()
    }

    fn is_ours(&self) -> bool {
        self.taken.iter().all(|(name, _)| address(self.at, name) == [OURS])
    }

    fn steps(&self) {
        let many = format!("{} record sets", self.taken.len());
        assert!(self.take(&["--dry-run"]).contains(&format!("dry run: {many}")));
        assert!(self.take(&[]).contains(&format!("done: {many}")));
        external_dns(self.at, "them", self.sealed);
        let syncs = || self.fairway.metric("fairway_publish_syncs_total", "bind");
        let before = syncs();
        wait_until("it is looked at in between", LIMIT, || syncs() > before);
        for (name, theirs) in &self.taken {
            assert_eq!(&address(self.at, name), theirs, "{name} is touched by neither");
        }
        for name in &self.left {
            assert!(address(self.at, name).is_empty(), "{name} was left to external-dns, which deletes it");
        }
        assert!(self.take(&["--step", "finish"]).contains("announced too recently"));
        let finished = || self.take(&["--step", "finish", "--after", "1s"]).contains(&format!("done: {many}"));
        wait_until("a second has passed since it was announced", LIMIT, finished);
        wait_until("they are made ours", LIMIT, || self.is_ours());
        external_dns(self.at, "them", self.sealed);
        assert!(self.is_ours(), "external-dns leaves alone what is ours");
    }
}

/// Takes over during queries, which never find one of the names without records.
fn asked_meanwhile(scene: &Scene, act: impl FnOnce()) {
    let (ends, empty, asked) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let ask = || {
        while !ends.load(Relaxed) {
            for (name, _) in &scene.taken {
                empty.fetch_add(usize::from(address(scene.at, name).is_empty()), Relaxed);
                asked.fetch_add(1, Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(ask);
        let acted = panic::catch_unwind(AssertUnwindSafe(act));
        ends.store(true, Relaxed);
        acted.unwrap_or_else(|panic| panic::resume_unwind(panic));
    });
    assert_eq!(empty.load(Relaxed), 0, "of {asked:?} questions");
    assert!(asked.load(Relaxed) > 0);
}

fn handed_over(sealed: bool) {
    let server = start(bind_with_example);
    let scene = Scene::start(server.at, sealed);
    wait_until("they are seen to be somebody's", LIMIT, || scene.status().contains("belongs to the owner \"them\""));
    asked_meanwhile(&scene, || scene.steps());
    let log = scene.fairway.process.output();
    let lines = |step: &str| log.lines().filter(|line| line.contains("fairway::audit") && line.contains(step)).count();
    let all = scene.taken.len();
    assert!(lines("announced") == all && lines("taken") == all && log.contains("a test"), "{log}");
    let Scene { at, taken, fairway, .. } = scene;
    drop(fairway);
    // A program with our owner id reads our registry: with the policy sync, it deletes what it considers its own.
    external_dns(at, "us", sealed);
    assert!(taken.iter().all(|(name, _)| address(at, name).is_empty()), "external-dns read our registry records");
}

#[test]
fn records_of_external_dns_are_taken_over_without_a_gap() {
    handed_over(false);
}

#[test]
fn encrypted_registry_matches_external_dns() {
    handed_over(true);
}
