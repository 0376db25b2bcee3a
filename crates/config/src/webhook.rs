//! Settings of the webhook for ExternalDNS, and the check of its credentials.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use fairway_access::{ServerTls, Subject, TokenHash};
use fairway_model::SharedNamePolicy;

/// Webhook for ExternalDNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Address for ExternalDNS (start). Default `127.0.0.1:8888`.
    pub listen: SocketAddr,
    /// TLS. Default: plain HTTP.
    pub tls: Option<ServerTls>,
    /// Hash of the token that each call must send; with `owners`, each call without base path. Default: no token is required.
    pub token: Option<TokenHash>,
    /// Owners with their credentials. Default: none, so that every base path is open to callers with `token` or a client certificate.
    pub owners: BTreeMap<String, OwnerCredentials>,
    /// Policy for names that several owners contribute without set identifiers.
    pub shared: SharedNamePolicy,
    /// Time without a call after which an owner's contributions lose weight; after twice that time they are removed.
    /// `None`: never.
    pub lease: Option<Duration>,
}

/// Credentials that open the base path of an owner of the webhook: either of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerCredentials {
    /// Hash of its token.
    pub token: Option<TokenHash>,
    /// A name of its client certificate.
    pub certificate: Option<Subject>,
}

impl WebhookSettings {
    /// Returns true if a token, or none, and the subjects of a client certificate, or none, allow calls of an owner, or calls without
    /// base path if it is `None`.
    pub fn accepts(&self, owner: Option<&str>, token: Option<&str>, certificate: &[Subject]) -> bool {
        let is_of = |hash: &TokenHash| token.is_some_and(|token| TokenHash::of(token) == *hash);
        let has_root = self.token.as_ref().is_some_and(is_of);
        match owner {
            Some(owner) if !self.owners.is_empty() => self.owners.get(owner).is_some_and(|known| {
                known.token.as_ref().is_some_and(is_of)
                    || known.certificate.as_ref().is_some_and(|name| certificate.contains(name))
            }),
            // The certificate of an owner opens only its own base path.
            None if !self.owners.is_empty() => has_root,
            _ if self.tls.as_ref().is_some_and(ServerTls::asks_clients) => has_root || !certificate.is_empty(),
            _ => has_root || self.token.is_none(),
        }
    }
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8888)),
            tls: None,
            token: None,
            owners: BTreeMap::new(),
            shared: SharedNamePolicy::default(),
            lease: None,
        }
    }
}
