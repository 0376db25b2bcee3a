//! The server restricts itself to the files that its configuration needs, and reloads go on working.
//!
//! Needs a kernel with Landlock (Linux 5.13); fails on another one.

use std::{fs, net::SocketAddr, os::unix::fs::symlink, path::Path};

use fairway_integration::{
    load::wait_answer,
    real::{Fairway, free_port, head, wait_until},
};
use fairway_transport::FileAccess;
use tempfile::TempDir;

use super::{LIMIT, NAME, answering, said, serve_again, state};

const OLD: [&str; 1] = ["192.0.2.1"];
const NEW: [&str; 1] = ["198.51.100.1"];
const ZONE: &str = "@ 60 SOA ns1 h 1 2 3 4 5\n@ 60 NS ns1\nns1 60 A 192.0.2.9\n";

fn assert_kernel_has_landlock() {
    let own = std::thread::spawn(|| FileAccess::default().restrict_thread()).join().expect("it does not panic");
    own.expect("NOT TESTED: this test needs Landlock (cat /sys/kernel/security/lsm)");
}

/// Returns the line of a server's log that reports its restriction.
fn restriction(server: &Fairway) -> serde_json::Value {
    let log = server.process.output();
    let line = log.lines().find(|line| line.contains("process restricted to its files"));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no restriction: {log}"))).expect("JSON")
}

/// Returns a configuration with a zone in `file`.
fn with_zone(file: &Path) -> String {
    answering(&NEW).replace("zones: [", &format!("zones: [{{ name: x.example, file: {} }}, ", file.display()))
}

#[test]
fn server_reads_and_writes_its_own_folders_only() {
    assert_kernel_has_landlock();
    let server = Fairway::start(&answering(&OLD), &[]);
    assert_eq!(server.metric("fairway_protection_active", "protection=\"landlock\""), 1.0);
    let (line, folder) = (restriction(&server), fs::canonicalize(server.folder.path()).expect("it is there"));
    assert_eq!(line["write"], folder.join("data").display().to_string().as_str(), "{line}");
    let read = line["read"].as_str().expect("a list").split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(read.contains(&folder.display().to_string()) && !read.iter().any(|path| path == "/"), "{line}");

    // A reload that names files elsewhere is rejected, although root may do everything.
    let other = TempDir::new().expect("a temporary folder");
    let zone = other.path().join("x.zone");
    fs::write(&zone, ZONE).expect("the folder is ours");
    let reading = with_zone(&zone);
    let writing =
        answering(&NEW) + &format!("queryLog: {{ sample: 1/1, file: {} }}\n", other.path().join("q").display());
    let folder = other.path().display();
    for (config, error) in [
        (&reading, format!("{} is outside of the folders that this process may read (Landlock)", zone.display())),
        (&writing, format!("the folder {folder} is outside of those that this process may write (Landlock)")),
    ] {
        server.write_config(config);
        let refused = server.command(&["reload"]);
        assert!(!refused.status.success() && said(&refused).contains(&error), "{error}: {}", said(&refused));
        assert!(said(&refused).contains("restart fairway with this configuration"), "{}", said(&refused));
    }
    wait_answer(server.dns, NAME, &OLD, LIMIT);
    // The rules follow from the configuration, so a restart allows what it names.
    let mut server = server;
    server.process.signal("TERM");
    assert!(server.process.ended(LIMIT).success());
    server.process = serve_again(&server, "again.log");
    wait_answer(server.dns, NAME, &NEW, LIMIT);
    wait_until("the query log", LIMIT, || {
        wait_answer(server.dns, NAME, &NEW, LIMIT);
        fs::metadata(other.path().join("q")).is_ok_and(|log| log.len() > 0)
    });
}

#[test]
fn listed_folders_are_allowed_and_enabled_false_restricts_nothing() {
    assert_kernel_has_landlock();
    let other = TempDir::new().expect("a temporary folder");
    let zone = other.path().join("x.zone");
    fs::write(&zone, ZONE).expect("the folder is ours");
    let folder = other.path().display();
    for (landlock, active) in [
        (format!("landlock: {{ read: [{folder}], write: [{folder}] }}\n"), 1.0),
        ("landlock: { enabled: false }\n".to_owned(), 0.0),
    ] {
        let server = Fairway::start(&(answering(&OLD) + &landlock), &[]);
        assert_eq!(server.metric("fairway_protection_active", "protection=\"landlock\""), active);
        let query_log = format!("queryLog: {{ sample: 1/1, file: {folder}/q{active} }}\n");
        server.write_config(&(with_zone(&zone) + &landlock + &query_log));
        wait_answer(server.dns, NAME, &NEW, LIMIT);
        wait_answer(server.dns, "ns1.x.example", &["192.0.2.9"], LIMIT);
        wait_until("the query log", LIMIT, || {
            wait_answer(server.dns, NAME, &NEW, LIMIT);
            fs::metadata(other.path().join(format!("q{active}"))).is_ok_and(|log| log.len() > 0)
        });
    }
}

/// Writes a version of a configuration as the kubelet does for a ConfigMap: `..data` leads to a new folder.
fn mount(folder: &Path, version: &str, config: &str) {
    let at = |name: &str| folder.join(name);
    fs::create_dir(at(version)).expect("the folder is ours");
    fs::write(at(version).join("fairway.yaml"), config).expect("the folder is ours");
    symlink(version, at("..next")).and_then(|()| fs::rename(at("..next"), at("..data"))).expect("the folder is ours");
}

#[test]
fn swapped_folder_of_a_config_map_is_reloaded() {
    assert_kernel_has_landlock();
    let folder = TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let config = |addresses: &[&str]| head(dns, http) + &answering(addresses);
    mount(folder.path(), "..1", &config(&OLD));
    symlink("..data/fairway.yaml", folder.path().join("fairway.yaml")).expect("the folder is ours");
    let server = Fairway::start_in(folder, dns, http);
    restriction(&server);
    mount(server.folder.path(), "..2", &config(&NEW));
    fs::remove_dir_all(server.folder.path().join("..1")).expect("it is ours");
    wait_answer(server.dns, NAME, &NEW, LIMIT);
    assert_eq!(state(server.http)["config"]["number"], 2);
}
