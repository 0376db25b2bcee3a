//! Tests of HTTP checks.

use std::sync::{Arc, Mutex, atomic::Ordering};

use fairway_model::{Check, HttpCheck, Secret};
use tokio::io::AsyncWriteExt;

use super::servers::*;
use crate::probe::ProbeResult;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nx-build: v1.2\r\n\r\nok\n";

fn check(check: HttpCheck) -> Check {
    Check::Http(check)
}

fn with_body(at: std::net::SocketAddr, text: &str) -> Check {
    check(HttpCheck { body: Some(text.to_owned()), ..http(at) })
}

#[tokio::test]
async fn status_decides() {
    let at = answering(OK).await;
    assert_eq!(run(check(http(at)), at).await, ProbeResult::Pass);
    let at = answering("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(run(check(http(at)), at).await, fails("status 503"));
    let wanted = HttpCheck { status: "503".parse().unwrap(), ..http(at) };
    assert_eq!(run(check(wanted), at).await, ProbeResult::Pass);
}

#[tokio::test]
async fn request_has_the_settings_of_the_monitor() {
    let requests = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&requests);
    let (at, _) = serve(move |mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            let text = request(&mut stream).await;
            seen.lock().unwrap().push(text.to_lowercase());
            let _ = stream.write_all(OK.as_bytes()).await;
        }
    })
    .await;
    assert_eq!(run(check(http(at)), at).await, ProbeResult::Pass);
    let own = HttpCheck {
        method: "HEAD".to_owned(),
        path: "/ready?full=1".to_owned(),
        host: Some("shop.example:8080".to_owned()),
        headers: [("x-probe", "a"), ("user-agent", "mine")]
            .map(|(name, value)| (name.to_owned(), Secret::new(value)))
            .to_vec(),
        ..http(at)
    };
    assert_eq!(run(check(own), at).await, ProbeResult::Pass);
    let requests = requests.lock().unwrap();
    let has = |request: usize, line: &str| assert!(requests[request].contains(line), "{line} in {requests:?}");
    has(0, "get /healthz/ready http/1.1\r\n");
    has(0, &format!("\r\nhost: {at}\r\n"));
    has(0, "\r\nconnection: close\r\n");
    has(0, "\r\nuser-agent: fairway/");
    has(1, "head /ready?full=1 http/1.1\r\n");
    has(1, "\r\nhost: shop.example:8080\r\n");
    has(1, "\r\nx-probe: a\r\n");
    has(1, "\r\nuser-agent: mine\r\n");
}

#[tokio::test]
async fn required_body_and_header_are_checked() {
    let at = answering(OK).await;
    assert_eq!(run(with_body(at, "ok"), at).await, ProbeResult::Pass);
    assert_eq!(run(with_body(at, "fine"), at).await, fails("body lacks \"fine\""));
    let header = |name: &str, text: Option<&str>| {
        let response_header = Some((name.to_owned(), text.map(str::to_owned)));
        run(check(HttpCheck { response_header, ..http(at) }), at)
    };
    assert_eq!(header("X-Build", None).await, ProbeResult::Pass);
    assert_eq!(header("x-build", Some("1.2")).await, ProbeResult::Pass);
    assert_eq!(header("x-build", Some("2.0")).await, fails("header x-build lacks \"2.0\""));
    assert_eq!(header("x-other", None).await, fails("response lacks header x-other"));
}

