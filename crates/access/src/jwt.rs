//! JSON Web Tokens: what their signatures and claims prove (RFC 7519, RFC 8725).
//!
//! The algorithm is taken from the configuration and the key, never from the token alone; a key that is not for signing, or for
//! another algorithm, is passed over. Signatures are checked by ring, which takes RSA keys of 2,048 to 8,192 bits.

use std::sync::Once;

use jsonwebtoken::{
    AlgorithmFamily, DecodingKey, DecodingKeyKind, Validation,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    dangerous::insecure_decode_claims,
    decode, decode_header,
    errors::{ErrorKind, new_error},
    jwk::{Jwk, JwkSet, PublicKeyUse},
    signature,
};
use ring::signature as ring_signature;
use serde_json::{Map, Value};

use super::{
    identity::{Identity, Subject, is_plain},
    issuer::Issuer,
    jwt_wire::Unverified,
};

/// Why a JSON Web Token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// It is signed in a way that is not believed.
    #[error("its algorithm is none of the issuer's")]
    Algorithm,
    /// It is meant for somebody else.
    #[error("its audience is another")]
    Audience,
    /// A claim that is needed is not there, or is nothing of the kind.
    #[error("its claim {0} is missing or malformed")]
    Claim(String),
    /// It has ended.
    #[error("it has expired")]
    Expired,
    /// It wants something understood that is not.
    #[error("its header has crit, and nothing critical is understood")]
    Critical,
    /// Nobody who is believed issued it.
    #[error("its issuer is not known")]
    Issuer,
    /// It is no JSON Web Token.
    #[error("it is malformed")]
    Malformed,
    /// Its signature is not of the key.
    #[error("its signature does not fit")]
    Signature,
    /// It has not begun.
    #[error("it is not valid yet")]
    TooEarly,
    /// The issuer has no such key.
    #[error("its key is none of the issuer's")]
    UnknownKey,
}

/// What is wrong with a JSON Web Key Set; none if it has keys that sign.
pub fn check_keys(octets: &[u8]) -> Result<(), String> {
    KeySet::read(octets).map(|_| ())
}

/// Which of the issuers a token says it is from, and by which key; nothing of it is believed yet.
pub(super) fn claimed<'a, T>(
    token: &str,
    issuers: impl IntoIterator<Item = &'a T>,
) -> Result<(&'a T, Option<String>), JwtError>
where
    T: AsRef<Issuer> + 'a,
{
    let header = decode_header(token).map_err(|error| told(&error))?;
    let Unverified { iss } = insecure_decode_claims(token).map_err(|_| JwtError::Claim("iss".to_owned()))?;
    let issuer = issuers.into_iter().find(|issuer| issuer.as_ref().issuer == iss).ok_or(JwtError::Issuer)?;
    Ok((issuer, header.kid))
}

/// The keys of an issuer that sign tokens.
#[derive(Debug)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Option<jsonwebtoken::Algorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// Reads a JSON Web Key Set; keys that are for something else are left out.
    pub(super) fn read(octets: &[u8]) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_slice(octets).map_err(|error| format!("no JSON Web Key Set: {error}"))?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("{} keys are more than {KEYS_MAX}", set.keys.len()));
        }
        let keys: Vec<Key> = set.keys.iter().filter_map(key).collect();
        if keys.is_empty() { Err("it has no public key that signs".to_owned()) } else { Ok(Self(keys)) }
    }

    /// Whether a key of this id is among them; without an id, any will do.
    pub(super) fn has(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| self.0.iter().any(|key| key.id.as_deref() == Some(id)))
    }

    /// The key of an id for an algorithm; without an id, the only one that fits.
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
        // One that is for something else.
        Some(named) => Some(named.to_string().parse().ok()?),
    };
    let key = DecodingKey::from_jwk(jwk).ok().filter(|key| signs && key.family() != AlgorithmFamily::Hmac)?;
    Some(Key { id: common.key_id.clone(), algorithm, key })
}

/// Who a token proves that somebody is.
pub(super) fn verify(token: &str, issuer: &Issuer, keys: &KeySet) -> Result<Identity, JwtError> {
    use_ring();
    let header = decode_header(token).map_err(|error| told(&error))?;
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
    let claims = decode::<Map<String, Value>>(token, key, &rules).map_err(|error| told(&error))?.claims;
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

fn told(error: &jsonwebtoken::errors::Error) -> JwtError {
    match error.kind() {
        ErrorKind::ExpiredSignature => JwtError::Expired,
        ErrorKind::ImmatureSignature => JwtError::TooEarly,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName | ErrorKind::UnsupportedAlgorithm => {
            JwtError::Algorithm
        }
        ErrorKind::InvalidAudience => JwtError::Audience,
        ErrorKind::InvalidIssuer => JwtError::Issuer,
        ErrorKind::InvalidSignature => JwtError::Signature,
        ErrorKind::InvalidClaimFormat(claim) | ErrorKind::MissingRequiredClaim(claim) => JwtError::Claim(claim.clone()),
        _ => JwtError::Malformed,
    }
}

/// Has signatures checked by ring, from the first token on.
fn use_ring() {
    static ONCE: Once = Once::new();
    // Nothing else in this process has a say in it.
    ONCE.call_once(|| _ = RING.install_default());
}

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() })),
    // For making keys and thumbprints, which nothing here does.
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
        let rsa = match self.algorithm {
            Known::RS256 => &ring_signature::RSA_PKCS1_2048_8192_SHA256,
            Known::RS384 => &ring_signature::RSA_PKCS1_2048_8192_SHA384,
            Known::RS512 => &ring_signature::RSA_PKCS1_2048_8192_SHA512,
            Known::PS256 => &ring_signature::RSA_PSS_2048_8192_SHA256,
            Known::PS384 => &ring_signature::RSA_PSS_2048_8192_SHA384,
            Known::PS512 => &ring_signature::RSA_PSS_2048_8192_SHA512,
            _ => return self.verify_curve(message, signature),
        };
        match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => ring_signature::RsaPublicKeyComponents { n, e }
                .verify(rsa, message, signature)
                .map_err(|_| signature::Error::new()),
            DecodingKeyKind::SecretOrDer(_) => Err(signature::Error::new()),
        }
    }
}

impl RingVerifier {
    fn verify_curve(&self, message: &[u8], signature: &[u8]) -> Result<(), signature::Error> {
        use jsonwebtoken::Algorithm as Known;
        let curve: &'static dyn ring_signature::VerificationAlgorithm = match (self.algorithm, self.key.family()) {
            (Known::ES256, AlgorithmFamily::Ec) => &ring_signature::ECDSA_P256_SHA256_FIXED,
            (Known::ES384, AlgorithmFamily::Ec) => &ring_signature::ECDSA_P384_SHA384_FIXED,
            (Known::EdDSA, AlgorithmFamily::Ed) => &ring_signature::ED25519,
            _ => return Err(signature::Error::new()),
        };
        let key = self.key.try_get_as_bytes().map_err(|_| signature::Error::new())?;
        let key = ring_signature::UnparsedPublicKey::new(curve, key);
        key.verify(message, signature).map_err(|_| signature::Error::new())
    }
}

/// Most keys of an issuer; large ones publish under ten.
const KEYS_MAX: usize = 100;
/// Most groups that are heeded of one token: more than fit into a request's head.
const GROUPS_MAX: usize = 1_000;

#[cfg(test)]
pub(super) mod tests;
