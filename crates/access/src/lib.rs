//! Access control of the API: identities, verbs, grants, and the credentials that prove an identity.
//!
//! ```text
//! route ─► RequiredPermission ─────┐
//!   token, JWT, certificate ─► Identity ─► Access::decide ─► allowed, or the missing verbs
//! ```
//!
//! `verb`, `identity`, `grant`, `tenant`, `origin` and `token` are pure: tables in, decision out. `jwt` verifies signatures, `keys`
//! fetches and caches the keys of issuers, `tls` builds the listener's TLS, `limits` counts requests. The HTTP part is in the crate
//! api, and the configuration is parsed in the crate config.
#![forbid(unsafe_code)]

mod grant;
mod identity;
mod issuer;
mod jwt;
mod jwt_wire;
mod keys;
mod limits;
mod origin;
mod tenant;
mod tls;
mod token;
mod verb;

use std::sync::Arc;

use fairway_model::Timestamp;

pub use self::{
    grant::{Denied, Grant, Projects, RequiredPermission},
    identity::{Identity, Subject},
    issuer::{Algorithm, Issuer, KeySource},
    limits::LimitSettings,
    tenant::{CHALLENGE, NameGrant, NameGrants, NotGranted, RecordTypes, Tenant},
    tls::ServerTls,
    token::{TokenEntry, TokenHash, new_token},
    verb::{BUILT_IN_ROLES, Verb, Verbs},
};
pub use self::{
    jwt::check_keys,
    keys::{KeyError, KeyRings},
    limits::{ClientKey, Limiter},
    origin::{ForeignRequest, check_origin},
    tls::{ServerTlsError, subjects_of},
};

/// Settings of access control. The default is that of a configuration without an `access` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// TLS of the HTTP listener; `None` for plain HTTP.
    pub tls: Option<ServerTls>,
    /// Known tokens.
    pub tokens: Vec<TokenEntry>,
    /// Trusted issuers of JSON Web Tokens.
    pub issuers: Vec<Arc<Issuer>>,
    /// Granted verbs.
    pub grants: Vec<Grant>,
    /// Names that tenants may claim.
    pub names: NameGrants,
    /// Limits per client; `None` for no limits.
    pub limits: Option<LimitSettings>,
    /// Additional host names that the plain listener accepts, in lower case and without ports.
    pub hosts: Vec<String>,
}

impl Access {
    /// Returns true if a client can authenticate. Then everything that is not granted is denied; otherwise every client on loopback may do
    /// everything.
    pub fn is_enabled(&self) -> bool {
        !self.tokens.is_empty() || !self.issuers.is_empty() || self.tls.as_ref().is_some_and(ServerTls::asks_clients)
    }

    /// Returns the identity of a token, or `None` if the token is unknown or has expired.
    pub fn identify_token(&self, token: &str, now: Timestamp) -> Option<Identity> {
        let entry = token::find(&self.tokens, &TokenHash::of(token))?;
        let is_valid = entry.expires.is_none_or(|expires| now < expires);
        is_valid.then(|| Identity::known([Subject::Token(entry.name.clone())]))
    }
}
