//! Hostile HTTP/2 and gRPC (RFC 9113; gRPC over HTTP2).

use std::net::SocketAddr;

use fairway_model::{GrpcCheck, TlsCheck};
use tokio::net::TcpListener;
use tonic_health::server::health_reporter;

use super::*;

/// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0x42;
/// Flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The causes of floods that h2 rejects, and of a frame that is too long.
const CALM: &str = "response violates HTTP/2: ENHANCE_YOUR_CALM";
const FRAME_SIZE: &str = "response violates HTTP/2: FRAME_SIZE_ERROR";

/// Returns a frame: length, type, flags, stream, payload.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Returns the settings with which a server begins.
fn settings() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[])
}

/// Returns a header field of two literals without indexing (RFC 7541 section 6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// Returns a header with status 200, the content type of gRPC, further fields and these flags.
fn head(further: &[u8], flags: u8) -> Vec<u8> {
    let fields = [&[0x88][..], &field("content-type", "application/grpc"), further].concat();
    [settings(), frame(HEADERS, flags, 1, &fields)].concat()
}

/// A message with status SERVING.
const SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 1];

/// Returns a gRPC check without TLS.
pub(super) fn check(at: SocketAddr) -> Check {
    Check::Grpc(GrpcCheck { port: at.port(), service: String::new(), tls: None })
}

/// Starts a server that is SERVING.
pub(super) async fn good() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(health_reporter().1).serve_with_incoming(incoming));
    at
}

/// Returns floods: a name, the beginning, what is repeated without end, and the expected cause.
fn table() -> Vec<(&'static str, Vec<u8>, Vec<u8>, &'static str)> {
    let open = head(&[], END_HEADERS);
    let message = |length: &[u8; 4]| [&[0], &length[..]].concat();
    vec![
        ("fields in continuations", head(&[], 0), frame(CONTINUATION, 0, 1, &field("x", "y")), CALM),
        ("empty continuations", head(&[], 0), frame(CONTINUATION, 0, 1, &[]), CALM),
        ("informational responses", settings(), frame(HEADERS, END_HEADERS, 1, &field(":status", "103")), TOO_MUCH),
        ("a field remembered and named again", bomb(), vec![], CALM),
        (
            "a message of 4 GiB",
            [open.clone(), frame(DATA, 0, 1, &message(&[0xff; 4]))].concat(),
            frame(DATA, 0, 1, &[7; 16_000]),
            "gRPC OutOfRange: Error, decoded message length too large: found 4294967295 bytes, the limit is: 16384 bytes",
        ),
        (
            "a message of 16 KiB and one byte",
            [open.clone(), frame(DATA, 0, 1, &message(&[0, 0, 0x40, 1]))].concat(),
            frame(DATA, 0, 1, &[7; 16_000]),
            "gRPC OutOfRange: Error, decoded message length too large: found 16385 bytes, the limit is: 16384 bytes",
        ),
        ("messages without end", open.clone(), frame(DATA, 0, 1, SERVING), TOO_MUCH),
        ("empty data", open.clone(), frame(DATA, 0, 1, &[]), CALM),
        ("settings", settings(), settings(), TOO_MUCH),
        ("pings", settings(), frame(PING, 0, 0, &[7; 8]), TOO_MUCH),
        ("WINDOW_UPDATE frames", settings(), frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), TOO_MUCH),
        ("unknown frames", settings(), frame(UNKNOWN, 0, 0, &[7; 1_000]), TOO_MUCH),
        (
            "PUSH_PROMISE frames",
            settings(),
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
            "response violates HTTP/2: PROTOCOL_ERROR",
        ),
        (
            "a frame of 16 MiB",
            [settings(), vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]].concat(),
            vec![7; 1_000],
            FRAME_SIZE,
        ),
        (
            "RST_STREAM frames",
            settings(),
            frame(RST_STREAM, 0, 1, &[0, 0, 0, 2]),
            "target reset the HTTP/2 stream: INTERNAL_ERROR",
        ),
        ("GOAWAY frames", settings(), frame(GOAWAY, 0, 0, &[0; 8]), "target closed the HTTP/2 connection: NO_ERROR"),
        ("bytes that are not HTTP/2", vec![], vec![0xff; 64], FRAME_SIZE),
    ]
}

