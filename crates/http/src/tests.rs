//! Calls over real sockets of the loopback interface.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fairway_model::Secret;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpSocket, UnixListener},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::{Client, Failure, Options, Proxies, Request, Route, Tls, Url, test_util::BlackHole};

/// Reads the head of a request; empty at the end of the connection.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => text.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(text).unwrap()
}

/// Answers each request of a connection with these bytes.
async fn answer_all(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) {
    while !head(&mut stream).await.is_empty() {
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// A server that answers each request with these bytes; its URL, and the number of connections so far.
async fn server(answer: &'static str) -> (Url, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/a", listener.local_addr().unwrap())).unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(answer_all(stream, answer));
        }
    });
    (url, accepted)
}

fn options() -> Options {
    Options { route: Route::Network(Proxies::none()), shows_path: true, ..Options::new(Duration::from_secs(5), 64) }
}

fn client() -> Client {
    Client::new(options())
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

#[tokio::test]
async fn second_call_uses_the_same_connection() {
    let (url, accepted) = server(HELLO).await;
    let client = client();
    for _ in 0..2 {
        let response = client.send(Request::get(url.clone())).await.unwrap();
        assert_eq!((response.status.as_u16(), &*response.body), (200, &b"hello"[..]));
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1, "connections for two calls");
}

#[tokio::test]
async fn body_over_the_bound_is_rejected() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 65\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n30\r\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n\
         30\r\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n",
    ] {
        let (url, _) = server(answer).await;
        let error = client().send(Request::get(url.clone())).await.unwrap_err();
        assert_eq!(error.to_string(), format!("GET {url}: the body of the response is over 64 bytes"));
    }
}

#[tokio::test]
async fn redirect_is_returned_and_not_followed() {
    let (url, accepted) = server("HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n").await;
    let response = client().send(Request::get(url.clone())).await.unwrap();
    assert_eq!((response.status.as_u16(), accepted.load(Ordering::SeqCst)), (302, 1));
    assert_eq!(response.require_success().unwrap_err().to_string(), format!("GET {url}: status 302 Found"));
}

/// Returns an address without a listener, with the socket that keeps parallel tests from getting its port.
fn closed_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[tokio::test]
async fn failed_call_says_what_went_wrong() {
    let (_held, closed) = closed_port();
    let error =
        client().send(Request::get(Url::parse(&format!("http://{closed}/a?secret")).unwrap())).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Connect(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("GET http://{closed}/a: cannot connect: Connection refused")), "{text}");

    let (url, _) = server("220 mail.example\r\n").await;
    let error = client().send(Request::get(url)).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Broken(_)), "{error:?}");

    let error = client().send(Request::get(Url::parse("http://name.invalid/").unwrap())).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Resolve(_)), "{error:?}");
}

#[tokio::test]
async fn silent_server_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let client = Client::new(Options { timeout: Duration::from_millis(200), ..options() });
    let error = client.send(Request::get(url.clone())).await.unwrap_err();
    assert_eq!(error.to_string(), format!("GET {url}: no answer within 200ms"));
}

#[tokio::test]
async fn unix_socket_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move { answer_all(listener.accept().await.unwrap().0, HELLO).await });
    let url = Url::parse("http://fairway/v1/state").unwrap();
    let to = |path| Client::new(Options { route: Route::UnixSocket(path), ..options() });
    assert_eq!(to(path).send(Request::get(url.clone())).await.unwrap().body, b"hello");
    let absent = folder.path().join("absent.sock");
    let error = to(absent.clone()).send(Request::get(url)).await.unwrap_err().to_string();
    let expected = format!("GET http://fairway/v1/state over {}: cannot connect: No such file", absent.display());
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn black_holed_ipv6_address_costs_less_than_a_second() {
    let (url, _) = server(HELLO).await;
    let hole = BlackHole::new(url.port()).await;
    let url = Url::parse(&format!("http://localhost:{}/", url.port())).unwrap();
    let answer = hole.costs_less_than_a_second(client().send(Request::get(url))).await.unwrap();
    assert_eq!(answer.body, b"hello");
}

/// Accepts connections, passes on the head of the first request, and sends nothing.
async fn hanging_proxy() -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://me:secret@{}", listener.local_addr().unwrap());
    let seen = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = head(&mut stream).await;
        // Open until the caller gives up.
        drop(stream.read_u8().await);
        head
    });
    (url, seen)
}

