//! Rings against an issuer on loopback that counts who asks, and can be silenced.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::jwt::tests::{Signer, claims, issuer};

/// An issuer's server: what it answers, and how often it was asked.
struct Server {
    answer: Arc<Mutex<Result<Value, u16>>>,
    asked: Arc<AtomicUsize>,
    address: std::net::SocketAddr,
}

impl Server {
    async fn start(answer: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { answer: Arc::new(Mutex::new(Ok(answer))), asked: Arc::default(), address };
        let (answer, asked) = (Arc::clone(&server.answer), Arc::clone(&server.asked));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                asked.fetch_add(1, Relaxed);
                let mut octets = [0; 2_048];
                let length = stream.read(&mut octets).await.unwrap();
                let is_document = String::from_utf8_lossy(&octets[..length]).contains("openid-configuration");
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
                    format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        server
    }

    fn says(&self, answer: Result<Value, u16>) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> usize {
        self.asked.load(Relaxed)
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
async fn keys_are_read_once_and_anew_when_a_token_names_another() {
    let (old, new) = (Signer::curve(), Signer::curve());
    let server = Server::start(json!({"keys": [old.jwk("old")]})).await;
    let (access, rings, start) = (server.access(), KeyRings::default(), Instant::now());
    for _ in 0..3 {
        assert_eq!(rings.identify(&access, &token(&old, "old"), start).await.unwrap().to_string(), "jwt:corp:alice");
    }
    assert_eq!(server.asked(), 1);
    server.says(Ok(json!({"keys": [old.jwk("old"), new.jwk("new")]})));
    // However many ask for keys that are not there: one reading in ten seconds.
    for number in 0..50 {
        let refused = rings.identify(&access, &token(&new, &format!("none{number}")), start + RETRY / 2).await;
        assert!(matches!(refused, Err(KeyError::Refused(JwtError::UnknownKey))), "{refused:?}");
    }
    assert_eq!(server.asked(), 1);
    assert!(rings.identify(&access, &token(&new, "new"), start + RETRY).await.is_ok(), "a rotation is noticed");
    assert_eq!(server.asked(), 2);
    assert!(rings.identify(&access, &token(&old, "old"), start + RETRY).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_is_gone_costs_nobody_who_is_known_for_a_day() {
    let signer = Signer::curve();
    let server = Server::start(json!({"keys": [signer.jwk("k")]})).await;
    let (access, rings, start) = (server.access(), KeyRings::default(), Instant::now());
    rings.identify(&access, &token(&signer, "k"), start).await.unwrap();
    server.says(Err(500));
    for hours in [1, 23] {
        let later = start + Duration::from_secs(3_600 * hours);
        assert!(rings.identify(&access, &token(&signer, "k"), later).await.is_ok(), "{hours} h");
    }
    let refused = rings.identify(&access, &token(&signer, "k"), start + KEEP).await;
    assert!(matches!(refused, Err(KeyError::Unreadable { .. })), "{refused:?}");
    server.says(Ok(json!({"keys": [signer.jwk("k")]})));
    assert!(rings.identify(&access, &token(&signer, "k"), start + KEEP + RETRY).await.is_ok(), "it is back");
}

#[tokio::test]
async fn without_keys_nothing_can_be_told_and_it_is_not_asked_at_each_request() {
    let signer = Signer::curve();
    let server = Server::start(json!({})).await;
    server.says(Err(503));
    let (access, rings, start) = (server.access(), KeyRings::default(), Instant::now());
    for _ in 0..5 {
        let refused = rings.identify(&access, &token(&signer, "k"), start).await.unwrap_err().to_string();
        assert!(refused.contains("corp") && refused.contains("503"), "{refused}");
    }
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn keys_are_found_below_the_issuer_that_speaks_of_itself() {
    let signer = Signer::curve();
    let server = Server::start(json!({"keys": [signer.jwk("k")]})).await;
    let at = url(&format!("http://{}/", server.address));
    let found = Access { issuers: vec![Arc::new(issuer(KeySource::Discovered(at)))], ..Access::default() };
    let rings = KeyRings::default();
    assert!(rings.identify(&found, &token(&signer, "k"), Instant::now()).await.is_ok());
    let at = url(&format!("http://{}/", server.address));
    let other = Issuer { issuer: "https://other.example".to_owned(), ..issuer(KeySource::Discovered(at)) };
    let ring = KeyRing::new(Arc::new(other));
    let why = read(&ring.issuer, &ring.client).await.unwrap_err();
    assert!(why.contains("expected \"https://other.example\""), "{why}");
}
