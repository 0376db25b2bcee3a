//! A hostile webhook provider that is published to: its answers are as long as the client takes, and cost most to parse.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use fairway_integration::real::{Fairway, wait_until};
use fairway_providers::MEDIA_TYPE;

use crate::{BYSTANDER, LIMIT, MEBIBYTE, bystander, expect_answers, get, logged, peak};

const LENGTH: usize = 32 << 20;
/// The answers (32 MiB each, twice while they arrive) and at most 1,048,576 endpoints of 152 bytes (`OBJECTS_MAX` of providers) for each
/// of the three publishers. A debug build of the server itself has some 60 MiB.
const PEAK_MAX: u64 = 400 * MEBIBYTE;

/// Serves one answer to `GET /records` until the process ends: nothing waits for its threads.
fn start(records: fn() -> Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let at = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client closes the connection once it has seen enough.
            thread::spawn(move || _ = serve(&stream, records));
        }
    });
    at
}

fn serve(mut stream: &TcpStream, records: fn() -> Vec<u8>) -> std::io::Result<()> {
    let head: Vec<_> =
        BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let is_list = head.first().is_some_and(|line| line.starts_with("GET /records "));
    let body = if is_list { records() } else { b"{}".to_vec() };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

fn nested() -> Vec<u8> {
    vec![b'['; LENGTH]
}

fn nested_in_an_unknown_field() -> Vec<u8> {
    [&br#"[{"later":"#[..], &vec![b'['; LENGTH - 10]].concat()
}

fn empty_objects() -> Vec<u8> {
    let mut body = b"{},".repeat(LENGTH / 3 - 1);
    body.insert(0, b'[');
    body.extend(b"{}]");
    body
}

#[test]
fn hostile_webhook_answers_are_errors_and_answers_go_on() {
    let attacks = [
        (nested as fn() -> Vec<u8>, "invalid type"),
        (nested_in_an_unknown_field, "EOF while parsing"),
        (empty_objects, "more than 1048576 objects"),
    ];
    let publisher = |number: usize, at: SocketAddr| {
        format!(
            "    - name: w{number}
      zones: [pub.example]
      webhook: {{ url: \"http://{at}\" }}
      aliases: [{{ name: a.pub.example, of: {BYSTANDER}, as: addresses }}]
"
        )
    };
    let publishers: String =
        attacks.iter().enumerate().map(|(number, (body, _))| publisher(number, start(*body))).collect();
    let server = Fairway::start(&format!("{}publish:\n  owner: us\n  providers:\n{publishers}", bystander()), &[]);
    for (number, (_, part)) in attacks.iter().enumerate() {
        let status = || get(&server, "/v1/publishing")["providers"][number].clone();
        wait_until(&format!("w{number} fails"), LIMIT, || {
            expect_answers(&server, &[BYSTANDER]);
            status()["status"] == "failing"
        });
        let error = status()["error"].as_str().unwrap_or_default().to_owned();
        println!("{error}; peak {} MiB", peak(&server) / MEBIBYTE);
        assert!(error.contains("the response is malformed") && error.contains(part) && error.len() < 300, "{error}");
    }
    assert!(peak(&server) < PEAK_MAX, "{} MiB", peak(&server) / MEBIBYTE);
    assert_eq!(logged(&server, "publishing failed"), attacks.len(), "{}", server.process.output());
}
