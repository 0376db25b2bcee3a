//! Verification of JSON Web Tokens (RFC 7519, RFC 8725).
//!
//! Configuration and key decide on the algorithm, never the token alone. A key that is not for signing, or is for another algorithm, is
//! ignored. ring verifies signatures; it accepts RSA keys of 2,048 to 8,192 bits.

use std::sync::{Arc, Once};

use jsonwebtoken::{
    AlgorithmFamily, DecodingKey, DecodingKeyKind, Validation,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    dangerous::insecure_decode_claims,
    decode, decode_header,
    errors::{ErrorKind, new_error},
    jwk::{Jwk, JwkSet, PublicKeyUse},
    signature,
};
use ring::signature::{self as ring_signature, VerificationAlgorithm};
use serde_json::{Map, Value};

use super::{
    identity::{Identity, Subject, is_plain},
    issuer::Issuer,
    jwt_wire::Unverified,
};

/// The reason why a JSON Web Token is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// The algorithm is not one that the configuration allows for the issuer.
    #[error("the algorithm is not allowed for the issuer")]
    Algorithm,
    /// None of the expected audiences is in `aud`.
    #[error("the audience is {found}, expected {}", expected.join(" or "))]
    Audience {
        /// `aud` of the token, as JSON.
        found: String,
        /// Audiences of the configuration.
        expected: Vec<String>,
    },
    /// A required claim is missing or malformed.
    #[error("the claim {0} is missing or malformed")]
    Claim(String),
    /// `exp` is in the past.
    #[error("it has expired")]
    Expired,
    /// The header has `crit` (RFC 7515 section 4.1.11), of which nothing is supported.
    #[error("the header parameter crit is not supported")]
    Critical,
    /// `iss` is not a configured issuer.
    #[error("the issuer is not configured")]
    Issuer,
    /// The text is not a JSON Web Token.
    #[error("it is malformed")]
    Malformed,
    /// The signature was not made with the key.
    #[error("the signature is wrong")]
    Signature,
    /// `nbf` is in the future.
    #[error("it is not valid yet")]
    TooEarly,
    /// The issuer has no key with the id of the token.
    #[error("the issuer has no such key")]
    UnknownKey,
}

/// Checks that a JSON Web Key Set has keys that verify signatures.
pub fn check_keys(json: &[u8]) -> Result<(), String> {
    KeySet::read(json).map(|_| ())
}

/// Returns the issuer that a token names, and the id of its key. Nothing is verified yet.
pub(super) fn claimed<'a>(
    token: &str,
    issuers: &'a [Arc<Issuer>],
) -> Result<(&'a Arc<Issuer>, Option<String>), JwtError> {
    let header = decode_header(token).map_err(|error| reason(&error))?;
    let Unverified { iss } = insecure_decode_claims(token).map_err(|_| JwtError::Claim("iss".to_owned()))?;
    let issuer = issuers.iter().find(|issuer| issuer.issuer == iss).ok_or(JwtError::Issuer)?;
    Ok((issuer, header.kid))
}

/// The keys of an issuer that verify tokens.
#[derive(Debug)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Option<jsonwebtoken::Algorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// Parses a JSON Web Key Set. Keys that cannot verify signatures are ignored.
    pub(super) fn read(json: &[u8]) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_slice(json).map_err(|error| format!("not a JSON Web Key Set: {error}"))?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("{} keys, at most {KEYS_MAX} are allowed", set.keys.len()));
        }
        let keys: Vec<Key> = set.keys.iter().filter_map(key).collect();
        if keys.is_empty() { Err("no public key for signatures".to_owned()) } else { Ok(Self(keys)) }
    }

    /// Returns true if there is a key of this id, or if no id is given.
    pub(super) fn has(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| self.0.iter().any(|key| key.id.as_deref() == Some(id)))
    }

    /// Returns the key of an id for an algorithm. Returns `None` if several keys match, because the token does not say which.
    fn find(&self, id: Option<&str>, algorithm: jsonwebtoken::Algorithm) -> Option<&DecodingKey> {
        let fits = |key: &&Key| {
            key.key.family() == algorithm.family()
                && key.algorithm.is_none_or(|of| of == algorithm)
                && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        let mut found = self.0.iter().filter(fits);
        let first = found.next()?;
        found.next().is_none().then_some(&first.key)
    }
}

fn key(jwk: &Jwk) -> Option<Key> {
    let common = &jwk.common;
    let signs = common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    let algorithm = match &common.key_algorithm {
        None => None,
        // An algorithm for encryption, for example, does not parse: the key is ignored.
        Some(named) => Some(named.to_string().parse().ok()?),
    };
    let key = DecodingKey::from_jwk(jwk).ok().filter(|key| signs && key.family() != AlgorithmFamily::Hmac)?;
    Some(Key { id: common.key_id.clone(), algorithm, key })
}

