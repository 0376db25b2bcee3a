//! Tests of JSON Web Tokens: valid ones, and forged ones that must be rejected.

use std::{sync::Arc, time::Duration};

use data_encoding::BASE64URL_NOPAD;
use ring::{
    hmac,
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::json;
use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

use super::*;
use crate::issuer::{Algorithm, KeySource};

/// A key of an issuer that signs.
pub(crate) enum Signer {
    Rsa(Box<RsaKeyPair>),
    Curve(Box<EcdsaKeyPair>),
}

impl Signer {
    pub(crate) fn rsa() -> Self {
        let key = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("test-key.pem")).unwrap();
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap()))
    }

    pub(crate) fn curve() -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap();
        Self::Curve(Box::new(key))
    }

    pub(crate) fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Rsa(key) => {
                let PublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                json!({"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": base64(&n), "e": base64(&e)})
            }
            Self::Curve(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "kid": id, "crv": "P-256", "x": base64(&point[1..33]), "y": base64(&point[33..])})
            }
        }
    }

    fn sign(&self, text: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
            Self::Curve(key) => key.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
        }
    }

    /// Returns a signed token.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let text = unsigned(header, claims);
        format!("{text}.{}", base64(&self.sign(&text)))
    }
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

pub(crate) fn issuer(keys: KeySource) -> Issuer {
    Issuer {
        name: "corp".to_owned(),
        issuer: "https://id.example".to_owned(),
        audiences: vec!["fairway".to_owned(), "dns".to_owned()],
        keys,
        algorithms: Algorithm::USUAL.to_vec(),
        subject: "sub".to_owned(),
        groups: "groups".to_owned(),
        leeway: Duration::from_secs(30),
        refresh: Duration::from_secs(600),
        ca: None,
    }
}

fn now() -> u64 {
    jsonwebtoken::get_current_timestamp()
}

pub(crate) fn claims() -> Value {
    json!({
        "iss": "https://id.example", "aud": "fairway", "sub": "alice", "exp": now() + 300, "nbf": now(),
        "groups": ["sre", "dns"],
    })
}

fn with(change: &Value) -> Value {
    let mut claims = claims();
    for (key, value) in change.as_object().unwrap() {
        claims[key] = value.clone();
    }
    claims
}

