//! A daemon started as root switches to another user permanently, and does all its work as that user.
//!
//! Needs root, which the tests of a container usually have; otherwise it prints so and tests nothing.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
};

use fairway_integration::{
    load::{resolve, wait_answer},
    real::{Fairway, free_port, head, http_get, wait_until},
};
use tempfile::TempDir;

use super::{LIMIT, NAME, answering, said, state};

const USER: &str = "nobody";
const OLD: [&str; 1] = ["192.0.2.1"];
const NEW: [&str; 1] = ["198.51.100.1"];

fn config(addresses: &[&str]) -> String {
    format!("user: {USER}\n{}", answering(addresses))
}

/// Returns a server that root started and that switched to [`USER`]; `None` if this test is not root.
fn started_as_root() -> Option<Fairway> {
    let own = fs::read_to_string("/proc/self/status").expect("this process runs");
    if status(&own, "Uid:")[1] != "0" {
        // Written to standard error, because the test harness hides the output of passing tests.
        let _ = writeln!(io::stderr(), "NOT TESTED: only root can switch users; run this test as root");
        return None;
    }
    let folder = TempDir::new().expect("a temporary folder");
    // The other user must be able to read the configuration again.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    fs::write(folder.path().join("fairway.yaml"), head(dns, http) + &config(&OLD)).expect("the folder can be written");
    Some(Fairway::start_in(folder, dns, http))
}

/// Returns the words of a line of the status of a process or thread.
fn status(text: &str, key: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_else(|| panic!("{key} is missing")).split_whitespace().map(str::to_owned).collect()
}

/// Returns user id and group id of [`USER`].
fn ids() -> [String; 2] {
    let text = fs::read_to_string("/etc/passwd").expect("the list of users");
    let line = text.lines().find(|line| line.starts_with(&format!("{USER}:"))).expect("the user exists");
    let fields: Vec<&str> = line.split(':').collect();
    [fields[2], fields[3]].map(str::to_owned)
}

/// Checks every thread: all of its user ids (real, effective, saved, file system) are that user, with its group only and no
/// capability.
fn assert_unprivileged(pid: u32) {
    let [user, group] = ids();
    let threads: Vec<_> = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten().collect();
    // A thread of the blocking pool may have ended since it was listed.
    let statuses: Vec<_> =
        threads.iter().filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok()).collect();
    assert!(statuses.len() > 2, "a worker, TCP and the main thread at least");
    for thread in &statuses {
        assert_eq!(status(thread, "Uid:"), vec![user.clone(); 4], "{thread}");
        assert_eq!(status(thread, "Gid:"), vec![group.clone(); 4], "{thread}");
        assert_eq!(status(thread, "Groups:"), [group.as_str()], "{thread}");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(status(thread, set), ["0000000000000000"], "{thread} {set}");
        }
    }
}

#[test]
fn server_started_as_root_serves_unprivileged() {
    let Some(server) = started_as_root() else { return };
    assert_unprivileged(server.process.pid());
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&OLD)));
    // The server can write its state, and root can send it commands.
    let added = server.command(&["override", "add", "eu1", "drain", "--reason", "work", "--for", "1h", "--yes"]);
    assert!(added.status.success(), "{}", said(&added));
    let data = server.folder.path().join("data");
    for file in ["", "overrides.json", "control.sock"] {
        let owner = fs::metadata(data.join(file)).expect("it is there").uid().to_string();
        assert_eq!(owner, ids()[0], "{file:?}");
    }
    // A reload of a file that only root can read fails; the old configuration stays in use.
    server.write_config(&config(&NEW));
    wait_until("the new configuration", LIMIT, || state(server.http)["config"]["number"] == 2);
    let file = server.folder.path().join("fairway.yaml");
    fs::write(&file, "extra: nothing").expect("root writes");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("the file is ours");
    let refused = server.command(&["reload"]);
    assert!(!refused.status.success() && said(&refused).contains("fairway.yaml"), "{}", said(&refused));
    assert!(!said(&refused).contains("extra"), "it was read: {}", said(&refused));
    assert_unprivileged(server.process.pid());
}

