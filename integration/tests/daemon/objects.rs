//! Objects declared by command survive a kill and a replacement, and no query is answered without them.

use fairway_integration::{
    load::{Load, resolve},
    real::{Fairway, http_get, wait_until},
};

use super::{LIMIT, NAME, said, serve_again, watch::Watcher};

/// A zone only: everything else is declared over the API.
const ZONE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\n";

/// Declares [`NAME`] with this address. The answers have it when the command returns.
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
    assert!(applied.status.success() && said(&applied).contains("the change is in the answers"), "{}", said(&applied));
}

#[test]
fn acknowledged_write_survives_an_immediate_kill() {
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

/// A server without its objects would deny names, so it does not start, and a replacement leaves the running server alone.
#[test]
fn encrypted_objects_need_their_key_at_a_start_and_at_a_replacement() {
    let [right, wrong] = ["a", "b"].map(|digit| digit.repeat(64));
    let config = format!("{ZONE}store: {{ keys: {{ file: keys }} }}\n");
    let mut server = Fairway::start(&config, &[("keys", &right)]);
    assert_eq!(server.metric("fairway_protection_active", "storeEncryption"), 1.0);
    declare(&server, "192.0.2.1");
    let set = |keys: &str| std::fs::write(server.folder.path().join("keys"), keys).expect("the folder can be written");
    set(&wrong);
    let mut next = server.start_beside(&["--replace"]);
    assert!(!next.ended(LIMIT).success());
    let refused = "the store cannot be decrypted: its values are encrypted with the key of id";
    assert!(next.output().contains(refused), "{}", next.output());
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
    declare(&server, "192.0.2.2");
    server.process.signal("KILL");
    server.process.ended(LIMIT);
    let mut refusing = serve_again(&server, "log-refused");
    assert!(!refusing.ended(LIMIT).success());
    assert!(refusing.output().contains(refused), "{}", refusing.output());
    set(&format!("{wrong}\n{right}\n"));
    server.process = serve_again(&server, "log-rotated");
    server.wait_ready();
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.2"])));
    let store = std::fs::read(server.folder.path().join("data/objects.redb")).expect("it is there");
    assert!(!store.windows(9).any(|part| part == b"192.0.2.2"));
}

#[test]
fn declared_record_is_served_until_deleted_and_invalid_one_is_rejected() {
    let server = Fairway::start(ZONE, &[]);
    declare(&server, "192.0.2.1");
    let file = server.folder.path().join("records.yaml");
    let apply = |text: &str| {
        std::fs::write(&file, format!("{text}\n")).expect("the folder can be written");
        server.command(&["apply", "-f", file.to_str().expect("a path in UTF-8")])
    };
    let applied =
        apply("records: [{ name: static.gslb.example, sets: [{ type: A, data: [192.0.2.80, 192.0.2.81] }] }]");
    assert!(applied.status.success(), "{}", said(&applied));
    let reply = resolve(server.dns, "static.gslb.example").expect("it answers");
    assert!(reply.is(&["192.0.2.80", "192.0.2.81"]), "{reply:?}");

    let refused = apply(&format!("records: [{{ name: {NAME}, sets: [{{ type: A, data: [192.0.2.9] }}] }}]"));
    assert!(!refused.status.success() && said(&refused).contains("pool shop answers this name"), "{}", said(&refused));
    let taken = server.command(&["delete", "records", "static.gslb.example"]);
    assert!(taken.status.success(), "{}", said(&taken));
    assert!(resolve(server.dns, "static.gslb.example").is_some_and(|reply| reply.rcode == 3));
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
}

#[test]
fn object_that_closes_a_cname_loop_is_rejected() {
    let server = Fairway::start(ZONE, &[]);
    declare(&server, "192.0.2.1");
    let file = server.folder.path().join("loop.yaml");
    let apply = |text: &str| {
        std::fs::write(&file, format!("{text}\n")).expect("the folder can be written");
        server.command(&["apply", "-f", file.to_str().expect("a path in UTF-8")])
    };
    let pool = |down: &str| {
        format!(
            "pools: [{{ name: shop, policy: failover, monitor: unchecked, down: {{ fallback: {down} }}, members: [{{ cluster: eu1 }}] }}]"
        )
    };
    let own = apply(&pool(NAME));
    assert!(!own.status.success() && said(&own).contains("leads back to its own name"), "{}", said(&own));
    assert!(apply(&pool("sorry.gslb.example")).status.success());
    let closing =
        apply(&format!("records: [{{ name: sorry.gslb.example, sets: [{{ type: CNAME, data: [{NAME}.] }}] }}]"));
    assert!(!closing.status.success() && said(&closing).contains("leads back to its own name"), "{}", said(&closing));
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
}

#[test]
fn watcher_gets_each_served_change_and_resumes() {
    let server = Fairway::start(ZONE, &[]);
    declare(&server, "192.0.2.1");
    let listed = http_get(server.http, "/v1/pools").expect("an answer").1;
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let mut clusters = Watcher::at(server.http, "/v1/clusters?watch=true", "");
    assert_eq!(clusters.status(), "200 OK");
    let since = format!("/v1/pools?watch=true&revision={}", listed["revision"]);
    let mut pools = Watcher::at(server.http, &since, "");
    assert_eq!(pools.status(), "200 OK");

    declare(&server, "192.0.2.2");
    let (id, cluster) = clusters.event("changed");
    assert_eq!(cluster["addresses"][0], "192.0.2.2");
    assert_eq!(
        (&cluster["metadata"]["reason"], cluster["metadata"]["revision"].to_string()),
        (&"a test".into(), id.clone())
    );
    assert_eq!(cluster["status"]["conditions"][2]["status"], "True", "the condition Served is True: {cluster}");

    let named = server.command(&["delete", "names", NAME]);
    assert!(named.status.success(), "{}", said(&named));
    let deleted = server.command(&["delete", "pools", "shop"]);
    assert!(deleted.status.success(), "{}", said(&deleted));
    // A change of the cluster is no change of a pool.
    let (last, gone) = pools.event("deleted");
    assert_eq!((&gone["name"], gone["revision"].to_string()), (&"shop".into(), last.clone()));

    let mut again = Watcher::at(server.http, "/v1/pools?watch=true", &format!("Last-Event-ID: {id}\r\n"));
    assert_eq!(again.event("deleted"), (last, gone));
    let mut future = Watcher::at(server.http, "/v1/pools?watch=true&revision=4000000000", "");
    assert_eq!(future.status(), "200 OK");
    assert!(future.event("reset").1["revision"].as_u64().is_some_and(|revision| revision < 100));
    for (path, headers) in [("?watch=perhaps", ""), ("?watch=true", "Last-Event-ID: soon\r\n")] {
        let refused = Watcher::at(server.http, &format!("/v1/pools{path}"), headers).status();
        assert!(refused.starts_with("400"), "{path} {headers}: {refused}");
    }
}

#[test]
fn replacement_answers_declared_names_from_its_first_query() {
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
