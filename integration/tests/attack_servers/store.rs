//! A hostile etcd as the store: no answer of it takes declared objects away, fills the memory or keeps the store from recovering.

use fairway_integration::{
    load::wait_answer,
    real::{Fairway, http_json, wait_until},
};
use serde_json::json;

use crate::{
    ADDRESS, BYSTANDER, LIMIT, MEBIBYTE, bystander,
    etcd::{Attack, FakeEtcd},
    expect_answers, get, logged, peak,
};

/// A declared name.
const DECLARED: &str = "www.gslb.example";
/// The largest message is 8 MiB, and 224 MiB decoded (`MESSAGE_MAX` of crates/etcd); the copy that a vector makes while it grows is half of
/// that again, or the whole where the block moves. A debug build of the server itself has some 60 MiB.
const PEAK_MAX: u64 = 640 * MEBIBYTE;
/// Attacks, and a part of the error of each.
const ATTACKS: [(Attack, &str); 9] = [
    (Attack::Flood, "sent a response over 8 MiB"),
    (Attack::EmptyKeys, "the head key in etcd has the value"),
    (Attack::Backwards, "the records in etcd end before revision 1"),
    (Attack::ForeignRow("volcano/x"), "volcano"),
    (Attack::ForeignRow("cluster/a/b/c"), "cluster"),
    (Attack::DamagedRow, "the row of cluster/x"),
    (Attack::ForeignKey, "not a key of Fairway"),
    (Attack::EndlessPages, "keys that were not asked for, or not in their order"),
    (Attack::EndlessChunks, "missing or too long"),
];

fn declare(server: &Fairway, path: &str, body: &serde_json::Value) -> u16 {
    http_json(server.http, "PUT", path, &body.to_string()).expect("an answer").0
}

#[test]
fn hostile_etcd_is_one_error_each_and_answers_go_on() {
    let etcd = FakeEtcd::start();
    let store = format!("store: {{ etcd: {{ endpoints: [\"http://{}\"], timeout: 5s }} }}\n", etcd.at);
    let server = Fairway::start(&(bystander() + &store), &[]);
    let name = json!({ "name": DECLARED, "pool": "site" });
    assert_eq!(declare(&server, &format!("/v1/names/{DECLARED}"), &name), 201);
    wait_answer(server.dns, DECLARED, &[ADDRESS], LIMIT);
    for (number, (attack, part)) in ATTACKS.into_iter().enumerate() {
        etcd.set(Some(attack));
        let error = || get(&server, "/v1/state")["store"]["error"].as_str().unwrap_or_default().to_owned();
        wait_until(&format!("{attack:?}: {part}"), LIMIT, || {
            expect_answers(&server, &[BYSTANDER, DECLARED]);
            error().contains(part)
        });
        // The error comes back at each poll, and is logged once.
        let reads = etcd.reads();
        wait_until("it is read again", LIMIT, || etcd.reads() > reads + 4);
        assert_eq!(logged(&server, "etcd store unavailable"), number + 1, "{attack:?}: {}", server.process.output());
        expect_answers(&server, &[BYSTANDER, DECLARED]);
        println!("{attack:?}: {}; peak {} MiB", error(), peak(&server) / MEBIBYTE);
        etcd.set(None);
        wait_until("the store recovers", LIMIT, || get(&server, "/v1/state")["store"]["error"].is_null());
        let cluster = json!({ "name": format!("n{number}"), "addresses": [ADDRESS] });
        assert_eq!(declare(&server, &format!("/v1/clusters/n{number}"), &cluster), 201, "{attack:?}");
    }
    let peak = peak(&server);
    assert!(peak < PEAK_MAX, "{} MiB", peak / MEBIBYTE);
    assert!(server.process.output().lines().count() < 100, "{}", server.process.output());
}