#[test]
fn root_replaces_a_daemon_that_switched_user() {
    let Some(mut server) = started_as_root() else { return };
    server.write_config(&config(&NEW));
    wait_answer(server.dns, NAME, &NEW, LIMIT);
    let mut next = server.start_beside(&["--replace"]);
    let pid = next.pid();
    wait_until("the new process serves", LIMIT, || {
        assert!(next.is_running(), "the new process ended: {}", next.output());
        http_get(server.http, "/version").is_some_and(|(_, body)| body.contains(&format!(":{pid}")))
    });
    let status = server.process.ended(LIMIT);
    assert!(status.success(), "{status}: {}", server.process.output());
    assert_unprivileged(pid);
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&NEW)));
    server.process = next;
}

#[test]
fn server_gives_up_new_privileges_and_reports_its_protections() {
    let server = Fairway::start(&answering(&OLD), &[]);
    let threads = fs::read_dir(format!("/proc/{}/task", server.process.pid())).expect("it runs").flatten();
    // A thread of the blocking pool may have ended since it was listed.
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let given_up: Vec<_> = statuses.map(|thread| status(&thread, "NoNewPrivs:") == ["1"]).collect();
    assert!(given_up.len() > 2 && !given_up.contains(&false), "{given_up:?}");
    let is_root = fs::metadata(server.folder.path()).expect("it is there").uid() == 0;
    let active = |name: &str| server.metric("fairway_protection_active", &format!("protection=\"{name}\""));
    assert_eq!((active("noNewPrivileges"), active("unprivileged")), (1.0, f64::from(!is_root)));
    assert_eq!(server.process.output().contains("running as root"), is_root);
}

/// Somebody with write permission could have put a socket of their own in place of `handover.sock`.
#[test]
fn replacement_refuses_a_folder_that_others_can_write() {
    let server = Fairway::start(&answering(&OLD), &[]);
    let data = server.folder.path().join("data");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o770)).expect("the folder is ours");
    let handover = data.join("handover.sock");
    fs::remove_file(&handover).expect("it is there");
    let socket = std::os::unix::net::UnixListener::bind(&handover).expect("the path is free");
    socket.set_nonblocking(true).expect("it is a socket");
    let mut next = server.start_beside(&["--replace"]);
    assert!(!next.ended(LIMIT).success());
    let fix = format!("remove that permission: chmod 700 {}", data.display());
    assert!(next.output().contains(&fix), "{}", next.output());
    assert!(socket.accept().is_err(), "the replacement has connected to it");
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&OLD)));
}

#[test]
fn link_in_place_of_the_new_control_socket_is_not_followed() {
    let folder = TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    fs::write(folder.path().join("fairway.yaml"), head(dns, http) + &answering(&OLD))
        .expect("the folder can be written");
    let (data, victim) = (folder.path().join("data"), folder.path().join("victim"));
    fs::create_dir(&data).expect("the folder is ours");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("the folder is ours");
    fs::write(&victim, "untouched").expect("the folder is ours");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).expect("the file is ours");
    for name in ["control.new", "control.sock", "handover.sock"] {
        symlink(&victim, data.join(name)).expect("the folder is ours");
    }
    let server = Fairway::start_in(folder, dns, http);
    let kind = |name: &str| fs::symlink_metadata(data.join(name)).expect("it is there").file_type();
    assert!(kind("control.sock").is_socket() && kind("handover.sock").is_socket());
    let mode = fs::metadata(&victim).expect("it is there").mode() & 0o777;
    assert_eq!((fs::read_to_string(&victim).expect("it is there").as_str(), mode), ("untouched", 0o644));
    assert!(server.command(&["status"]).status.success());
}
