//! Trusted issuers of JSON Web Tokens, and the rules for their tokens.

use std::{str::FromStr, sync::Arc, time::Duration};

use fairway_http::Url;
use fairway_model::Secret;

/// A trusted issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Name of the issuer in grants.
    pub name: String,
    /// Exact value of `iss` in its tokens (RFC 7519 section 4.1.1).
    pub issuer: String,
    /// Accepted audiences: one of them must be in `aud` (RFC 7519 section 4.1.3). Never empty.
    pub audiences: Vec<String>,
    /// Source of its keys.
    pub keys: KeySource,
    /// Accepted algorithms. Never empty.
    pub algorithms: Vec<Algorithm>,
    /// The claim with the name of the subject. Default `sub`.
    pub subject: String,
    /// The claim that lists groups: a text or a list of texts. Default `groups`.
    pub groups: String,
    /// Accepted difference of clocks. Default 30 s.
    pub leeway: Duration,
    /// Age of the keys at which they are fetched again. Default 10 minutes.
    pub refresh: Duration,
    /// Trust anchors for the server of the keys, in PEM; `None` for those of the system.
    pub ca: Option<Secret>,
}

/// Source of an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `jwks_uri` of the document at `/.well-known/openid-configuration` below it (OpenID Connect Discovery 1.0 section 4).
    Discovered(Url),
    /// A JSON Web Key Set in the configuration (RFC 7517 section 5).
    Given(Arc<str>),
    /// The URL of a JSON Web Key Set.
    Url(Url),
}

/// A signature algorithm with a public key (RFC 7518 section 3.1, RFC 8037). Algorithms with a shared secret, and `none`, are
/// not values of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm(pub(super) jsonwebtoken::Algorithm);

impl Algorithm {
    /// The algorithms that are accepted by default.
    pub const USUAL: [Self; 2] = [Self(jsonwebtoken::Algorithm::RS256), Self(jsonwebtoken::Algorithm::ES256)];
}

impl FromStr for Algorithm {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let known = text.parse::<jsonwebtoken::Algorithm>().map_err(|_| ())?;
        if known.family() == jsonwebtoken::AlgorithmFamily::Hmac { Err(()) } else { Ok(Self(known)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithm_with_shared_secret_is_rejected() {
        for name in ["HS256", "HS512", "none", "None", "rs256", ""] {
            assert_eq!(name.parse::<Algorithm>(), Err(()), "{name}");
        }
        assert!("RS256".parse::<Algorithm>().is_ok() && "EdDSA".parse::<Algorithm>().is_ok());
    }
}