/// Returns an indexed field of 4,000 bytes that is repeated 12,000 times: 48 MB of header list in 16 KiB (RFC 7541
/// section 6.1).
fn bomb() -> Vec<u8> {
    let value = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4_000]].concat();
    let begin = head(&value, 0);
    [begin, frame(CONTINUATION, END_HEADERS, 1, &[0xbe; 12_000])].concat()
}

/// Returns the floods without names and causes.
pub(super) fn floods() -> Vec<(Vec<u8>, Vec<u8>)> {
    table().into_iter().map(|(_, head, again, _)| (head, again)).collect()
}

#[tokio::test]
async fn flood_fails_the_probe() {
    for (what, head, again, cause) in table() {
        println!("{what}");
        let target = HostileTarget::raw(&head, &again).await;
        target.fails(check(target.at), cause).await;
    }
}

#[tokio::test]
async fn response_that_ends_wrongly_fails() {
    let data = |flags| frame(DATA, flags, 1, SERVING);
    let trailers = |status: &str| frame(HEADERS, END_HEADERS | END_STREAM, 1, &field("grpc-status", status));
    let open = head(&[], END_HEADERS);
    let right = [open.clone(), data(0), trailers("0")].concat();
    let target = HostileTarget::raw(&right, &[]).await;
    assert_eq!(run(check(target.at), target.at).await, ProbeResult::Pass, "a correct response passes");
    let table = [
        (
            "no message and no trailers",
            head(&[], END_HEADERS | END_STREAM),
            "gRPC Unknown: protocol error: missing grpc-status trailer, stream was terminated without a final status (possible trunca…",
        ),
        (
            "no trailers",
            [open.clone(), data(END_STREAM)].concat(),
            "gRPC Unknown: protocol error: missing grpc-status trailer, stream was terminated without a final status (possible trunca…",
        ),
        ("a status in addition to SERVING", [open.clone(), data(0), trailers("14")].concat(), "gRPC Unavailable"),
        ("trailers alone", [open.clone(), trailers("0")].concat(), "gRPC Internal: Missing response message."),
        (
            "half a message",
            [open.clone(), frame(DATA, END_STREAM, 1, &SERVING[..6])].concat(),
            "gRPC Internal: Unexpected EOF decoding stream.",
        ),
        (
            "a reset after the message",
            [open.clone(), data(0), frame(RST_STREAM, 0, 1, &[0, 0, 0, 2])].concat(),
            "target reset the HTTP/2 stream: INTERNAL_ERROR",
        ),
        (
            "GOAWAY before the response",
            [settings(), frame(GOAWAY, 0, 0, &[0; 8])].concat(),
            "target closed the HTTP/2 connection: NO_ERROR",
        ),
        (
            "GOAWAY with ENHANCE_YOUR_CALM",
            [settings(), frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])].concat(),
            "target closed the HTTP/2 connection: ENHANCE_YOUR_CALM",
        ),
        (
            "an HTTP status without gRPC",
            [settings(), frame(HEADERS, END_HEADERS | END_STREAM, 1, &field(":status", "503"))].concat(),
            "gRPC Unavailable: grpc-status header missing, mapped from HTTP status code 503",
        ),
    ];
    for (what, bytes, cause) in table {
        let target = HostileTarget::raw(&bytes, &[]).await;
        println!("{what}");
        target.fails(check(target.at), cause).await;
    }
}

#[tokio::test]
async fn flood_over_tls_fails_the_probe() {
    let own = Authority::new();
    let tls = TlsCheck { ca: Some(own.pem()), ..TlsCheck::default() };
    for (what, head, again, cause) in table() {
        println!("{what}");
        let target = HostileTarget::over_tls(own.server(&own.certify("127.0.0.1"), false, b"h2"), &head, &again).await;
        let check = GrpcCheck { port: target.at.port(), service: String::new(), tls: Some(tls.clone()) };
        target.fails(Check::Grpc(check), cause).await;
    }
}
