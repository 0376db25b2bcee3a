//! Who issues JSON Web Tokens that are believed, and what is asked of them.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use fairway_model::Secret;
use hyper::{Uri, http::uri::Scheme};

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
    Discovered(IssuerUrl),
    /// This text, a JSON Web Key Set (RFC 7517 section 5).
    Given(Arc<str>),
    /// At this URL.
    Url(IssuerUrl),
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

/// A URL that is asked for keys: `https`, or `http` on this machine; without user, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerUrl(Uri);

impl IssuerUrl {
    /// Whether TLS is spoken.
    pub(super) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// Name or address, without brackets.
    pub(super) fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// The port to connect to.
    pub(super) fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or_else(|| if self.is_https() { 443 } else { 80 })
    }

    /// Host, and port if it is given.
    pub(super) fn authority(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }

    /// What is asked for there.
    pub(super) fn path(&self) -> &str {
        self.0.path()
    }

    /// The document of an issuer that says where its keys are.
    pub(super) fn discovery(&self) -> Result<Self, ()> {
        format!("{}/.well-known/openid-configuration", self.to_string().trim_end_matches('/')).parse()
    }
}

impl fmt::Display for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for IssuerUrl {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let uri: Uri = text.parse().map_err(|_| ())?;
        let host = uri.host().unwrap_or_default();
        let is_here = host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_safe = uri.scheme() == Some(&Scheme::HTTPS) || (uri.scheme() == Some(&Scheme::HTTP) && is_here);
        let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let is_bare = uri.query().is_none() && !text.contains('#');
        if is_safe && is_plain && is_bare && !host.is_empty() { Ok(Self(uri)) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_asked_for_over_tls_or_on_this_machine() {
        for (url, port) in [("https://id.example/realm", 443), ("http://127.0.0.1:9/keys", 9), ("http://[::1]/", 80)] {
            assert_eq!(url.parse::<IssuerUrl>().map(|url| url.port()), Ok(port), "{url}");
        }
        for url in
            ["http://id.example/", "ftp://id.example/", "https://a:b@id.example/", "https://id.example/?a=b", "id", "/"]
        {
            assert_eq!(url.parse::<IssuerUrl>(), Err(()), "{url}");
        }
        let realm: IssuerUrl = "https://id.example/realm/".parse().unwrap();
        let found = realm.discovery().unwrap();
        assert_eq!(found.to_string(), "https://id.example/realm/.well-known/openid-configuration");
    }

    #[test]
    fn a_shared_secret_is_no_algorithm_of_an_issuer() {
        for name in ["HS256", "HS512", "none", "None", "rs256", ""] {
            assert_eq!(name.parse::<Algorithm>(), Err(()), "{name}");
        }
        assert!("RS256".parse::<Algorithm>().is_ok() && "EdDSA".parse::<Algorithm>().is_ok());
    }
}
