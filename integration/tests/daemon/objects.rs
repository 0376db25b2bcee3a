//! What was declared by command outlasts a kill and a replacement, and nobody is answered without it.

use fairway_integration::{
    load::{Load, resolve},
    real::{Fairway, http_get, wait_until},
};

use super::{LIMIT, NAME, said, serve_again};

/// A zone alone: everything else is declared to the server.
const ZONE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\n";

/// Declares [`NAME`] with this address; in the answers when the command ends.
fn declare(server: &Fairway, address: &str) {
    let file = server.folder.path().join("objects.yaml");
    let text = format!(
        "clusters: [{{ name: eu1, addresses: [{address}] }}]
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}] }}]
names: [{{ name: {NAME}, pool: shop }}]
"
    );
    std::fs::write(&file, text).expect("the folder can be written");
    let file = file.to_str().expect("a path in UTF-8");
    let applied = server.command(&["apply", "-f", file, "--reason", "a test"]);
    assert!(applied.status.success() && said(&applied).contains("it is in the answers"), "{}", said(&applied));
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_at_once() {
    let mut server = Fairway::start(ZONE, &[]);
    for (round, address) in ["192.0.2.1", "192.0.2.2", "192.0.2.3"].into_iter().enumerate() {
        declare(&server, address);
        server.process.signal("KILL");
        server.process.ended(LIMIT);
        server.process = serve_again(&server, &format!("log-{round}"));
        server.wait_ready();
        let reply = resolve(server.dns, NAME).expect("it answers");
        assert!(reply.is(&[address]), "after kill {round}: {reply:?}");
    }
    let listed = said(&server.command(&["get", "pools"]));
    assert!(listed.contains("shop") && listed.contains("a test") && listed.contains("served"), "{listed}");
    let deleted = server.command(&["delete", "names", NAME]);
    assert!(deleted.status.success(), "{}", said(&deleted));
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.rcode == 3));
}

#[test]
fn a_replacement_answers_no_query_without_what_was_declared() {
    let mut server = Fairway::start(ZONE, &[]);
    declare(&server, "192.0.2.1");
    let load = Load::start(server.dns, 32, NAME, |reply| reply.is(&["192.0.2.1"]));
    load.wait_for(200);
    let mut next = server.start_beside(&["--replace"]);
    let pid = u64::from(next.pid());
    wait_until("the new process serves", LIMIT, || {
        assert!(next.is_running(), "the new process ended: {}", next.output());
        http_get(server.http, "/version").is_some_and(|(_, body)| body.contains(&format!(":{pid}")))
    });
    assert!(server.process.ended(LIMIT).success(), "{}", server.process.output());
    load.wait_for(200);
    load.stop().expect_whole(400);
    server.process = next;
    wait_until("the new process has the store", LIMIT, || {
        let file = server.folder.path().join("objects.yaml");
        server.command(&["apply", "-f", file.to_str().expect("a path in UTF-8")]).status.success()
    });
    declare(&server, "192.0.2.2");
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.2"])));
}
