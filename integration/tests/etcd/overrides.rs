//! Overrides of several servers on one etcd: added on one, in force on all, and kept in the store.

use fairway_integration::{
    load::wait_answer,
    real::{Fairway, Process, http_get, serve, wait_until},
};
use serde_json::Value;

use super::{Etcd, LIMIT, NAME, apply, done, said};

const EU1: &[&str] = &["192.0.2.1"];
const US1: &[&str] = &["192.0.2.2"];

/// Two clusters that are always healthy, and a name that prefers the first one.
fn declared() -> String {
    format!(
        "clusters: [{{ name: eu1, addresses: [192.0.2.1] }}, {{ name: us1, addresses: [192.0.2.2] }}]
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}, {{ cluster: us1 }}] }}]
names: [{{ name: {NAME}, pool: shop }}]
"
    )
}

/// Returns the overrides that a server lists.
fn overrides(server: &Fairway) -> Vec<Value> {
    let (_, body) = http_get(server.http, "/v1/overrides").expect("the server answers");
    let list: Value = serde_json::from_str(&body).expect("it is JSON");
    list["items"].as_array().expect("a list").clone()
}

/// Runs `override add`; returns true if it succeeded, and what it printed.
fn add(server: &Fairway, scope: &str, action: &str, more: &[&str]) -> (bool, String) {
    let command = ["override", "add", scope, action, "--reason", "a test", "--for", "1h"];
    let output = server.command(&[&command, more].concat());
    (output.status.success(), said(&output))
}

#[test]
fn override_of_one_server_is_in_force_on_all_and_survives() {
    let mut etcd = Etcd::start();
    let mut servers = [(); 2].map(|()| Fairway::start(&etcd.config(), &[]));
    done(&apply(&servers[0], &declared()));
    servers.iter().for_each(|server| wait_answer(server.dns, NAME, EU1, LIMIT));

    let (is_added, text) = add(&servers[0], "eu1", "drain", &[]);
    assert!(is_added && text.contains("on all servers"), "{text}");
    servers.iter().for_each(|server| wait_answer(server.dns, NAME, US1, LIMIT));
    let [listed] = &overrides(&servers[1])[..] else { panic!("one override") };
    assert_eq!((&listed["source"], &listed["createdFrom"]), (&"store".into(), &"control socket".into()));
    // Another server checks its own overrides against this one.
    let (is_added, text) = add(&servers[1], "us1", "down", &[]);
    assert!(!is_added && text.contains("409") && text.contains(NAME), "{text}");

    // A server that starts later, and one that was killed.
    let later = Fairway::start(&etcd.config(), &[]);
    wait_answer(later.dns, NAME, US1, LIMIT);
    servers[1].process.signal("KILL");
    servers[1].process.ended(LIMIT);
    etcd.kill();
    servers[1].process = Process::start(&mut serve(servers[1].folder.path()), &servers[1].folder.path().join("again"));
    servers[1].wait_ready();
    wait_answer(servers[1].dns, NAME, US1, LIMIT);

    // Without etcd, only an override of one server can be added.
    let (is_added, text) = add(&servers[1], "us1", "up", &[]);
    assert!(!is_added && text.contains("503") && text.contains("--local"), "{text}");
    let (is_added, text) = add(&servers[1], "us1", "up", &["--local"]);
    assert!(is_added && !text.contains("on all servers"), "{text}");
    assert_eq!((overrides(&servers[1]).len(), overrides(&later).len()), (2, 1));

    etcd.again();
    let id = listed["id"].as_str().expect("an id");
    wait_until("it is removed once etcd is back", LIMIT, || {
        later.command(&["override", "remove", id]).status.success()
    });
    servers.iter().chain([&later]).for_each(|server| wait_answer(server.dns, NAME, EU1, LIMIT));
}

#[test]
fn servers_that_add_overrides_at_the_same_time_lose_none() {
    let etcd = Etcd::start();
    let servers = [(); 2].map(|()| Fairway::start(&etcd.config(), &[]));
    done(&apply(&servers[0], &declared()));
    servers.iter().for_each(|server| wait_answer(server.dns, NAME, EU1, LIMIT));
    std::thread::scope(|scope| {
        for server in &servers {
            scope.spawn(move || (0..5).for_each(|_| assert!(add(server, "eu1", "up", &[]).0)));
        }
    });
    for server in &servers {
        wait_until("all are listed", LIMIT, || overrides(server).len() == 10);
    }
}
