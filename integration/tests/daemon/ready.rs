//! The notifications that a daemon is ready and that it stops: each is sent once, and delays nothing.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Duration, Instant},
};

use fairway_integration::{
    load::{resolve, wait_answer},
    real::{Fairway, free_port, wait_until},
};

use super::{Gateway, LIMIT, NAME, answering};

const ADDRESS: [&str; 1] = ["192.0.2.1"];

/// Returns a configuration whose callback is this port of loopback.
fn telling(port: u16) -> String {
    answering(&ADDRESS)
        + &format!("identity: {{ id: ns1 }}\nready: {{ callback: \"http://127.0.0.1:{port}/ready\" }}\n")
}

/// A receiver that accepts every message, and the messages.
fn receiver(port: u16) -> (Gateway, mpsc::Receiver<serde_json::Value>) {
    let (send, messages) = mpsc::channel();
    let take = move |stream: &mut TcpStream, _: &_| {
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let mut octets = [0; 1_024];
            match stream.read(&mut octets) {
                Ok(length @ 1..) => request.extend_from_slice(&octets[..length]),
                // The connection that wakes the gateway at its end has no message.
                _ => return,
            }
        }
        let request = String::from_utf8(request).expect("a request is text");
        let (head, body) = request.split_once("\r\n\r\n").expect("a request has a head");
        assert!(head.starts_with("POST /ready HTTP/1.1\r\n"), "{head}");
        let _ = send.send(serde_json::from_str(body).expect("a message is JSON"));
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    };
    (Gateway::start("127.0.0.1", port, take), messages)
}

#[test]
fn late_receiver_gets_the_metrics_once_and_at_the_stop() {
    let port = free_port();
    let mut server = Fairway::start(&telling(port), &[]);
    let tries = |server: &Fairway, outcome| server.metric("fairway_ready_callbacks_total", outcome);
    wait_until("a try is refused", LIMIT, || tries(&server, "failed") >= 1.0);
    let (gateway, messages) = receiver(port);
    let message = messages.recv_timeout(LIMIT).expect("a message");
    assert_eq!((&message["ready"], &message["instance"]), (&true.into(), &"ns1".into()), "{message}");
    assert!(message["version"].is_string() && message["time"].as_str().is_some_and(|t| t.ends_with('Z')), "{message}");
    wait_until("it is counted", LIMIT, || tries(&server, "delivered") == 1.0);
    server.process.signal("TERM");
    assert_eq!(messages.recv_timeout(LIMIT).expect("a message about the stop")["ready"], false);
    assert!(server.process.ended(LIMIT).success());
    drop(gateway);
    assert!(messages.recv().is_err(), "two messages and no more");
    let log = server.process.output();
    assert_eq!(log.matches("ready callback failed").count(), 1, "{log}");
    assert_eq!(log.matches("ready callback delivered after retries").count(), 1, "{log}");
}

#[test]
fn silent_receiver_delays_neither_start_nor_stop() {
    // Connections wait in its backlog for ever.
    let mute = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let mut server = Fairway::start(&telling(mute.local_addr().expect("it is bound").port()), &[]);
    // The server is ready while the first attempt, which may take 5 s, still waits.
    assert_eq!(server.metric("fairway_ready_callbacks_total", ""), 0.0);
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&ADDRESS)));
    let (mut try_of_ready, _) = mute.accept().expect("it tries");
    let begun = Instant::now();
    server.process.signal("TERM");
    assert!(server.process.ended(LIMIT).success());
    // One second for the last attempt; an attempt of 5 s, or the drain of 5 s, would take longer.
    assert!(begun.elapsed() < Duration::from_secs(4), "it took {:?} to stop", begun.elapsed());
    let mut sent = String::new();
    let _ = try_of_ready.read_to_string(&mut sent);
    assert!(sent.contains("\"ready\":true"), "{sent}");
}

#[test]
fn replaced_process_does_not_revert_its_successor() {
    let port = free_port();
    let (gateway, messages) = receiver(port);
    let mut server = Fairway::start(&telling(port), &[]);
    assert_eq!(messages.recv_timeout(LIMIT).expect("the first is ready")["ready"], true);
    let mut next = server.start_beside(&["--replace"]);
    assert!(server.process.ended(LIMIT).success());
    assert_eq!(messages.recv_timeout(LIMIT).expect("the second is ready")["ready"], true);
    wait_answer(server.dns, NAME, &ADDRESS, LIMIT);
    next.signal("TERM");
    assert_eq!(messages.recv_timeout(LIMIT).expect("the second stops")["ready"], false);
    assert!(next.ended(LIMIT).success());
    drop(gateway);
    assert!(messages.recv().is_err(), "three messages and no more");
}
