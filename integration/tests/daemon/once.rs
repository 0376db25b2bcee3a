//! Writes repeated with their `Idempotency-Key`: answered as before and executed once, also across a kill.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use fairway_integration::real::{Fairway, http_get};
use serde_json::{Value, json};

use super::{LIMIT, serve_again};

const ZONE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\n";

/// An answer: status, headers, body.
pub(super) type Answer = (u16, String, String);

fn begin(server: SocketAddr, method: &str, path: &str, key: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&server, LIMIT).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket takes a timeout");
    let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: \"{key}\"\r\n") };
    let length = body.len();
    let head = format!("Host: {server}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{key}");
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n{body}").expect("it takes a request");
    stream
}

pub(super) fn ask(server: &Fairway, method: &str, path: &str, key: &str, body: &str) -> Answer {
    let mut text = String::new();
    begin(server.http, method, path, key, body).read_to_string(&mut text).expect("it answers");
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let kept = |line: &&str| line.starts_with("etag") || line.starts_with("location");
    (status, head.lines().filter(kept).collect::<Vec<_>>().join("\n"), body.to_owned())
}

fn cluster(name: &str, address: &str) -> String {
    json!({"name": name, "addresses": [address]}).to_string()
}

fn history(server: &Fairway, path: &str) -> Vec<Value> {
    let (_, body) = http_get(server.http, &format!("{path}/history")).expect("an answer");
    serde_json::from_str(&body).unwrap_or_default()
}

#[test]
fn repeated_write_with_idempotency_key_is_done_once() {
    let server = Fairway::start(ZONE, &[]);
    let (all, one) = ("/v1/clusters?reason=first", "/v1/clusters/eu1");
    let first = ask(&server, "POST", all, "a", &cluster("eu1", "192.0.2.1"));
    assert!(first.0 == 201 && first.1.contains("etag: \"1\"") && first.1.contains(one), "{first:?}");
    assert_eq!(ask(&server, "POST", all, "a", &cluster("eu1", "192.0.2.1")), first);
    assert_eq!(ask(&server, "POST", all, "", &cluster("eu1", "192.0.2.1")).0, 409, "without a key it is another one");
    // Independent of later changes of the object.
    let changed = ask(&server, "PUT", one, "b", &cluster("eu1", "192.0.2.2"));
    assert_eq!(changed.0, 200, "{changed:?}");
    assert_eq!(ask(&server, "POST", all, "a", &cluster("eu1", "192.0.2.1")), first);
    assert_eq!(ask(&server, "PUT", one, "b", &cluster("eu1", "192.0.2.2")), changed);
    // The same body with another key is no change and has its own answer.
    let same = ask(&server, "PUT", one, "c", &cluster("eu1", "192.0.2.2"));
    assert_eq!((same.0, &same.1), (200, &changed.1), "{same:?}");
    assert_eq!(ask(&server, "PUT", one, "c", &cluster("eu1", "192.0.2.2")), same);
    for (method, path, body) in [
        ("POST", all, cluster("eu1", "192.0.2.3")),
        ("POST", "/v1/clusters", cluster("eu1", "192.0.2.1")),
        ("PUT", one, cluster("eu1", "192.0.2.1")),
    ] {
        let refused = ask(&server, method, path, "a", &body);
        assert!(refused.0 == 422 && refused.2.contains("Idempotency-Key"), "{refused:?}");
    }
    assert_eq!(ask(&server, "PUT", one, "a b", &cluster("eu1", "192.0.2.1")).0, 400);
    assert_eq!(history(&server, one).len(), 2);

    let gone = ask(&server, "DELETE", one, "d", "");
    assert_eq!((gone.0, ask(&server, "DELETE", one, "d", ""), ask(&server, "DELETE", one, "", "").0), (204, gone, 404));

    let many = json!({"clusters": [{"name": "us1", "addresses": ["192.0.2.4"]}]}).to_string();
    let dry = ask(&server, "POST", "/v1/apply?dryRun=true", "e", &many);
    assert!(dry.0 == 200 && dry.2.contains("\"dryRun\":true"), "{dry:?}");
    let applied = ask(&server, "POST", "/v1/apply", "e", &many);
    assert!(
        applied.2.contains("\"created\":[\"clusters/us1\"]") && applied.2.contains("\"served\":true"),
        "{applied:?}"
    );
    assert_eq!(ask(&server, "DELETE", "/v1/clusters/us1", "", "").0, 204);
    assert_eq!(ask(&server, "POST", "/v1/apply", "e", &many), applied);
    assert_eq!(history(&server, "/v1/clusters/us1").len(), 2, "it was not declared again");
}

#[test]
fn write_unanswered_by_a_kill_is_answered_on_retry() {
    let mut server = Fairway::start(ZONE, &[]);
    for round in 0..6 {
        let (name, key) = (format!("c{round}"), format!("key-{round}"));
        let body = cluster(&name, "192.0.2.1");
        let unread = begin(server.http, "POST", "/v1/clusters", &key, &body);
        // The kill may come before, during or after the write.
        std::thread::park_timeout(Duration::from_millis(round * 8));
        server.process.signal("KILL");
        server.process.ended(LIMIT);
        drop(unread);
        server.process = serve_again(&server, &format!("log-{round}"));
        server.wait_ready();
        let answer = ask(&server, "POST", "/v1/clusters", &key, &body);
        assert_eq!(answer.0, 201, "{round}: {answer:?}");
        assert_eq!(ask(&server, "POST", "/v1/clusters", &key, &body), answer);
        assert_eq!(history(&server, &format!("/v1/clusters/{name}")).len(), 1, "{round}");
    }
}

#[test]
fn repeated_override_exists_once_also_after_a_kill() {
    let mut server = Fairway::start(&super::answering(&["192.0.2.1"]), &[]);
    let body = |action: &str| json!({"scope": "eu1", "action": action, "reason": "work", "forSecs": 600}).to_string();
    let added = ask(&server, "POST", "/v1/overrides?confirm=true", "a", &body("drain"));
    assert_eq!(added.0, 201, "{added:?}");
    assert_eq!(ask(&server, "POST", "/v1/overrides?confirm=true", "a", &body("drain")), added);
    let refused = ask(&server, "POST", "/v1/overrides?confirm=true", "a", &body("down"));
    assert!(refused.0 == 422 && refused.2.contains("Idempotency-Key"), "{refused:?}");
    server.process.signal("KILL");
    server.process.ended(LIMIT);
    server.process = serve_again(&server, "log-again");
    server.wait_ready();
    let answer: Value = serde_json::from_str(&added.2).expect("it is JSON");
    let again = ask(&server, "POST", "/v1/overrides?confirm=true", "a", &body("drain"));
    let again: Value = serde_json::from_str(&again.2).expect("it is JSON");
    assert_eq!((&again["id"], &again["reason"]), (&answer["id"], &answer["reason"]));
    let there = || {
        let (_, state) = http_get(server.http, "/v1/state").expect("an answer");
        let state: Value = serde_json::from_str(&state).expect("it is JSON");
        state["overrides"].as_array().map(Vec::len)
    };
    assert_eq!(there(), Some(1));
    assert_eq!(
        ask(&server, "POST", "/v1/overrides?confirm=true", "b", &body("drain")).0,
        201,
        "another key is another one"
    );
    assert_eq!(there(), Some(2));
    let id = answer["id"].as_str().expect("it has an id");
    assert_eq!(ask(&server, "DELETE", &format!("/v1/overrides/{id}"), "", "").0, 200);
    assert_eq!(there(), Some(1));
}
