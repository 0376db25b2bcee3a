//! New configurations and zone files under load: no lost, mixed or wrong answer, and an invalid one changes nothing.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, Instant},
};

use fairway_integration::{
    load::{Load, resolve, wait_answer},
    real::{Fairway, free_port, head, wait_until},
};
use tempfile::TempDir;

use super::{Gateway, LIMIT, NAME, answering, said, state, traces};

/// Addresses of two versions of a configuration: no answer may mix them.
const OLD: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const NEW: [&str; 2] = ["198.51.100.1", "198.51.100.2"];

fn load(server: &Fairway) -> Load {
    Load::start(server.dns, 8, NAME, |reply| reply.is(&OLD) || reply.is(&NEW))
}

#[test]
fn reloads_by_signal_lose_no_answer_and_mix_no_states() {
    let server = Fairway::start(&answering(&OLD), &[]);
    let load = load(&server);
    for version in [NEW, OLD].iter().cycle().take(8) {
        server.write_config(&answering(version));
        server.process.signal("HUP");
        wait_answer(server.dns, NAME, version, LIMIT);
        load.wait_for(50);
    }
    load.stop().expect_whole(400);
    wait_until("they are counted", LIMIT, || server.metric("fairway_reloads_total", "accepted") >= 8.0);
    assert_eq!(state(server.http)["config"]["stale"], false);
}

#[test]
fn changed_file_is_loaded_without_losing_an_answer() {
    let server = Fairway::start(&answering(&OLD), &[]);
    let load = load(&server);
    server.write_config(&answering(&NEW));
    wait_answer(server.dns, NAME, &NEW, LIMIT);
    load.wait_for(50);
    load.stop().expect_whole(50);
    // The answers change a moment before the event is sent.
    wait_until("the reload is in the state", LIMIT, || {
        state(server.http)["config"]["lastReload"]["trigger"] == "files"
    });
}

#[test]
fn invalid_configuration_changes_no_answer_and_is_reported() {
    let server = Fairway::start(&answering(&OLD), &[]);
    let load = load(&server);
    server.write_config(&answering(&NEW).replace("policy: failover", "policy: fastest"));
    server.process.signal("HUP");
    wait_until("the reload is refused", LIMIT, || state(server.http)["config"]["stale"] == true);
    let report = state(server.http)["config"]["lastReload"].clone();
    assert_eq!(report["accepted"], false);
    let faults = report["errors"].to_string();
    assert!(faults.contains("fairway.yaml:6:") && faults.contains("fastest"), "{faults}");
    // The log lines of the reload have the trace id of the report.
    let trace = report["trace"].as_str().expect("it has one");
    let traced = |msg: &str| traces(&server.process.output(), msg).contains(&trace.to_owned());
    wait_until("the refusal is logged", LIMIT, || traced("configuration rejected; the previous one stays in use"));
    wait_until("the fault is logged", LIMIT, || traced("configuration error"));
    assert_eq!(traces(&server.process.output(), "serving"), [""]);
    assert_eq!(server.metric("fairway_config_stale", ""), 1.0);
    assert!(server.metric("fairway_reloads_total", "refused") >= 1.0);
    let status = server.command(&["status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("fastest"), "{status:?}");
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&OLD)));
    server.write_config(&answering(&NEW));
    server.process.signal("HUP");
    wait_answer(server.dns, NAME, &NEW, LIMIT);
    wait_until("the mark is gone", LIMIT, || server.metric("fairway_config_stale", "") == 0.0);
    load.wait_for(50);
    load.stop().expect_whole(50);
}

/// Writes one version of a ConfigMap as the kubelet does: swaps it in by renaming a link.
fn swap(folder: &Path, version: &str, text: &str) {
    fs::create_dir(folder.join(version)).expect("the version is new");
    fs::write(folder.join(version).join("fairway.yaml"), text).expect("the folder can be written");
    symlink(version, folder.join("..data_tmp")).expect("the link is free");
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("both lie in one folder");
}

#[test]
fn swapped_config_map_is_reloaded() {
    let folder = TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let path = folder.path().to_owned();
    swap(&path, "..2030_01", &(head(dns, http) + &answering(&OLD)));
    symlink("..data/fairway.yaml", path.join("fairway.yaml")).expect("the folder is new");
    let server = Fairway::start_in(folder, dns, http);
    let load = load(&server);
    swap(&path, "..2030_02", &(head(dns, http) + &answering(&NEW)));
    fs::remove_dir_all(path.join("..2030_01")).expect("the kubelet removes the old version");
    wait_answer(dns, NAME, &NEW, LIMIT);
    load.stop().expect_whole(1);
}

