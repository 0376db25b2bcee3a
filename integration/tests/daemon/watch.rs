//! `/v1/watch` of the running server: its events, resuming, the limit of watchers, and that nothing waits for them.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use fairway_integration::real::{Fairway, free_port, http_get, wait_until};

use super::{Gateway, LIMIT, answering, failing_over};

/// Connection of a watcher.
pub(crate) struct Watcher(BufReader<TcpStream>);

impl Watcher {
    fn new(server: SocketAddr, query: &str, headers: &str) -> Self {
        Self::at(server, &format!("/v1/watch{query}"), headers)
    }

    /// Opens a watcher of this path.
    pub(crate) fn at(server: SocketAddr, path: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(server).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a sound limit");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\n{headers}\r\n").expect("it reads");
        Self(BufReader::new(stream))
    }

    /// Returns the rest of the next line that starts with this; `None` at the end of the stream.
    fn line(&mut self, start: &str) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("the server writes in time") == 0 {
                return None;
            }
            if let Some(rest) = line.trim_end().strip_prefix(start) {
                return Some(rest.to_owned());
            }
        }
    }

    pub(crate) fn status(&mut self) -> String {
        self.line("HTTP/1.1 ").expect("an answer")
    }

    /// Returns the next event of this kind, and the id of the last event before it.
    pub(crate) fn event(&mut self, kind: &str) -> (String, serde_json::Value) {
        let mut id = String::new();
        loop {
            let line = self.line("").expect("the stream goes on");
            if let Some(value) = line.strip_prefix("id: ") {
                id = value.to_owned();
            }
            if line == format!("event: {kind}") {
                let body = self.line("data: ").expect("an event has a body");
                return (id, serde_json::from_str(&body).expect("a body is JSON"));
            }
        }
    }
}

#[test]
fn health_transition_event_has_its_impact_and_is_resent_after_last_event_id() {
    let port = free_port();
    let [eu1, _us1] = ["127.0.1.1", "127.0.2.1"].map(|address| Gateway::healthy(address, port));
    let monitor = format!("type: tcp, port: {port}, period: 200ms, timeout: 150ms, rise: 1, fall: 2");
    let server = Fairway::start(&failing_over(&[("eu1", "127.0.1.1"), ("us1", "127.0.2.1")], &monitor), &[]);
    let mut watcher = Watcher::new(server.http, "", "");
    assert_eq!(watcher.status(), "200 OK");
    let (before, state) = watcher.event("state");
    assert_eq!((&state["configuration"], &state["ready"]), (&1.into(), &true.into()));

    drop(eu1);
    // First health transitions may still arrive.
    let is_down = |(_, transition): &(String, serde_json::Value)| transition["to"] == "down";
    let (_, transition) = std::iter::repeat_with(|| watcher.event("transition")).find(is_down).expect("it never ends");
    assert_eq!(transition["clusters"][0], "eu1");
    assert_eq!((&transition["to"], &transition["cause"]), (&"down".into(), &"connection refused".into()));
    assert_eq!((&transition["poolsMoved"], &transition["namesMoved"]), (&1.into(), &1.into()));
    assert_eq!(transition["pools"][0]["moved"], 100.0);
    let shares = transition["pools"][0]["shares"].as_array().expect("a list");
    let share = |of: &str| shares.iter().find(|share| share["cluster"] == of).map(|share| share["after"].clone());
    assert_eq!((share("eu1"), share("us1")), (Some(0.0.into()), Some(100.0.into())));
    // The state may have been sent before the transition; a new watcher gets the current state.
    let (_, after) = Watcher::new(server.http, "", "").event("state");
    assert_ne!(after["runtimeState"], state["runtimeState"]);

    let mut later = Watcher::new(server.http, "", &format!("Last-Event-ID: {before}\r\n"));
    assert_eq!(
        std::iter::repeat_with(|| later.event("transition")).find(is_down).expect("it never ends").1,
        transition
    );
    let mut stranger = Watcher::new(server.http, "?after=00000000.7", "");
    stranger.event("reset");
}

#[test]
fn reload_event_has_the_result() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let mut watcher = Watcher::new(server.http, "", "");
    watcher.event("state");
    server.write_config("polcy: 1\n");
    let (_, refused) = watcher.event("reload");
    assert_eq!(refused["accepted"], false);
    assert!(refused["errorCount"].as_u64() > Some(0), "{refused}");
    assert_eq!(watcher.event("state").1["stale"], true);
    server.write_config(&answering(&["192.0.2.2"]));
    assert_eq!(watcher.event("reload").1["accepted"], true);
}

#[test]
fn sixteen_watchers_leave_capacity_for_other_requests() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let mut watchers: Vec<_> = (0..16).map(|_| Watcher::new(server.http, "", "")).collect();
    watchers.iter_mut().for_each(|watcher| drop(watcher.event("state")));
    let mut one_more = Watcher::new(server.http, "", "");
    assert!(one_more.status().starts_with("503"));
    assert_eq!(one_more.line("retry-after: "), Some("10".to_owned()));
    assert_eq!(http_get(server.http, "/readyz").map(|(status, _)| status), Some(200));
    drop(watchers.pop());
    wait_until("the place of one that has gone is free", LIMIT, || {
        Watcher::new(server.http, "", "").status().starts_with("200")
    });
}

#[test]
fn stop_does_not_wait_for_watchers() {
    let mut server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let mut watchers: Vec<_> = (0..8).map(|_| Watcher::new(server.http, "", "")).collect();
    watchers.iter_mut().for_each(|watcher| drop(watcher.event("state")));
    let began = Instant::now();
    server.process.signal("TERM");
    server.process.ended(LIMIT);
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    for mut watcher in watchers {
        while watcher.line("event: ").is_some() {}
    }
    assert!(!server.process.output().contains("cut off"), "streams end by themselves");
}
