//! Commands beside a running server, and their exit status.

use std::{fs, time::Duration};

use fairway_integration::{
    load::{Load, resolve, wait_answer},
    real::Fairway,
};

use super::{LIMIT, NAME, answering, failing_over, run, said, state};

#[test]
fn check_tells_sound_faulty_and_misused_by_its_exit_status() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("fairway.yaml");
    let path = file.to_str().expect("it is UTF-8");
    let good = format!("version: 1\n{}", answering(&["192.0.2.1"]));
    fs::write(&file, &good).expect("the folder can be written");
    let checked = run(&["check", path]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    // Two faults, and both are told.
    fs::write(&file, good.replace("failover", "fastest").replace("192.0.2.1", "192.0.2.256")).expect("as before");
    let checked = run(&["check", path]);
    assert_eq!(checked.status.code(), Some(1));
    let text = said(&checked);
    assert!(text.contains("fastest") && text.contains("192.0.2.256"), "{text}");
    // All weights 0 is a warning: an error only for those who want it.
    let zero = good.replace("{ cluster: eu1 }", "{ cluster: eu1, weight: 0 }");
    fs::write(&file, zero).expect("as before");
    let checked = run(&["check", path]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    assert!(said(&checked).contains("warning"), "{}", said(&checked));
    assert_eq!(run(&["check", "--strict", path]).status.code(), Some(1));
    assert_eq!(run(&["check", "--no-such-flag", path]).status.code(), Some(2));
    let missing = run(&["check", "/does/not/exist.yaml"]);
    assert_eq!(missing.status.code(), Some(1), "{}", said(&missing));
}

#[test]
fn an_override_drains_a_cluster_at_once_and_ends_by_itself() {
    let config = failing_over(&[("eu1", "192.0.2.1"), ("us1", "192.0.2.2")], "type: always");
    let server = Fairway::start(&config, &[]);
    let load = Load::start(server.dns, 4, NAME, |reply| reply.is(&["192.0.2.1"]) || reply.is(&["192.0.2.2"]));
    wait_answer(server.dns, NAME, &["192.0.2.1"], LIMIT);
    let added = server.command(&["override", "add", "eu1", "drain", "--reason", "kernel update", "--for", "10s"]);
    assert!(added.status.success(), "{}", said(&added));
    // In force when the command says so: the very next answer shows it.
    let reply = resolve(server.dns, NAME);
    assert!(reply.as_ref().is_some_and(|reply| reply.is(&["192.0.2.2"])), "{reply:?}");
    assert_eq!(state(server.http)["overrides"][0]["reason"], "kernel update");
    let listed = server.command(&["override", "list"]);
    assert!(said(&listed).contains("kernel update"), "{}", said(&listed));
    wait_answer(server.dns, NAME, &["192.0.2.1"], Duration::from_secs(10) + LIMIT);
    assert_eq!(state(server.http)["overrides"].as_array().map(Vec::len), Some(0));
    load.wait_for(50);
    load.stop().expect_whole(50);
}

#[test]
fn an_override_without_reason_or_end_is_refused() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let bare = server.command(&["override", "add", "eu1", "drain"]);
    assert_eq!(bare.status.code(), Some(2), "{}", said(&bare));
    let endless = server.command(&["override", "add", "eu1", "drain", "--reason", "x", "--for", "31d"]);
    assert!(!endless.status.success());
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
}