#[tokio::test]
async fn text_is_found_across_pieces_of_the_body() {
    let pieces: String = "it is ready now".chars().map(|c| format!("1\r\n{c}\r\n")).collect();
    let at = answering(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n")).await;
    assert_eq!(run(with_body(at, "is ready"), at).await, ProbeResult::Pass);
    assert_eq!(run(with_body(at, "is_ready"), at).await, fails("body lacks \"is_ready\""));
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let (at, connections) = serve(|mut stream| async move {
        request(&mut stream).await;
        let answer = "HTTP/1.1 302 Found\r\nlocation: /healthz/ready\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    assert_eq!(run(check(http(at)), at).await, ProbeResult::Pass);
    let strict = HttpCheck { status: "2xx".parse().unwrap(), ..http(at) };
    assert_eq!(run(check(strict), at).await, fails("status 302"));
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn silence_in_any_phase_ends_at_the_timeout() {
    let at = silent().await;
    assert_eq!(run_short(check(http(at)), at).await, fails("timeout after 300ms waiting for the response"));
    let at = answering("HTTP/1.1 200 OK\r\ncontent-le").await;
    assert_eq!(run_short(check(http(at)), at).await, fails("timeout after 300ms waiting for the response"));
    let at = answering("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    assert_eq!(run_short(with_body(at, "ok"), at).await, fails("timeout after 300ms reading the body"));
    assert_eq!(run(check(http(at)), at).await, ProbeResult::Pass, "the check requires no body");
}

#[tokio::test]
async fn slow_bytes_do_not_prolong_a_probe() {
    let (at, _) = serve(|mut stream| async move {
        request(&mut stream).await;
        for byte in b"HTTP/1.1 200 OK\r\nx: ".iter().chain(std::iter::repeat(&b'y')) {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(run_short(check(http(at)), at).await, fails("timeout after 300ms waiting for the response"));
}

#[tokio::test]
async fn endless_header_fails() {
    let cause = "response header over 16 KiB or 100 lines";
    let at = streaming("HTTP/1.1 200 OK\r\n", "x: y\r\n").await;
    assert_eq!(run(check(http(at)), at).await, fails(cause));
    let at = streaming("HTTP/1.1 200 OK\r\nx: ", "y").await;
    assert_eq!(run(check(http(at)), at).await, fails(cause));
    let at = streaming("", "HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(run(check(http(at)), at).await, fails("response over 256 KiB"));
}

#[tokio::test]
async fn endless_body_is_read_up_to_its_limit() {
    let start = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let at = streaming("HTTP/1.1 200 OK\r\n\r\n", "0123456789abcdef").await;
    assert_eq!(run(check(http(at)), at).await, ProbeResult::Pass);
    assert_eq!(run(with_body(at, "f0"), at).await, ProbeResult::Pass);
    assert_eq!(run(with_body(at, "ok"), at).await, fails("first 64 KiB of the body lack \"ok\""));
    let at = streaming(start, "1\r\nz\r\n").await;
    let found = run(with_body(at, "ok"), at).await;
    assert_eq!(found, fails("response over 256 KiB"));
}

#[tokio::test]
async fn connection_closed_too_early_fails() {
    let cause = "connection closed before the response";
    let closing = |answer: &'static str| {
        serve(move |mut stream| async move {
            request(&mut stream).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        })
    };
    for answer in ["", "HTTP/1.1 200 OK\r\n"] {
        let at = closing(answer).await.0;
        assert_eq!(run(check(http(at)), at).await, fails(cause), "{answer:?}");
    }
    let at = closing("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await.0;
    assert_eq!(run(with_body(at, "ok"), at).await, fails(cause));
    let at = closing("HTTP/1.0 200 OK\r\n\r\nall is ok").await.0;
    assert_eq!(
        run(with_body(at, "ok"), at).await,
        ProbeResult::Pass,
        "a body may last until the end of the connection"
    );
    let (at, _) = serve(|stream| async move {
        stream.set_zero_linger().unwrap();
    })
    .await;
    assert_eq!(run(check(http(at)), at).await, fails("connection reset"));
}

#[tokio::test]
async fn half_closed_connection_passes_only_after_the_response() {
    let (at, _) = serve(|mut stream| async move {
        request(&mut stream).await;
        let _ = stream.write_all(OK.as_bytes()).await;
        let _ = stream.shutdown().await;
        request(&mut stream).await;
    })
    .await;
    assert_eq!(run(with_body(at, "ok"), at).await, ProbeResult::Pass);
    let (at, _) = serve(|mut stream| async move {
        let _ = stream.shutdown().await;
        request(&mut stream).await;
    })
    .await;
    assert_eq!(run(check(http(at)), at).await, fails("connection closed before the response"));
}

#[tokio::test]
async fn response_without_http_fails_with_its_cause() {
    let at = answering("SSH-2.0-OpenSSH_9.9\r\n").await;
    assert_eq!(run(check(http(at)), at).await, fails("response is not HTTP"));
    let at = closed_port();
    assert_eq!(run(check(http(at)), at).await, fails("connection refused"));
}