/// Returns a zone of many names; serial and addresses identify the version.
fn zone(serial: u32, network: &str) -> String {
    let mut text = format!("$TTL 60\n@ SOA ns1.example.net. hostmaster.example.net. {serial} 1d 2h 1000h 1m\n");
    text += "@ NS ns1.example.net.\n";
    for number in 1..=200 {
        text += &format!("host{number} A {network}.{number}\n");
    }
    text
}

#[test]
fn truncated_zone_file_is_rejected_and_the_old_zone_stays() {
    let config = "zones: [{ name: gslb.example, file: gslb.zone }]\n";
    let server = Fairway::start(config, &[("gslb.zone", &zone(1, "192.0.2"))]);
    let next = zone(2, "198.51.100");
    let file = server.folder.path().join("gslb.zone");
    // Truncated inside the SOA, in a name, after a name, after a type, inside an address, and where the rest is still an address.
    for last in [" 2h 10", "\nhos", "\nhost50 ", "host199 A", "host100 A 198.51", "host150 A 198.51.100.15"] {
        let end = next.find(last).expect("it is there") + last.len();
        fs::write(&file, &next[..end]).expect("the folder can be written");
        let reload = server.command(&["reload"]);
        assert_eq!(reload.status.code(), Some(1), "cut after {last:?}: {}", said(&reload));
        for number in [1, 100, 200] {
            let name = format!("host{number}.gslb.example");
            let reply = resolve(server.dns, &name);
            assert!(
                reply.as_ref().is_some_and(|r| r.is(&[&format!("192.0.2.{number}")])),
                "{last:?}: {name}: {reply:?}"
            );
        }
    }
    fs::write(&file, &next).expect("the folder can be written");
    let reload = server.command(&["reload"]);
    assert!(reload.status.success(), "{}", said(&reload));
    wait_answer(server.dns, "host200.gslb.example", &["198.51.100.200"], LIMIT);
}

/// A reload does not read zone files that did not change. Steered names above them still change, and errors above them still have
/// their location.
#[test]
fn steered_names_change_without_reading_the_zone_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let path = folder.path().to_owned();
    let config = |pool: &str, name: &str| {
        let zones = "zones: [{ name: gslb.example, file: gslb.zone }]\n";
        let clusters = "clusters: [{ name: one, addresses: [203.0.113.1] }, { name: two, addresses: [203.0.113.2] }]\n";
        let pools = ["one", "two"].map(|cluster| {
            format!("{{ name: {cluster}, policy: failover, monitor: up, members: [{{ cluster: {cluster} }}] }}")
        });
        let rest = format!("monitors: [{{ name: up, type: always }}]\npools: [{}]\n", pools.join(", "));
        zones.to_owned() + clusters + &rest + &format!("names: [{{ name: \"{name}.gslb.example\", pool: {pool} }}]\n")
    };
    fs::write(path.join("gslb.zone"), zone(1, "192.0.2")).expect("the folder is new");
    fs::write(path.join("fairway.yaml"), head(dns, http) + &config("one", "shop")).expect("the folder is new");
    let age = || {
        let changed = fs::metadata(path.join("gslb.zone")).expect("it was written").modified();
        changed.expect("Linux tells").elapsed().unwrap_or_default()
    };
    wait_until("the zone file is old enough", LIMIT, || age() > Duration::from_secs(4));
    let server = Fairway::start_in(folder, dns, http);
    wait_answer(dns, "shop.gslb.example", &["203.0.113.1"], LIMIT);
    for (pool, name, address) in
        [("two", "shop", "203.0.113.2"), ("one", "new", "203.0.113.1"), ("two", "*", "203.0.113.2")]
    {
        server.write_config(&config(pool, name));
        assert!(server.command(&["reload"]).status.success());
        let asked = name.replace('*', "any");
        wait_answer(dns, &format!("{asked}.gslb.example"), &[address], LIMIT);
        wait_answer(dns, "host200.gslb.example", &["192.0.2.200"], LIMIT);
    }
    server.write_config(&config("one", "host7"));
    let refused = server.command(&["reload"]);
    assert!(said(&refused).contains("gslb.zone:10:1"), "{}", said(&refused));
    wait_answer(dns, "any.gslb.example", &["203.0.113.2"], LIMIT);
    wait_answer(dns, "host7.gslb.example", &["192.0.2.7"], LIMIT);
    // A change of the file is still detected.
    fs::write(path.join("gslb.zone"), zone(2, "198.51.100")).expect("the folder can be written");
    server.write_config(&config("one", "shop"));
    assert!(server.command(&["reload"]).status.success());
    wait_answer(dns, "host200.gslb.example", &["198.51.100.200"], LIMIT);
}

