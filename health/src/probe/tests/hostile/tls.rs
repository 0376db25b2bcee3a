//! Hostile TLS handshakes, and hostile data after them.

use std::{net::SocketAddr, time::Duration};

use fairway_model::{HttpCheck, TlsCheck};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::time::interval;

use super::*;

/// Records (RFC 8446 section 5.1): type, version, length, content.
const ALERT: &[u8] = &[21, 3, 3, 0, 2, 1, 90];
const CHANGE_CIPHER_SPEC: &[u8] = &[20, 3, 3, 0, 1, 1];
const EMPTY_HANDSHAKE: &[u8] = &[22, 3, 3, 0, 0];
const HELLO_REQUEST: &[u8] = &[22, 3, 3, 0, 4, 0, 0, 0, 0];
const APPLICATION_DATA: &[u8] = &[23, 3, 3, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
/// The beginning of a ServerHello of 16 MiB, and further records of it.
const HUGE_HELLO: &[u8] = &[22, 3, 3, 0, 4, 2, 0xff, 0xff, 0xff];
const MORE_HELLO: &[u8] = &[22, 3, 3, 0, 8, 3, 3, 3, 3, 3, 3, 3, 3];

/// The cause of a handshake message over the limit.
const CHAIN: &str = "TLS: handshake message over 64 KiB, for example a certificate chain";

/// Data instead of a handshake: the beginning, and what is repeated without end.
pub(super) const FLOODS: [(&[u8], &[u8]); 9] = [
    (b"", b""),
    (b"", &[0xff; 64]),
    (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    (b"", ALERT),
    (b"", CHANGE_CIPHER_SPEC),
    (b"", EMPTY_HANDSHAKE),
    (b"", HELLO_REQUEST),
    (b"", APPLICATION_DATA),
    (HUGE_HELLO, MORE_HELLO),
];

/// Returns an https check with this trust anchor that requires a text in the body.
pub(super) fn check(authority: &Authority, at: SocketAddr) -> Check {
    let tls = Some(TlsCheck { ca: Some(authority.pem()), ..TlsCheck::default() });
    Check::Http(HttpCheck { tls, body: Some("ok".to_owned()), ..http(at) })
}

/// Returns an https check with this trust anchor that does not read the body.
pub(super) fn passing(authority: &Authority, at: SocketAddr) -> Check {
    let tls = Some(TlsCheck { ca: Some(authority.pem()), ..TlsCheck::default() });
    Check::Http(HttpCheck { tls, ..http(at) })
}

#[tokio::test]
async fn flood_instead_of_a_handshake_fails_the_probe() {
    let own = Authority::new();
    let no_tls = "response is not TLS";
    let causes = [
        TIMEOUT,
        no_tls,
        no_tls,
        "TLS: peer misbehaved: TooManyWarningAlertsReceived",
        "TLS: received unexpected message: got ChangeCipherSpec when expecting Handshake",
        no_tls,
        "TLS: received unexpected handshake message: got HelloRequest when expecting ServerHello or HelloRetryRequest",
        "TLS: received unexpected message: got ApplicationData when expecting Handshake",
        CHAIN,
    ];
    for ((head, again), cause) in FLOODS.into_iter().zip(causes) {
        let target = HostileTarget::raw(head, again).await;
        target.fails(check(&own, target.at), cause).await;
    }
}

#[tokio::test]
async fn slow_handshake_ends_at_the_timeout() {
    let own = Authority::new();
    let target = HostileTarget::start(|mut stream| async move {
        let _ = stream.read(&mut [0; 4_096]).await;
        let mut tick = interval(Duration::from_millis(10));
        for byte in [22, 3, 3, 0x40, 0, 2, 0, 0x3f, 0xfc, 3, 3].into_iter().chain(std::iter::repeat(7)) {
            tick.tick().await;
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
        }
    })
    .await;
    target.fails(check(&own, target.at), TIMEOUT).await;
    assert!(target.written() > 3, "more than one record header was written");
}

/// Returns the TLS of a server with this many further certificates in its chain and tickets after the handshake.
fn server_with_chain(authority: &Authority, certificates: usize, tickets: usize) -> TlsAcceptor {
    let own = authority.certify("127.0.0.1");
    let first = CertificateDer::from_pem_slice(own.0.expose().as_bytes()).unwrap();
    let issuer = CertificateDer::from_pem_slice(authority.pem().expose().as_bytes()).unwrap();
    let chain = std::iter::once(first).chain(std::iter::repeat_n(issuer, certificates)).collect();
    let key = PrivateKeyDer::from_pem_slice(own.1.expose().as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.send_tls13_tickets = tickets;
    TlsAcceptor::from(Arc::new(config))
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn long_certificate_chain_fails() {
    let own = Authority::new();
    let short = HostileTarget::over_tls(server_with_chain(&own, 3, 0), OK, b"").await;
    assert_eq!(run(check(&own, short.at), short.at).await, ProbeResult::Pass);
    // 100 are some 50 KiB, 10,000 some 5 MB.
    let foreign = Authority::named("foreign");
    let table = [(&foreign, 100, "certificate from an unknown authority"), (&own, 10_000, CHAIN)];
    for (authority, certificates, cause) in table {
        let target = HostileTarget::over_tls(server_with_chain(authority, certificates, 0), OK, b"").await;
        target.fails(check(&own, target.at), cause).await;
    }
}

#[tokio::test]
async fn what_is_written_behind_a_handshake_ends_the_probe() {
    let own = Authority::new();
    let table: [(&[u8], &[u8], &str); 4] = [
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", "response header over 16 KiB or 100 lines"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"0123456789abcdef", "first 64 KiB of the body lack \"ok\""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nz\r\n", TOO_MUCH),
        (
            b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n",
            b"HTTP/1.1 302 Found\r\n\r\n",
            "first 64 KiB of the body lack \"ok\"",
        ),
    ];
    for (head, again, cause) in table {
        let target = HostileTarget::over_tls(server_with_chain(&own, 0, 0), head, again).await;
        target.fails(check(&own, target.at), cause).await;
    }
    // Tickets of sessions nobody asked for, 1 MB of them.
    let target = HostileTarget::over_tls(server_with_chain(&own, 0, 10_000), OK, b"").await;
    target.fails(check(&own, target.at), "TLS: too many handshake messages").await;
}
