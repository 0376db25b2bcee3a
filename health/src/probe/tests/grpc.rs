//! Tests of gRPC checks with the server of tonic-health.

use std::{net::SocketAddr, time::Duration};

use fairway_model::{Check, GrpcCheck, TlsCheck};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};
use tonic_health::{ServingStatus, server::health_reporter};

use super::{authority::Authority, servers::*};
use crate::probe::ProbeResult;

/// Starts a server that is SERVING, with the services `shop` NOT_SERVING and `till` UNKNOWN.
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
    assert_eq!(run(check(at, "", None), at).await, ProbeResult::Pass);
    assert_eq!(run(check(at, "shop", None), at).await, fails("gRPC health NOT_SERVING"));
    assert_eq!(run(check(at, "till", None), at).await, fails("gRPC health UNKNOWN"));
    assert_eq!(run(check(at, "cart", None), at).await, fails("gRPC health: service unknown to the target"));
}

#[tokio::test]
async fn server_without_the_health_service_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let (_, other) = health_reporter();
    // An interceptor rejects all calls, as a server without the service does.
    let refusing = tonic::service::interceptor::InterceptedService::new(other, |_| {
        Err::<tonic::Request<()>, _>(tonic::Status::unimplemented("no"))
    });
    tokio::spawn(tonic::transport::Server::builder().add_service(refusing).serve_with_incoming(incoming));
    assert_eq!(run(check(at, "", None), at).await, fails("gRPC health: not offered by the target"));
}

#[tokio::test]
async fn tls_requires_http2() {
    let own = Authority::new();
    let inner = server().await;
    let tls = TlsCheck { ca: Some(own.pem()), ..TlsCheck::default() };
    for (alpn, expected) in
        [(&b"h2"[..], ProbeResult::Pass), (&b"http/1.1"[..], fails("TLS alert from the target: NoApplicationProtocol"))]
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
async fn response_without_grpc_fails_with_a_cause() {
    let at = closed_port();
    assert_eq!(run(check(at, "", None), at).await, fails("connection refused"));
    let at = answering("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let found = run(check(at, "", None), at).await;
    assert!(matches!(&found, ProbeResult::Fail { cause, reached: true } if !cause.0.is_empty()), "{found:?}");
}

#[tokio::test]
async fn silent_server_fails_at_the_timeout_and_releases_its_socket() {
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
async fn endless_frames_fail() {
    // SETTINGS frames: nine bytes of header, no payload (RFC 9113 section 6.5).
    let (at, _) = serve(|mut stream| async move {
        use tokio::io::AsyncWriteExt;
        let frames = [0, 0, 0, 4, 0, 0, 0, 0, 0].repeat(1_000);
        while stream.write_all(&frames).await.is_ok() {}
    })
    .await;
    let found = run(check(at, "", None), at).await;
    assert!(matches!(&found, ProbeResult::Fail { reached: true, .. }), "{found:?}");
}