/// Verifies a token and returns the identity that it proves.
pub(super) fn verify(token: &str, issuer: &Issuer, keys: &KeySet) -> Result<Identity, JwtError> {
    use_ring();
    let header = decode_header(token).map_err(|error| reason(&error))?;
    if header.crit.is_some() {
        return Err(JwtError::Critical);
    }
    if issuer.algorithms.iter().all(|known| known.0 != header.alg) {
        return Err(JwtError::Algorithm);
    }
    let key = keys.find(header.kid.as_deref(), header.alg).ok_or(JwtError::UnknownKey)?;
    let mut rules = Validation::new(header.alg);
    rules.set_required_spec_claims(&["exp", "iss", "aud"]);
    rules.set_issuer(&[&issuer.issuer]);
    rules.set_audience(&issuer.audiences);
    rules.validate_nbf = true;
    rules.leeway = issuer.leeway.as_secs();
    let claims = match decode::<Map<String, Value>>(token, key, &rules) {
        Ok(token) => token.claims,
        Err(error) if *error.kind() == ErrorKind::InvalidAudience => return Err(wrong_audience(token, issuer)),
        Err(error) => return Err(reason(&error)),
    };
    let missing = || JwtError::Claim(issuer.subject.clone());
    let subject = claims.get(&issuer.subject).and_then(Value::as_str).filter(|name| is_plain(name));
    let subject = Subject::Jwt(issuer.name.clone(), subject.ok_or_else(missing)?.to_owned());
    let group = |name: &str| is_plain(name).then(|| Subject::Group(issuer.name.clone(), name.to_owned()));
    let groups = match claims.get(&issuer.groups) {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).take(GROUPS_MAX).collect(),
        _ => vec![],
    };
    Ok(Identity::known(std::iter::once(subject).chain(groups.into_iter().filter_map(group))))
}

/// Returns the error of a token for another audience. Its signature has been verified, so its claims may be shown.
fn wrong_audience(token: &str, issuer: &Issuer) -> JwtError {
    let claims = insecure_decode_claims::<Map<String, Value>>(token).unwrap_or_default();
    let found = claims.get("aud").map(ToString::to_string).unwrap_or_default();
    JwtError::Audience { found, expected: issuer.audiences.iter().map(|name| format!("{name:?}")).collect() }
}

fn reason(error: &jsonwebtoken::errors::Error) -> JwtError {
    match error.kind() {
        ErrorKind::ExpiredSignature => JwtError::Expired,
        ErrorKind::ImmatureSignature => JwtError::TooEarly,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName | ErrorKind::UnsupportedAlgorithm => {
            JwtError::Algorithm
        }
        ErrorKind::InvalidIssuer => JwtError::Issuer,
        ErrorKind::InvalidSignature => JwtError::Signature,
        ErrorKind::InvalidClaimFormat(claim) | ErrorKind::MissingRequiredClaim(claim) => JwtError::Claim(claim.clone()),
        _ => JwtError::Malformed,
    }
}

/// Makes the library verify signatures with ring.
fn use_ring() {
    static ONCE: Once = Once::new();
    // An error means that a provider is installed already. Nothing else in this process installs one.
    ONCE.call_once(|| _ = RING.install_default());
}

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() })),
    // Needed only to make keys and thumbprints.
    key_utils: KeyUtils::new_unimplemented(),
};

struct RingVerifier {
    algorithm: jsonwebtoken::Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> jsonwebtoken::Algorithm {
        self.algorithm
    }
}

impl signature::Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        use jsonwebtoken::Algorithm as Known;
        let refused = |_| signature::Error::new();
        match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let rsa = match self.algorithm {
                    Known::RS256 => &ring_signature::RSA_PKCS1_2048_8192_SHA256,
                    Known::RS384 => &ring_signature::RSA_PKCS1_2048_8192_SHA384,
                    Known::RS512 => &ring_signature::RSA_PKCS1_2048_8192_SHA512,
                    Known::PS256 => &ring_signature::RSA_PSS_2048_8192_SHA256,
                    Known::PS384 => &ring_signature::RSA_PSS_2048_8192_SHA384,
                    Known::PS512 => &ring_signature::RSA_PSS_2048_8192_SHA512,
                    _ => return Err(signature::Error::new()),
                };
                ring_signature::RsaPublicKeyComponents { n, e }.verify(rsa, message, signature).map_err(refused)
            }
            DecodingKeyKind::SecretOrDer(key) => {
                let curve: &'static dyn VerificationAlgorithm = match (self.algorithm, self.key.family()) {
                    (Known::ES256, AlgorithmFamily::Ec) => &ring_signature::ECDSA_P256_SHA256_FIXED,
                    (Known::ES384, AlgorithmFamily::Ec) => &ring_signature::ECDSA_P384_SHA384_FIXED,
                    (Known::EdDSA, AlgorithmFamily::Ed) => &ring_signature::ED25519,
                    _ => return Err(signature::Error::new()),
                };
                ring_signature::UnparsedPublicKey::new(curve, key).verify(message, signature).map_err(refused)
            }
        }
    }
}

/// Maximum number of keys of an issuer; large ones publish under ten.
const KEYS_MAX: usize = 100;
/// Maximum number of groups of one token that are used. More do not fit into the head of a request.
const GROUPS_MAX: usize = 1_000;

#[cfg(test)]
pub(super) mod tests;