/// Returns two gateways in order, and `others` before them, so that every reload renumbers the targets.
fn beside(others: &[&str], port: u16) -> String {
    let all: Vec<_> = others.iter().copied().chain(["127.0.0.2", "127.0.0.3"]).collect();
    let cluster = |address: &&str| format!("{{ name: \"c{address}\", addresses: [{address}] }}");
    let pool = |name: &str, members: &[&str]| {
        let members: Vec<_> = members.iter().map(|address| format!("{{ cluster: \"c{address}\" }}")).collect();
        format!("  - {{ name: {name}, policy: failover, monitor: gateway, members: [{}] }}\n", members.join(", "))
    };
    let pools: String = others.iter().map(|address| pool(&format!("a{address}"), &[address])).collect();
    let names: String = others
        .iter()
        .map(|address| format!("  - {{ name: \"{address}.gslb.example\", pool: \"a{address}\" }}\n"))
        .collect();
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters: [{}]
monitors: [{{ name: gateway, type: http, port: {port}, period: 200ms, timeout: 200ms, rise: 1, fall: 2 }}]
pools:
{pools}{}names:
{names}  - {{ name: {NAME}, pool: shop }}
",
        all.iter().map(cluster).collect::<Vec<_>>().join(", "),
        pool("shop", &all[others.len()..]),
    )
}

#[test]
fn gateway_failure_during_reloads_is_one_transition_and_no_answer_is_wrong() {
    let port = free_port();
    let mut first = Some(Gateway::healthy("127.0.0.2", port));
    let second = Gateway::healthy("127.0.0.3", port);
    let server = Fairway::start(&beside(&[], port), &[]);
    wait_answer(server.dns, NAME, &["127.0.0.2"], LIMIT);
    let load = Load::start(server.dns, 8, NAME, |reply| reply.is(&["127.0.0.2"]) || reply.is(&["127.0.0.3"]));
    // Nobody listens at the others: their health status appears and disappears with them.
    let mut versions = [&["127.0.0.4"][..], &[], &["127.0.0.5", "127.0.0.4"], &["127.0.0.5"]].into_iter().cycle();
    let mut reload = || {
        let others = versions.next().expect("it goes round");
        server.write_config(&beside(others, port));
        let reload = server.command(&["reload"]);
        assert!(reload.status.success(), "{}", said(&reload));
    };
    let answer = || resolve(server.dns, NAME).expect("it answers");
    for turn in 0..5 {
        reload();
        assert!(answer().is(&["127.0.0.2"]), "before it dies, in turn {turn}: {:?}", answer());
    }
    drop(first.take());
    let end = Instant::now() + LIMIT;
    while !answer().is(&["127.0.0.3"]) {
        assert!(Instant::now() < end, "its death is not seen");
        reload();
    }
    // It stays down across all reloads.
    for turn in 0..5 {
        reload();
        assert!(answer().is(&["127.0.0.3"]), "after it died, in turn {turn}: {:?}", answer());
    }
    let first = Gateway::healthy("127.0.0.2", port);
    let end = Instant::now() + LIMIT;
    while !answer().is(&["127.0.0.2"]) {
        assert!(Instant::now() < end, "its return is not seen");
        reload();
    }
    load.wait_for(50);
    load.stop().expect_whole(100);
    let state = state(server.http);
    let mut targets = state["targets"].as_array().expect("targets are a list").iter();
    let target = targets.find(|target| target["address"] == "127.0.0.2").expect("it is checked");
    let history: Vec<_> = target["history"].as_array().expect("a list").iter().map(|entry| &entry["to"]).collect();
    assert_eq!(history, ["up", "down", "up"], "each change once, and none by a reload: {target:#}");
    drop((first, second));
}
