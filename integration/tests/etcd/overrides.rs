//! Overrides of several servers on one etcd: added on one, in force on all, and kept in the store.

use fairway_integration::{
    load::{connect, receive, resolve, wait_answer},
    message::Message,
    query::{Opt, Query},
    real::{Fairway, Process, http_get, serve, wait_until},
};
use fairway_model::Rtype;
use serde_json::Value;

use super::{
    Etcd, LIMIT, NAME, apply,
    balance::{BALANCED, STEPS, lead, push},
    done, said, state,
};

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

/// Returns how many of 256 client networks get the second cluster of [`BALANCED`] from a server.
fn networks_at_us1(server: &Fairway) -> usize {
    let socket = connect(server.dns);
    let is_us1 = |client: &u8| {
        let edns = Some(Opt { options: vec![(8, vec![0, 1, 24, 0, 198, 18, *client])], ..Opt::default() });
        let id = u16::from(*client);
        let packet = Query { id, edns, ..Query::new(NAME.parse().expect("a name"), Rtype::A) }.encode();
        socket.send(&packet).expect("the server listens");
        let answer = receive(&socket, id).expect("an answer");
        let message = Message::decode(&answer).expect("a valid answer");
        format!("{:?}", message.sections[0]).contains("192.0.2.2")
    };
    (0..=u8::MAX).filter(is_us1).count()
}

#[test]
fn load_off_of_one_server_pins_the_pool_on_all() {
    let etcd = Etcd::start();
    let servers = [(); 2].map(|()| Fairway::start(&etcd.config(), &[]));
    let members = "members: [{ cluster: eu1, weight: 19 }, { cluster: us1, weight: 1 }]";
    let declared = BALANCED.replace("members: [{ cluster: eu1 }, { cluster: us1 }]", members);
    assert!(declared.contains(members));
    done(&apply(&servers[0], &declared));
    servers.iter().for_each(|server| wait_until("it is served", LIMIT, || resolve(server.dns, NAME).is_some()));
    let mut sequence = 0;
    // The first server leads, and eu1 is over its capacity there: us1 gets more than its declared twentieth on both.
    wait_until("us1 gets a quarter", STEPS, || {
        sequence += 1;
        push(&servers[0], sequence, [150, 10]);
        lead(&servers[1]).0 == "follows" && servers.iter().all(|server| networks_at_us1(server) > 64)
    });
    let pinned = |server: &Fairway| state(server)["pools"][0]["pinned"].clone();
    assert!(pinned(&servers[0]).is_null() && pinned(&servers[1]).is_null());

    // It is added on the server that follows, and holds on the leader, too.
    let command = ["override", "add", "--pools", "shop", "--load", "off", "--reason", "a test", "--for", "1h"];
    let output = servers[1].command(&command);
    assert!(output.status.success() && said(&output).contains("on all servers"), "{}", said(&output));
    for server in &servers {
        wait_until("a twentieth of the networks gets us1", LIMIT, || networks_at_us1(server) < 32);
        assert!(pinned(server).is_object(), "{}", state(server)["pools"]);
    }
    assert_eq!(networks_at_us1(&servers[0]), networks_at_us1(&servers[1]));

    let [listed] = &overrides(&servers[0])[..] else { panic!("one override") };
    done(&servers[0].command(&["override", "remove", listed["id"].as_str().expect("an id")]));
    servers.iter().for_each(|server| wait_until("it is not pinned", LIMIT, || pinned(server).is_null()));
}