#[tokio::test]
async fn hanging_proxy_is_a_clear_error_within_the_timeout() {
    let (proxy, seen) = hanging_proxy().await;
    let proxies = Proxies { https: Some(proxy), ..Proxies::none() };
    let timeout = Duration::from_millis(500);
    let tls = trusting(&authority().0);
    let client = Client::new(Options { timeout, tls, route: Route::Network(proxies), ..options() });
    let begun = Instant::now();
    let error =
        client.send(Request::get(Url::parse("https://id.example/keys").unwrap())).await.unwrap_err().to_string();
    assert!(begun.elapsed() < timeout * 2, "{:?}", begun.elapsed());
    assert!(error.starts_with("GET https://id.example/keys through proxy http://127.0.0.1:"), "{error}");
    assert!(error.contains("no connection within 400ms") && !error.contains("secret"), "{error}");
    let seen = seen.await.unwrap();
    assert!(seen.starts_with("CONNECT id.example:443 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.to_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0"), "{seen}");
}

#[tokio::test]
async fn proxy_is_not_used_for_loopback_and_no_proxy() {
    let (url, _) = server(HELLO).await;
    let (_held, closed) = closed_port();
    let proxies =
        Proxies { http: Some(format!("http://{closed}")), https: None, no_proxy: "direct.localhost".to_owned() };
    let options = Options { route: Route::Network(proxies), ..options() };
    let client = Client::new(options);
    assert!(client.send(Request::get(url.clone())).await.is_ok(), "to loopback");
    let direct = Url::parse(&format!("http://direct.localhost:{}/", url.port())).unwrap();
    assert!(client.send(Request::get(direct)).await.is_ok(), "to a host of NO_PROXY");
    let error = client.send(Request::get(Url::parse("http://other.test/").unwrap())).await.unwrap_err().to_string();
    assert!(error.contains(&format!("through proxy http://{closed}: cannot connect")), "{error}");
}

#[tokio::test]
async fn proxy_that_is_no_http_url_is_rejected() {
    for text in ["socks5://me:secret@proxy.test:1080", "http://", "no url"] {
        let proxies = Proxies { https: Some(text.to_owned()), ..Proxies::none() };
        let client = Client::new(Options { route: Route::Network(proxies), ..options() });
        let error = client.send(Request::get(Url::parse("http://a.test").unwrap())).await.unwrap_err();
        let is_proxy =
            matches!(&error.failure, Failure::Setup(error) if error.to_string().starts_with("HTTPS_PROXY is not"));
        assert!(is_proxy, "{text}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

/// Environment variables belong to a whole process, so this test runs itself in a child.
#[tokio::test]
async fn https_proxy_of_the_environment_is_used() {
    const CHILD: &str = "FAIRWAY_HTTP_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let tls = trusting(&authority().0);
        let client = Client::new(Options { tls, ..Options::new(Duration::from_millis(500), 64) });
        let error = client.send(Request::get(Url::parse("https://id.example/").unwrap())).await.unwrap_err();
        assert!(error.attempt.contains("through proxy"), "{error}");
        return;
    }
    let (proxy, seen) = hanging_proxy().await;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "tests::https_proxy_of_the_environment_is_used"]);
    child.env(CHILD, "1").env("HTTPS_PROXY", proxy).env_remove("NO_PROXY").env_remove("no_proxy");
    let output = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(seen.await.unwrap().starts_with("CONNECT id.example:443 "));
}

fn trusting(ca: &Secret) -> Tls {
    Tls { ca: Some(ca.clone()), identity: None }
}

/// A certificate authority in PEM, and the TLS configuration of a server whose certificate for `localhost` it signed.
fn authority() -> (Secret, ServerConfig) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    (Secret::new(authority.pem()), config)
}

#[tokio::test]
async fn tls_server_must_have_a_certificate_of_the_configured_ca() {
    let (ca, server) = authority();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("https://localhost:{}/", listener.local_addr().unwrap().port())).unwrap();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(server));
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer_all(stream, HELLO).await;
            }
        }
    });
    let with = |ca: &Secret| Client::new(Options { tls: trusting(ca), ..options() });
    let error = with(&authority().0).send(Request::get(url.clone())).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Tls(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("TLS failed: invalid peer certificate: BadSignature; check the server's certificate"),
        "{text}"
    );
    assert_eq!(with(&ca).send(Request::get(url)).await.unwrap().body, b"hello");
}