fn keys(signers: &[(&Signer, &str)]) -> KeySet {
    let keys: Vec<Value> = signers.iter().map(|(signer, id)| signer.jwk(id)).collect();
    KeySet::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn given() -> Issuer {
    issuer(KeySource::Given(Arc::from("")))
}

#[test]
fn signed_token_proves_subject_and_groups() {
    let (rsa, curve) = (Signer::rsa(), Signer::curve());
    let keys = keys(&[(&rsa, "r"), (&curve, "c")]);
    for token in [
        rsa.token(&json!({"alg": "RS256", "kid": "r"}), &claims()),
        curve.token(&json!({"alg": "ES256", "kid": "c", "typ": "JWT"}), &claims()),
        // Without `kid`: there is only one key for the algorithm.
        curve.token(&json!({"alg": "ES256"}), &with(&json!({"aud": ["else", "dns"]}))),
    ] {
        let names = ["jwt:corp:alice", "group:corp:sre", "group:corp:dns"].map(|name| name.parse().unwrap());
        assert_eq!(verify(&token, &given(), &keys), Ok(Identity::known(names)));
    }
    let one = rsa.token(&json!({"alg": "RS256", "kid": "r"}), &with(&json!({"groups": "sre"})));
    assert_eq!(
        verify(&one, &given(), &keys).unwrap(),
        Identity::known(["jwt:corp:alice", "group:corp:sre"].map(|name| name.parse().unwrap()))
    );
}

#[test]
fn each_invalid_claim_is_rejected_with_its_reason() {
    let rsa = Signer::rsa();
    let keys = keys(&[(&rsa, "r")]);
    let missing = |claim: &str| JwtError::Claim(claim.to_owned());
    let audience = |found: &str| JwtError::Audience {
        found: found.to_owned(),
        expected: ["\"fairway\"", "\"dns\""].map(str::to_owned).into(),
    };
    for (change, why) in [
        (json!({"exp": now() - 31}), JwtError::Expired),
        (json!({"exp": null}), missing("exp")),
        (json!({"exp": "9999999999"}), missing("exp")),
        (json!({"nbf": now() + 60}), JwtError::TooEarly),
        (json!({"nbf": "soon"}), missing("nbf")),
        (json!({"aud": "other"}), audience("\"other\"")),
        (json!({"aud": ["other", "Fairway"]}), audience("[\"other\",\"Fairway\"]")),
        (json!({"aud": []}), audience("[]")),
        (json!({"aud": null}), missing("aud")),
        (json!({"iss": "https://id.example/"}), JwtError::Issuer),
        (json!({"iss": null}), missing("iss")),
        (json!({"sub": null}), missing("sub")),
        (json!({"sub": 7}), missing("sub")),
        (json!({"sub": ""}), missing("sub")),
        (json!({"sub": "a\nb"}), missing("sub")),
    ] {
        let token = rsa.token(&json!({"alg": "RS256", "kid": "r"}), &with(&change));
        assert_eq!(verify(&token, &given(), &keys), Err(why), "{change}");
    }
    let almost = rsa.token(&json!({"alg": "RS256", "kid": "r"}), &with(&json!({"exp": now() - 5})));
    assert!(verify(&almost, &given(), &keys).is_ok(), "clocks may differ by 30 s");
}

#[test]
fn token_cannot_choose_its_verification() {
    let (rsa, curve, other) = (Signer::rsa(), Signer::curve(), Signer::curve());
    let keys = keys(&[(&rsa, "r"), (&curve, "c")]);
    let none = |alg: &str| format!("{}.", unsigned(&json!({"alg": alg, "kid": "r"}), &claims()));
    // The public key as the secret of an HMAC: a verifier that trusts the header would accept it.
    let text = unsigned(&json!({"alg": "HS256", "kid": "r"}), &claims());
    let PublicKeyComponents::<Vec<u8>> { n, .. } = match &rsa {
        Signer::Rsa(key) => key.public().into(),
        Signer::Curve(_) => unreachable!(),
    };
    let hmac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &n), text.as_bytes());
    let mac = format!("{text}.{}", base64(hmac.as_ref()));
    let good = rsa.token(&json!({"alg": "RS256", "kid": "r"}), &claims());
    let (head, signature) = good.rsplit_once('.').unwrap();
    let admin = unsigned(&json!({"alg": "RS256", "kid": "r"}), &with(&json!({"sub": "root"})));
    for (token, why) in [
        (none("none"), JwtError::Malformed),
        (none("None"), JwtError::Malformed),
        (mac, JwtError::Algorithm),
        (format!("{admin}.{signature}"), JwtError::Signature),
        (format!("{head}."), JwtError::Signature),
        (format!("{head}.{}", base64(&[0; 256])), JwtError::Signature),
        (other.token(&json!({"alg": "ES256", "kid": "c"}), &claims()), JwtError::Signature),
        (other.token(&json!({"alg": "ES256", "kid": "c", "jwk": other.jwk("c")}), &claims()), JwtError::Signature),
        (other.token(&json!({"alg": "ES256", "kid": "o"}), &claims()), JwtError::UnknownKey),
        (curve.token(&json!({"alg": "RS256", "kid": "c"}), &claims()), JwtError::UnknownKey),
        (rsa.token(&json!({"alg": "RS512", "kid": "r"}), &claims()), JwtError::Algorithm),
        (rsa.token(&json!({"alg": "RS256", "kid": "r", "crit": ["exp"]}), &claims()), JwtError::Critical),
        ("a.b.c".to_owned(), JwtError::Malformed),
        ("..".to_owned(), JwtError::Malformed),
        (String::new(), JwtError::Malformed),
    ] {
        assert_eq!(verify(&token, &given(), &keys), Err(why), "{token}");
    }
}

#[test]
fn unusable_keys_are_ignored_and_too_many_are_rejected() {
    let rsa = Signer::rsa();
    let changed = |change: &Value| {
        let mut key = rsa.jwk("r");
        for (name, value) in change.as_object().unwrap() {
            key[name] = value.clone();
        }
        KeySet::read(json!({"keys": [key]}).to_string().as_bytes()).map(|_| ())
    };
    assert_eq!(changed(&json!({})), Ok(()));
    assert_eq!(changed(&json!({"use": null, "alg": null})), Ok(()));
    for change in
        [json!({"use": "enc"}), json!({"alg": "RSA-OAEP"}), json!({"kty": "oct", "k": "AAAA"}), json!({"kty": "new"})]
    {
        assert!(changed(&change).is_err(), "{change}");
    }
    let many = json!({"keys": vec![rsa.jwk("r"); 101]}).to_string();
    assert!(KeySet::read(many.as_bytes()).unwrap_err().contains("101 keys"));
    for text in ["", "[]", "{\"keys\": 7}", "{\"keys\": []}"] {
        assert!(KeySet::read(text.as_bytes()).is_err(), "{text}");
    }
    // Two keys of one id and kind: the token does not say which.
    let two = KeySet::read(json!({"keys": [rsa.jwk("r"), rsa.jwk("r")]}).to_string().as_bytes()).unwrap();
    let token = rsa.token(&json!({"alg": "RS256", "kid": "r"}), &claims());
    assert_eq!(verify(&token, &given(), &two), Err(JwtError::UnknownKey));
}
