//! Who may do what over the API: identities, verbs, grants; and what tells who somebody is.
//!
//! ```text
//! route ─► RequiredPermission ─────┐
//!   token, JWT, certificate ─► Identity ─► Access::decide ─► allowed, or which verbs are missing
//! ```
//!
//! `verb`, `identity`, `grant`, `origin` and `token` are pure: tables in, decision out. `jwt` verifies signatures, `keys`
//! reads and keeps the keys of issuers, `tls` makes the listener's TLS, `limits` counts requests. What answers HTTP is
//! `api::gate`; what a configuration says of all this is in `config`.
#![forbid(unsafe_code)]

mod grant;
mod identity;
mod issuer;
mod jwt;
mod jwt_wire;
mod keys;
mod limits;
mod origin;
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
    tls::ServerTls,
    token::{TokenEntry, TokenHash, new_token},
    verb::{BUILT_IN_ROLES, Verb, Verbs},
};
pub use self::{
    jwt::check_keys,
    keys::{KeyError, KeyRings},
    limits::{ClientKey, Limiter},
    origin::{Foreign, is_foreign},
    tls::{TlsFault, names_of},
};

/// Everything that a configuration says of who may do what. The default is the one without an `access` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// How TLS is spoken on the HTTP listener; none for plain HTTP.
    pub tls: Option<ServerTls>,
    /// Known tokens.
    pub tokens: Vec<TokenEntry>,
    /// Who issues JSON Web Tokens that are believed.
    pub issuers: Vec<Arc<Issuer>>,
    /// Who may do what.
    pub grants: Vec<Grant>,
    /// Most requests of one client.
    pub limits: Option<LimitSettings>,
    /// Further names by which a plain listener may be asked, in lower case and without ports.
    pub hosts: Vec<String>,
}

impl Access {
    /// Whether anybody can show who they are. Then whatever is not granted is denied; else everybody on loopback may do all.
    pub fn is_enabled(&self) -> bool {
        !self.tokens.is_empty() || !self.issuers.is_empty() || self.tls.as_ref().is_some_and(ServerTls::asks_clients)
    }

    /// Whether an identity may do this; else what it lacks.
    pub fn decide(&self, identity: &Identity, required: &RequiredPermission) -> Result<(), Denied> {
        grant::decide(&self.grants, identity, required)
    }

    /// The identity of a token that was shown, unless it is unknown or has expired.
    pub fn of_token(&self, shown: &str, now: Timestamp) -> Option<Identity> {
        let entry = token::find(&self.tokens, &TokenHash::of(shown))?;
        entry.holds(now).then(|| Identity::known([Subject::Token(entry.name.clone())]))
    }
}
