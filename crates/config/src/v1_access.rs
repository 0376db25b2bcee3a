//! Access to the API, as written in a file.

use std::time::Duration;

use fairway_model::{Name, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Int, List, Text},
    values_access::{AccessName, GrantedType, SecureUrl},
    values_wire::Reference,
};
use fairway_access::{Algorithm, Subject, Tenant, TokenHash, Verb};

/// Access to the API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Access {
    /// TLS of the HTTP listener. Default: plain HTTP, which is for loopback addresses only.
    pub(super) tls: Option<ServerTls>,
    /// Known tokens, by their hashes. `fairway token create` creates one.
    #[serde(default)]
    pub(super) tokens: Vec<Token>,
    /// Trusted issuers of JSON Web Tokens (OpenID Connect).
    #[serde(default)]
    pub(super) issuers: Vec<Issuer>,
    /// Roles in addition to the built-in ones: `admin` (every verb), `editor` (observe, read, write, delete),
    /// `operator` (observe, read, operate, override, report), `viewer` (observe, read).
    #[serde(default)]
    pub(super) roles: Vec<Role>,
    /// Roles granted to identities. Access without a grant is denied.
    #[serde(default)]
    pub(super) grants: Vec<Grant>,
    /// Names that projects and webhook owners may claim. With tokens, issuers, client certificates or `webhook.owners`, a
    /// claim without a grant is not served; without them every name may be claimed.
    #[serde(default)]
    pub(super) names: Vec<NameGrant>,
    /// Rate limits per client. Default: the values below if there are tokens, issuers or client certificates; otherwise
    /// none.
    pub(super) limits: Option<Limits>,
    /// Host names that the plain HTTP listener answers to, in addition to `localhost` and loopback addresses: for a
    /// proxy in front of it.
    pub(super) hosts: Option<List<Text<1, 253>, 1, 64>>,
}

/// TLS of the HTTP listener or the webhook. Its files are read again with each reload.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ServerTls {
    /// Certificate chain (PEM), the server's own certificate first.
    pub(super) cert: Reference,
    /// Private key of the certificate (PEM).
    pub(super) key: Reference,
    /// Certificates that must have signed those of clients (PEM). Default: no client certificates are requested.
    pub(super) client_ca: Option<Reference>,
}

/// A token, by its hash.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Token {
    /// Name of the holder in grants, logs and histories.
    pub(super) name: As<AccessName>,
    /// SHA-256 of the token, as `fairway token create` prints it.
    pub(super) sha256: As<TokenHash>,
    /// Expiry. Default: never.
    pub(super) expires: Option<As<Timestamp>>,
}

/// An issuer of JSON Web Tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Issuer {
    /// Name of the issuer in grants.
    pub(super) name: As<AccessName>,
    /// Value of `iss` in its tokens, compared exactly.
    pub(super) issuer: Text<1, 2048>,
    /// Accepted audiences: `aud` of a token must contain one of them.
    pub(super) audiences: List<Text<1, 2048>, 1, 64>,
    /// URL of its keys (JWKS): `https`, or `http` on this machine. Default: found by OpenID Connect Discovery below
    /// `issuer`.
    pub(super) keys_url: Option<As<SecureUrl>>,
    /// File with its keys (JWKS), instead of a URL.
    pub(super) keys_file: Option<Text<1>>,
    /// Accepted signature algorithms.
    #[schemars(extend("default" = ["RS256", "ES256"]))]
    pub(super) algorithms: Option<List<As<Algorithm>, 1, 9>>,
    /// Claim with the subject.
    #[schemars(extend("default" = "sub"))]
    pub(super) subject_claim: Option<Text<1, 128>>,
    /// Claim with the groups.
    #[schemars(extend("default" = "groups"))]
    pub(super) groups_claim: Option<Text<1, 128>>,
    /// Largest accepted clock difference; at most 10m.
    #[schemars(extend("default" = "30s"))]
    pub(super) leeway: Option<As<Duration>>,
    /// Time after which keys are fetched again; 10s to 1d.
    #[schemars(extend("default" = "10m"))]
    pub(super) refresh: Option<As<Duration>>,
    /// Certificates that must have signed that of the key server (PEM). Default: the system's trust anchors.
    pub(super) ca: Option<Reference>,
}

/// A named set of verbs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Role {
    /// Name of the role; not that of a built-in one.
    pub(super) name: As<AccessName>,
    /// Verbs of the role: `delete`, `observe`, `operate`, `override`, `read`, `report`, `write`.
    pub(super) verbs: List<As<Verb>, 1, 7>,
}

/// A role that is granted to identities.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Grant {
    /// The role.
    pub(super) role: As<AccessName>,
    /// Identities: `token:NAME`, `certificate:NAME`, `jwt:ISSUER:SUBJECT`, `group:ISSUER:GROUP`, or `anyone`.
    pub(super) to: List<As<Subject>, 1, 1000>,
    /// Projects of intents in which the grant holds. Default: all, and everything outside projects.
    pub(super) projects: Option<List<Text<1, 128>, 1, 1000>>,
}

/// Names that are granted to tenants.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NameGrant {
    /// Tenants: `project:NAME` for its intents, `owner:NAME` for the webhook at `/owners/NAME`, `owner:/` for the webhook without
    /// base path, `namespace:CLUSTER/NAMESPACE` for what is read from Kubernetes, `cluster:NAME` for all namespaces of a cluster;
    /// `project:*`, `owner:*`, `cluster:*` and `namespace:*/NAMESPACE` for all.
    pub(super) to: List<As<Tenant>, 1, 1000>,
    /// Domains. Each includes itself and all names below it.
    pub(super) domains: List<As<Name>, 1, 1000>,
    /// Record types. `NS`, `DS`, `DNAME` and `_acme-challenge` (records at names that begin with it, and `TXT` and `CNAME` at
    /// wildcards) are granted only if they are listed. Default: all other types.
    pub(super) types: Option<List<As<GrantedType>, 1, 100>>,
}

/// Rate limits of one client: an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Limits {
    /// Sustained rate of requests per second.
    #[schemars(extend("default" = 50))]
    pub(super) per_second: Option<Int<u32, 1, 1_000_000>>,
    /// Largest burst of requests after a pause.
    #[schemars(extend("default" = 100))]
    pub(super) burst: Option<Int<u32, 1, 1_000_000>>,
    /// Failed authentications per minute.
    #[schemars(extend("default" = 30))]
    pub(super) failures_per_minute: Option<Int<u32, 1, 1_000_000>>,
    /// Open connections.
    #[schemars(extend("default" = 32))]
    pub(super) connections: Option<Int<usize, 1, 64>>,
}
