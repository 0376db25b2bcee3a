//! How the webhook of ExternalDNS appears in the file: a section of version 1 in a file of its own.

use std::{net::SocketAddr, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;

use super::values_wire::{As, HttpAddress, Reference};
use fairway_access::TokenHash;

/// Where ExternalDNS brings names and records. Default: nowhere.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Webhook {
    /// Address and port that ExternalDNS speaks to. A change takes a restart.
    #[schemars(extend("default" = "127.0.0.1:8888"))]
    pub(super) listen: Option<As<SocketAddr>>,
    /// Address and port of health and metrics alone (`/healthz`, `/metrics`), or `off`. A change takes a restart.
    #[schemars(extend("default" = "0.0.0.0:8080"))]
    pub(super) metrics: Option<As<HttpAddress>>,
    /// TLS of the webhook. Default: plain HTTP.
    pub(super) tls: Option<WebhookTls>,
    /// SHA-256 of a token that each call must show, as `fairway token create` prints it. Default: none.
    pub(super) token: Option<As<TokenHash>>,
    /// A name that several owners bring without set identifiers: `refuse` has the oldest hold and tells the others, `merge` makes all
    /// of them members.
    #[schemars(extend("default" = "refuse"))]
    pub(super) shared: Option<OnShared>,
    /// How long an owner may not be heard of before what it brought fades; it is gone after twice as long. At least 10s; `off` keeps it
    /// for ever.
    #[schemars(extend("default" = "off"))]
    pub(super) lease: Option<As<Lease>>,
}

/// TLS of the webhook.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WebhookTls {
    /// Certificate chain (PEM), the server's own first.
    pub(super) cert: Reference,
    /// Key of the certificate (PEM).
    pub(super) key: Reference,
}

/// What becomes of a name that several owners bring without set identifiers.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum OnShared {
    /// All are members.
    Merge,
    /// The oldest holds.
    Refuse,
}

/// A time, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease(pub(super) Option<Duration>);
