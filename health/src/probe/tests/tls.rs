//! Tests of TLS.

use std::net::SocketAddr;

use fairway_model::{Check, HttpCheck, ProbeAddress, TlsCheck};

use super::{
    authority::{Authority, https},
    servers::*,
};
use crate::probe::ProbeResult;

const HTTP: &[u8] = b"http/1.1";

fn over(tls: TlsCheck, at: SocketAddr) -> Check {
    Check::Http(HttpCheck { tls: Some(tls), ..http(at) })
}

fn trusting(authority: &Authority, name: Option<&str>) -> TlsCheck {
    TlsCheck { ca: Some(authority.pem()), server_name: name.map(str::to_owned), ..TlsCheck::default() }
}

#[tokio::test]
async fn certificate_of_a_trusted_authority_passes_for_its_name() {
    let own = Authority::new();
    let at = https(own.server(&own.certify("gateway.example"), false, HTTP)).await;
    let name = Some("gateway.example");
    assert_eq!(run(over(trusting(&own, name), at), at).await, ProbeResult::Pass);
    let wrong = run(over(trusting(&own, Some("other.example")), at), at).await;
    assert_eq!(wrong, fails("certificate not valid for name other.example"));
    let unnamed = run(over(trusting(&own, None), at), at).await;
    assert_eq!(unnamed, fails("certificate not valid for name 127.0.0.1"));
}

#[tokio::test]
async fn server_name_defaults_to_the_host_header() {
    let own = Authority::new();
    let at = https(own.server(&own.certify("gateway.example"), false, HTTP)).await;
    let tls = Some(trusting(&own, None));
    let check = HttpCheck { host: Some("gateway.example:8443".to_owned()), tls, ..http(at) };
    assert_eq!(run(Check::Http(check), at).await, ProbeResult::Pass);
}

#[tokio::test]
async fn server_name_defaults_to_the_probed_address_or_host() {
    let own = Authority::new();
    let at = https(own.server(&own.certify("127.0.0.1"), false, HTTP)).await;
    assert_eq!(run(over(trusting(&own, None), at), at).await, ProbeResult::Pass);
    let at = https(own.server(&own.certify("localhost"), false, HTTP)).await;
    let host = ProbeAddress::Host("localhost".to_owned(), at.port());
    let found = run_at(over(trusting(&own, None), at), host, std::time::Duration::from_secs(20)).await;
    assert_eq!(found, ProbeResult::Pass);
}

#[tokio::test]
async fn unknown_authority_fails_unless_verification_is_off() {
    let (own, foreign) = (Authority::new(), Authority::named("foreign"));
    let at = https(foreign.server(&foreign.certify("127.0.0.1"), false, HTTP)).await;
    let found = run(over(trusting(&own, None), at), at).await;
    assert_eq!(found, fails("certificate from an unknown authority"));
    let unverified = TlsCheck { verify: false, ..TlsCheck::default() };
    assert_eq!(run(over(unverified, at), at).await, ProbeResult::Pass);
}

#[tokio::test]
async fn expired_certificate_fails() {
    let own = Authority::new();
    let at = https(own.server(&own.expired("127.0.0.1"), false, HTTP)).await;
    assert_eq!(run(over(trusting(&own, None), at), at).await, fails("certificate expired"));
}

#[tokio::test]
async fn client_certificate_is_sent_if_required() {
    let own = Authority::new();
    let at = https(own.server(&own.certify("127.0.0.1"), true, HTTP)).await;
    let found = run(over(trusting(&own, None), at), at).await;
    assert_eq!(found, fails("target requires a client certificate"));
    let client = Some(own.certify("fairway.example"));
    let tls = TlsCheck { client, ..trusting(&own, None) };
    assert_eq!(run(over(tls, at), at).await, ProbeResult::Pass);
}

#[tokio::test]
async fn system_roots_reject_an_authority_of_a_test() {
    let own = Authority::new();
    let at = https(own.server(&own.certify("127.0.0.1"), false, HTTP)).await;
    match run(over(TlsCheck::default(), at), at).await {
        // Without trust anchors on this machine the probe is inconclusive.
        ProbeResult::Inconclusive(cause) => assert!(cause.0.contains("no trust anchors on this machine"), "{cause}"),
        found => assert_eq!(found, fails("certificate from an unknown authority")),
    }
}

#[tokio::test]
async fn response_without_tls_fails_with_its_cause() {
    let own = Authority::new();
    let at = answering("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    // A ClientHello has no end of header, so this server responds to the first bytes.
    let (plain, _) = serve(|mut stream| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 64]).await;
    })
    .await;
    assert_eq!(run(over(trusting(&own, None), plain), plain).await, fails("response is not TLS"));
    let found = run_short(over(trusting(&own, None), at), at).await;
    assert_eq!(found, fails("timeout after 300ms in TLS handshake"));
}
