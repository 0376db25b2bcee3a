//! The webhook for ExternalDNS in the file: a section of version 1.

use std::{net::SocketAddr, time::Duration};

use fairway_model::SharedNamePolicy;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Text, Word},
    reason::Reason,
    v1_access::ServerTls,
    values::TextValue,
};
use fairway_access::TokenHash;

/// Webhook for ExternalDNS. Default: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Webhook {
    /// Address and port for ExternalDNS. An address that other machines can reach requires `token`, `owners` or
    /// `tls.clientCa`. A change requires a restart.
    #[schemars(extend("default" = "127.0.0.1:8888"))]
    pub(super) listen: Option<As<SocketAddr>>,
    /// TLS of the webhook. Default: plain HTTP. With `clientCa` and without `owners`, a client certificate replaces the token.
    pub(super) tls: Option<ServerTls>,
    /// SHA-256 of the token that each call must send, as `fairway token create` prints it. With `owners` it is for calls without
    /// base path only. Default: none.
    pub(super) token: Option<As<TokenHash>>,
    /// Owners with a token or a client certificate each. Other base paths are then closed, and so are calls without base path
    /// unless there is a `token`. Default: every base path, with `token` or a client certificate.
    #[serde(default)]
    pub(super) owners: Vec<WebhookOwner>,
    /// Policy for a name that several owners contribute without set identifiers: the oldest one keeps it and the others
    /// get an error (`refuse`), or all become members (`merge`).
    #[schemars(extend("default" = "refuse"))]
    pub(super) shared: Option<Word<SharedNamePolicy>>,
    /// Time without a call after which the contributions of an owner lose weight; after twice that time they are
    /// removed. At least 10s; `off` keeps them forever.
    #[schemars(extend("default" = "off"))]
    pub(super) lease: Option<As<Lease>>,
}

/// An owner, which has the base path `/owners/NAME`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WebhookOwner {
    /// Name: 1 to 63 letters, digits, `-`, `_`, `.`.
    pub(super) name: Text<1, 63>,
    /// SHA-256 of its token, as `fairway token create` prints it. Default: it needs its certificate.
    pub(super) token: Option<As<TokenHash>>,
    /// A URI (SPIFFE) or DNS name of its client certificate, or `sha256:FINGERPRINT`; requires `tls.clientCa`. Default: it needs
    /// its token.
    pub(super) certificate: Option<Text<1, 2048>>,
}

/// A duration, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease(pub(super) Option<Duration>);

impl TextValue for Lease {
    const FORMAT: &'static str = "duration-or-off";
    const EXPECTED: &'static str = "a time with its unit, or off";
    const EXAMPLE: &'static str = "5m or off";

    fn parse(text: &str) -> Result<Self, Reason> {
        match text {
            "off" => Ok(Self(None)),
            _ => TextValue::parse(text).map(|time| Self(Some(time))),
        }
    }
}
