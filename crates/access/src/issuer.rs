//! Who issues JSON Web Tokens that are believed, and what is asked of them.

use std::{str::FromStr, sync::Arc, time::Duration};

use fairway_http::Url;
use fairway_model::Secret;

/// An issuer, as a configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// What grants call it.
    pub name: String,
    /// What its tokens say in `iss`, to the letter (RFC 7519 section 4.1.1).
    pub issuer: String,
    /// Whom its tokens must be meant for: one of these is in `aud` (RFC 7519 section 4.1.3). Never empty.
    pub audiences: Vec<String>,
    /// Where its keys are.
    pub keys: KeySource,
    /// Algorithms that are believed. Never empty.
    pub algorithms: Vec<Algorithm>,
    /// The claim that says who somebody is. Default `sub`.
    pub subject: String,
    /// The claim that lists groups: a text or a list of texts. Default `groups`.
    pub groups: String,
    /// How far clocks may differ. Default 30 s.
    pub leeway: Duration,
    /// How old keys may get before they are read anew. Default 10 minutes.
    pub refresh: Duration,
    /// Who vouches for the server of the keys; none for the system's trust anchors.
    pub ca: Option<Secret>,
}

impl AsRef<Self> for Issuer {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `jwks_uri` of the document at `/.well-known/openid-configuration` below it (OpenID Connect Discovery 1.0 section 4).
    Discovered(Url),
    /// This text, a JSON Web Key Set (RFC 7517 section 5).
    Given(Arc<str>),
    /// At this URL.
    Url(Url),
}

/// A signature algorithm with a public key (RFC 7518 section 3.1, RFC 8037). Those with a shared secret, and `none`, are no values
/// of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm(pub(super) jsonwebtoken::Algorithm);

impl Algorithm {
    /// Those that are believed unless a configuration names others.
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
    fn a_shared_secret_is_no_algorithm_of_an_issuer() {
        for name in ["HS256", "HS512", "none", "None", "rs256", ""] {
            assert_eq!(name.parse::<Algorithm>(), Err(()), "{name}");
        }
        assert!("RS256".parse::<Algorithm>().is_ok() && "EdDSA".parse::<Algorithm>().is_ok());
    }
}
