//! How the places that can be published to appear in the file: the sections of a provider.

use std::{net::SocketAddr, time::Duration};

use fairway_model::Name;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{List, Text},
    values_wire::{As, Reference},
};

/// A server that takes updates.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rfc2136 {
    /// Its address and port; TCP.
    pub(super) server: As<SocketAddr>,
    /// The key that messages are signed with (RFC 8945). Default: none, for a server that goes by addresses.
    pub(super) tsig: Option<Tsig>,
    /// Longest time of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// A PowerDNS with its HTTP API.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PowerDns {
    /// URL of the API, `http://HOST:PORT` or `https://HOST:PORT`, without `/api`.
    pub(super) url: Text<1, 512>,
    /// Its key (`api-key`).
    pub(super) key: Reference,
    /// Longest time of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// A TSIG key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tsig {
    /// As the other server calls it.
    pub(super) name: As<Name>,
    /// How it signs.
    #[schemars(extend("default" = "hmac-sha256"))]
    pub(super) algorithm: Option<TsigAlgorithm>,
    /// The secret in base64, as in the other server's configuration.
    pub(super) secret: Reference,
}

/// How TSIG signs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) enum TsigAlgorithm {
    /// HMAC-SHA-256.
    #[serde(rename = "hmac-sha256")]
    Sha256,
    /// HMAC-SHA-384.
    #[serde(rename = "hmac-sha384")]
    Sha384,
    /// HMAC-SHA-512.
    #[serde(rename = "hmac-sha512")]
    Sha512,
}

/// An etcd that CoreDNS reads, or SkyDNS.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SkyDns {
    /// URLs of its servers, `http://HOST:PORT` or `https://HOST:PORT`. Where one fails, the next is asked.
    pub(super) endpoints: List<Text<1, 512>, 1, 16>,
    /// What keys begin with: `path` of CoreDNS' plug-in, `--coredns-prefix` of ExternalDNS.
    #[schemars(extend("default" = "/skydns/"))]
    pub(super) prefix: Option<Text<1, 200>>,
    /// User, where etcd wants one with a password.
    pub(super) user: Option<Text<1, 256>>,
    /// The password.
    pub(super) password: Option<Reference>,
    /// TLS of the connections.
    #[serde(default)]
    pub(super) tls: CallTls,
    /// Longest time of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// A provider that speaks the webhook of ExternalDNS.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WebhookProvider {
    /// Its URL, `http://HOST:PORT` or `https://HOST:PORT`, with a base path where it has one.
    pub(super) url: Text<1, 512>,
    /// A token, shown as `Authorization: Bearer`.
    pub(super) token: Option<Reference>,
    /// TLS of the connections.
    #[serde(default)]
    pub(super) tls: CallTls,
    /// The field in which it is told weights; then a name may be published as sets with weights. Default: none, it knows no set identifiers.
    pub(super) weights: Option<WeightField>,
    /// Longest time of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// A folder of Kubernetes objects.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DnsEndpoints {
    /// The folder.
    pub(super) folder: Text<1>,
    /// The namespace of the objects.
    #[schemars(extend("default" = "default"))]
    pub(super) namespace: Option<Text<1, 63>>,
    /// The field in which the provider behind them is told weights. Default: none, it knows no set identifiers.
    pub(super) weights: Option<WeightField>,
}

/// A field of ExternalDNS that holds a weight.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum WeightField {
    /// `aws/weight`, 0 to 255.
    Aws,
    /// `webhook/gslb-weight`, 0 to 65535.
    Fairway,
}

/// TLS of calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CallTls {
    /// Certificates that are trusted (PEM). Default: the system's.
    pub(super) ca: Option<Reference>,
    /// Certificate chain that is shown (PEM), together with `key`.
    pub(super) cert: Option<Reference>,
    /// Its key (PEM).
    pub(super) key: Option<Reference>,
}
