//! Key rings against an issuer on loopback that counts requests and can fail.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fairway_http::test_util::BlackHole;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::jwt::tests::{Signer, claims, issuer};

struct IssuerServer {
    /// The keys, or the status of an error.
    answer: Arc<Mutex<Result<Value, u16>>>,
    requests: Arc<AtomicUsize>,
    address: std::net::SocketAddr,
}

impl IssuerServer {
    async fn start(answer: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { answer: Arc::new(Mutex::new(Ok(answer))), requests: Arc::default(), address };
        let answer = Arc::clone(&server.answer);
        let requests = Arc::clone(&server.requests);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                requests.fetch_add(1, Relaxed);
                let mut request = [0; 2_048];
                let length = stream.read(&mut request).await.unwrap();
                let is_document = String::from_utf8_lossy(&request[..length]).contains("openid-configuration");
                let (status, body) = match &*answer.lock().unwrap() {
                    Ok(_) if is_document => {
                        let found =
                            json!({"issuer": "https://id.example", "jwks_uri": format!("http://{address}/keys")});
                        (200, found.to_string())
                    }
                    Ok(keys) => (200, keys.to_string()),
                    Err(status) => (*status, String::new()),
                };
                let head =
                    format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        server
    }

    fn set_answer(&self, answer: Result<Value, u16>) {
        *self.answer.lock().unwrap() = answer;
    }

    fn requests(&self) -> usize {
        self.requests.load(Relaxed)
    }

    fn access(&self) -> Access {
        let keys = KeySource::Url(url(&format!("http://{}/keys", self.address)));
        Access { issuers: vec![Arc::new(issuer(keys))], ..Access::default() }
    }
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn token(signer: &Signer, key: &str) -> String {
    signer.token(&json!({"alg": "ES256", "kid": key}), &claims())
}

#[tokio::test]
async fn keys_are_fetched_once_and_again_for_an_unknown_key_id() {
    let (old, new) = (Signer::curve(), Signer::curve());
    let server = IssuerServer::start(json!({"keys": [old.jwk("old")]})).await;
    let (access, rings, start) = (server.access(), KeyRings::default(), Instant::now());
    for _ in 0..3 {
        assert_eq!(rings.identify(&access, &token(&old, "old"), start).await.unwrap().to_string(), "jwt:corp:alice");
    }
    assert_eq!(server.requests(), 1);
    server.set_answer(Ok(json!({"keys": [old.jwk("old"), new.jwk("new")]})));
    // However many tokens name unknown keys: one fetch in ten seconds.
    for number in 0..50 {
        let refused = rings.identify(&access, &token(&new, &format!("none{number}")), start + RETRY / 2).await;
        assert!(matches!(refused, Err(KeyError::Rejected(JwtError::UnknownKey))), "{refused:?}");
    }
    assert_eq!(server.requests(), 1);
    assert!(
        rings.identify(&access, &token(&new, "new"), start + RETRY).await.is_ok(),
        "expected the new key after a rotation"
    );
    assert_eq!(server.requests(), 2);
    assert!(rings.identify(&access, &token(&old, "old"), start + RETRY).await.is_ok());
}

#[tokio::test]
async fn cached_keys_stay_valid_for_a_day_without_the_issuer() {
    let signer = Signer::curve();
    let server = IssuerServer::start(json!({"keys": [signer.jwk("k")]})).await;
    let (access, rings, start) = (server.access(), KeyRings::default(), Instant::now());
    rings.identify(&access, &token(&signer, "k"), start).await.unwrap();
    server.set_answer(Err(500));
    for hours in [1, 23] {
        let later = start + Duration::from_secs(3_600 * hours);
        assert!(rings.identify(&access, &token(&signer, "k"), later).await.is_ok(), "{hours} h");
    }
    let refused = rings.identify(&access, &token(&signer, "k"), start + KEEP).await;
    assert!(matches!(refused, Err(KeyError::Unavailable { .. })), "{refused:?}");
    server.set_answer(Ok(json!({"keys": [signer.jwk("k")]})));
    assert!(
        rings.identify(&access, &token(&signer, "k"), start + KEEP + RETRY).await.is_ok(),
        "expected the keys once the issuer is back"
    );
}

#[tokio::test]
async fn unreachable_issuer_is_not_asked_for_each_token() {
    let signer = Signer::curve();
    let server = IssuerServer::start(json!({})).await;
    server.set_answer(Err(503));
    let (access, rings, start) = (server.access(), KeyRings::default(), Instant::now());
    for _ in 0..5 {
        let refused = rings.identify(&access, &token(&signer, "k"), start).await.unwrap_err().to_string();
        assert!(refused.contains("corp") && refused.contains("503"), "{refused}");
    }
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn keys_are_discovered_only_from_metadata_of_the_same_issuer() {
    let signer = Signer::curve();
    let server = IssuerServer::start(json!({"keys": [signer.jwk("k")]})).await;
    let at = url(&format!("http://{}/", server.address));
    let found = Access { issuers: vec![Arc::new(issuer(KeySource::Discovered(at)))], ..Access::default() };
    let rings = KeyRings::default();
    assert!(rings.identify(&found, &token(&signer, "k"), Instant::now()).await.is_ok());
    let at = url(&format!("http://{}/", server.address));
    let other = Issuer { issuer: "https://other.example".to_owned(), ..issuer(KeySource::Discovered(at)) };
    let ring = KeyRing::new(Arc::new(other));
    let why = fetch(&ring.issuer, &ring.client).await.unwrap_err();
    assert!(why.contains("expected \"https://other.example\""), "{why}");
}

#[tokio::test]
async fn black_holed_ipv6_address_of_the_issuer_costs_less_than_a_second() {
    let signer = Signer::curve();
    let server = IssuerServer::start(json!({"keys": [signer.jwk("k")]})).await;
    let port = server.address.port();
    let hole = BlackHole::new(port).await;
    let keys = KeySource::Url(url(&format!("http://localhost:{port}/keys")));
    let access = Access { issuers: vec![Arc::new(issuer(keys))], ..Access::default() };
    let (rings, token) = (KeyRings::default(), token(&signer, "k"));
    hole.costs_less_than_a_second(rings.identify(&access, &token, Instant::now())).await.unwrap();
}
