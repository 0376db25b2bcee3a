//! Who may do what over the API, as it stands in a file.

use std::time::Duration;

use fairway_model::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{Int, List, Text},
    values_access::{AccessName, SecureUrl},
    values_wire::{As, Reference},
};
use fairway_access::{Algorithm, Subject, TokenHash, Verb};

/// Who may do what over the API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Access {
    /// TLS of the HTTP listener. Default: plain HTTP, which is for loopback addresses only.
    pub(super) tls: Option<ServerTls>,
    /// Known tokens, by their hashes. `fairway token create` makes one.
    #[serde(default)]
    pub(super) tokens: Vec<Token>,
    /// Issuers of JSON Web Tokens (OpenID Connect) that are believed.
    #[serde(default)]
    pub(super) issuers: Vec<Issuer>,
    /// Roles beside the built-in ones: `admin` (every verb), `editor` (observe, read, write, delete), `operator` (observe, read,
    /// force, operate, report), `viewer` (observe, read).
    #[serde(default)]
    pub(super) roles: Vec<Role>,
    /// Who has which role where. What is not granted is denied.
    #[serde(default)]
    pub(super) grants: Vec<Grant>,
    /// Most requests of one client. Default: those below; without tokens, issuers and certificates of clients, none.
    pub(super) limits: Option<Limits>,
    /// Names by which the plain HTTP listener may be asked, beside `localhost` and loopback addresses: for a proxy before it.
    pub(super) hosts: Option<List<Text<1, 253>, 1, 64>>,
}

/// TLS of the HTTP listener. Its files are read again with each reload.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ServerTls {
    /// Certificate chain (PEM), the server's own first.
    pub(super) cert: Reference,
    /// Key of the certificate (PEM).
    pub(super) key: Reference,
    /// Who vouches for the certificates of clients (PEM). Default: clients show none.
    pub(super) client_ca: Option<Reference>,
}

/// A token, by its hash.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Token {
    /// What its holder is called, in grants, logs and histories.
    pub(super) name: As<AccessName>,
    /// SHA-256 of the token, as `fairway token create` prints it.
    pub(super) sha256: As<TokenHash>,
    /// When it ends by itself. Default: never.
    pub(super) expires: Option<As<Timestamp>>,
}

/// An issuer of JSON Web Tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Issuer {
    /// What grants call it.
    pub(super) name: As<AccessName>,
    /// What its tokens say in `iss`, to the letter.
    pub(super) issuer: Text<1, 2048>,
    /// Whom its tokens must be meant for: one of these is in `aud`.
    pub(super) audiences: List<Text<1, 2048>, 1, 64>,
    /// URL of its keys (JWKS): `https`, or `http` on this machine. Default: found by OpenID Connect Discovery below `issuer`.
    pub(super) keys_url: Option<As<SecureUrl>>,
    /// File of its keys (JWKS), in place of a URL.
    pub(super) keys_file: Option<Text<1>>,
    /// Signature algorithms that are believed.
    #[schemars(extend("default" = ["RS256", "ES256"]))]
    pub(super) algorithms: Option<List<As<Algorithm>, 1, 9>>,
    /// The claim that says who somebody is.
    #[schemars(extend("default" = "sub"))]
    pub(super) subject_claim: Option<Text<1, 128>>,
    /// The claim that lists groups.
    #[schemars(extend("default" = "groups"))]
    pub(super) groups_claim: Option<Text<1, 128>>,
    /// How far clocks may differ; at most 10m.
    #[schemars(extend("default" = "30s"))]
    pub(super) leeway: Option<As<Duration>>,
    /// How old keys may get before they are read anew; 10s to 1d.
    #[schemars(extend("default" = "10m"))]
    pub(super) refresh: Option<As<Duration>>,
    /// Who vouches for the server of the keys (PEM). Default: the system's trust anchors.
    pub(super) ca: Option<Reference>,
}

/// What may be done, under one name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Role {
    /// Its name; not that of a built-in one.
    pub(super) name: As<AccessName>,
    /// Its verbs: `delete`, `force`, `observe`, `operate`, `read`, `report`, `write`.
    pub(super) verbs: List<As<Verb>, 1, 7>,
}

/// Who has a role, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Grant {
    /// The role.
    pub(super) role: As<AccessName>,
    /// Who: `token:NAME`, `certificate:NAME`, `jwt:ISSUER:SUBJECT`, `group:ISSUER:GROUP`, or `anyone`.
    pub(super) to: List<As<Subject>, 1, 1000>,
    /// Projects of intents in which it holds. Default: all, and everything that is in no project.
    pub(super) projects: Option<List<Text<1, 128>, 1, 1000>>,
}

/// Most requests of one client: an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Limits {
    /// Requests a second that go on and on.
    #[schemars(extend("default" = 50))]
    pub(super) per_second: Option<Int<u32, 1, 1_000_000>>,
    /// Requests at once after a rest.
    #[schemars(extend("default" = 100))]
    pub(super) burst: Option<Int<u32, 1, 1_000_000>>,
    /// Failed attempts to show who one is, a minute.
    #[schemars(extend("default" = 30))]
    pub(super) failures_per_minute: Option<Int<u32, 1, 1_000_000>>,
    /// Connections open at once.
    #[schemars(extend("default" = 32))]
    pub(super) connections: Option<Int<u32, 1, 64>>,
}
