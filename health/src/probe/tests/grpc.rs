//! gRPC health, against the server that tonic-health offers.

use std::{net::SocketAddr, time::Duration};

use fairway_model::{Check, GrpcCheck, TlsCheck};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};
use tonic_health::{ServingStatus, server::health_reporter};

use super::{authority::Authority, servers::*};
use crate::probe::Finding;

/// Returns a server whose services are: the whole SERVING, `shop` NOT_SERVING, `till` UNKNOWN.
async fn server() -> SocketAddr {
    let (reporter, service) = health_reporter();
    reporter.set_service_status("shop", ServingStatus::NotServing).await;
    reporter.set_service_status("till", ServingStatus::Unknown).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    at
}

fn check(at: SocketAddr, service: &str, tls: Option<TlsCheck>) -> Check {
    Check::Grpc(GrpcCheck { port: at.port(), service: service.to_owned(), tls })
}

#[tokio::test]
async fn only_serving_passes() {
    let at = server().await;
    assert_eq!(run(check(at, "", None), at).await, Finding::Pass);
    assert_eq!(run(check(at, "shop", None), at).await, fails("gRPC health NOT_SERVING"));
    assert_eq!(run(check(at, "till", None), at).await, fails("gRPC health UNKNOWN"));
    assert_eq!(run(check(at, "cart", None), at).await, fails("gRPC health: service not known to the target"));
}

#[tokio::test]
async fn a_server_without_the_health_service_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let (_, other) = health_reporter();
    // Behind an interceptor that refuses: what an unwilling server looks like.
    let refusing = tonic::service::interceptor::InterceptedService::new(other, |_| {
        Err::<tonic::Request<()>, _>(tonic::Status::unimplemented("no"))
    });
    tokio::spawn(tonic::transport::Server::builder().add_service(refusing).serve_with_incoming(incoming));
    assert_eq!(run(check(at, "", None), at).await, fails("gRPC health: not offered by the target"));
}

#[tokio::test]
async fn over_tls_it_asks_for_http2() {
    let own = Authority::new();
    let inner = server().await;
    let tls = TlsCheck { ca: Some(own.pem()), ..TlsCheck::default() };
    for (alpn, expected) in
        [(&b"h2"[..], Finding::Pass), (&b"http/1.1"[..], fails("TLS alert from the target: NoApplicationProtocol"))]
    {
        let acceptor = own.server(&own.certify("127.0.0.1"), false, alpn);
        let (at, _) = serve(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(mut outside) = acceptor.accept(stream).await {
                    let mut inside = TcpStream::connect(inner).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                }
            }
        })
        .await;
        assert_eq!(run(check(at, "", Some(tls.clone())), at).await, expected);
    }
}

#[tokio::test]
async fn what_is_not_grpc_fails_with_a_cause() {
    let at = deaf().await;
    assert_eq!(run(check(at, "", None), at).await, fails("connection refused"));
    let at = answering("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let found = run(check(at, "", None), at).await;
    assert!(matches!(&found, Finding::Fail { cause, reached: true } if !cause.0.is_empty()), "{found:?}");
}

#[tokio::test]
async fn a_silent_server_ends_at_the_timeout_and_keeps_no_socket() {
    let (seen, mut ends) = tokio::sync::mpsc::channel(1);
    let (at, _) = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            let mut sink = [0; 1024];
            while matches!(stream.read(&mut sink).await, Ok(1..)) {}
            let _ = seen.send(()).await;
        }
    })
    .await;
    assert_eq!(run_short(check(at, "", None), at).await, fails("timeout after 300ms waiting for the response"));
    tokio::time::timeout(Duration::from_secs(20), ends.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn endless_frames_end_the_probe() {
    // SETTINGS, again and again: nine bytes of header, no payload (RFC 9113, 6.5).
    let (at, _) = serve(|mut stream| async move {
        use tokio::io::AsyncWriteExt;
        let frames = [0, 0, 0, 4, 0, 0, 0, 0, 0].repeat(1_000);
        while stream.write_all(&frames).await.is_ok() {}
    })
    .await;
    let found = run(check(at, "", None), at).await;
    assert!(matches!(&found, Finding::Fail { reached: true, .. }), "{found:?}");
}
