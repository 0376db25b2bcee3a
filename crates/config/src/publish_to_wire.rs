//! Kinds of providers in the file: the sections of a provider.

use std::{net::SocketAddr, time::Duration};

use fairway_model::{ClusterName, Name};
use fairway_providers::{publish::Weights, rfc2136::TsigAlgorithm};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, List, Text, Word},
    values_wire::Reference,
};

/// A server with dynamic updates.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rfc2136 {
    /// Address and port of the server; TCP.
    pub(super) server: As<SocketAddr>,
    /// Key that signs messages (RFC 8945). Default: none, for a server that authorises by address.
    pub(super) tsig: Option<Tsig>,
    /// Time limit of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// PowerDNS with its HTTP API.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PowerDns {
    /// URL of the API, `http://HOST:PORT` or `https://HOST:PORT`, without `/api`.
    pub(super) url: Text<1, 512>,
    /// API key of PowerDNS (`api-key`).
    pub(super) key: Reference,
    /// True if the key may be sent without encryption to a host that is not a loopback address.
    #[schemars(extend("default" = false))]
    pub(super) allow_plain_http: Option<bool>,
    /// Time limit of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// A TSIG key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tsig {
    /// Name of the key on the server.
    pub(super) name: As<Name>,
    /// Signature algorithm.
    #[schemars(extend("default" = "hmac-sha256"))]
    pub(super) algorithm: Option<Word<TsigAlgorithm>>,
    /// Secret in base64, as in the configuration of the server.
    pub(super) secret: Reference,
}

/// The etcd of a CoreDNS or SkyDNS.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SkyDns {
    /// URLs of its servers, `http://HOST:PORT` or `https://HOST:PORT`. If one fails, the next one is used.
    pub(super) endpoints: List<Text<1, 512>, 1, 16>,
    /// Prefix of keys: `path` of CoreDNS' plug-in, `--coredns-prefix` of ExternalDNS.
    #[schemars(extend("default" = "/skydns/"))]
    pub(super) prefix: Option<Text<1, 200>>,
    /// User, if etcd requires a user with password.
    pub(super) user: Option<Text<1, 256>>,
    /// Password of the user.
    pub(super) password: Option<Reference>,
    /// True if the password may be sent without encryption to a host that is not a loopback address.
    #[schemars(extend("default" = false))]
    pub(super) allow_plain_http: Option<bool>,
    /// TLS of the connections.
    #[serde(default)]
    pub(super) tls: CallTls,
    /// Time limit of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// A provider with the webhook API of ExternalDNS.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WebhookProvider {
    /// URL of the webhook, `http://HOST:PORT` or `https://HOST:PORT`, with a base path if it has one.
    pub(super) url: Text<1, 512>,
    /// Token to send as `Authorization: Bearer`.
    pub(super) token: Option<Reference>,
    /// True if the token may be sent without encryption to a host that is not a loopback address.
    #[schemars(extend("default" = false))]
    pub(super) allow_plain_http: Option<bool>,
    /// TLS of the connections.
    #[serde(default)]
    pub(super) tls: CallTls,
    /// Field that contains weights; required to publish a name as several weighted sets. Default: none, no set
    /// identifiers.
    pub(super) weights: Option<Word<Weights>>,
    /// Time limit of a call, 1s to 120s.
    #[schemars(extend("default" = "30s"))]
    pub(super) timeout: Option<As<Duration>>,
}

/// Kubernetes objects in a cluster or a folder.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DnsEndpoints {
    /// Cluster to write the objects to; one with `kubernetes`. Of several servers with the same cluster, namespace and name of the
    /// provider, one writes at a time. Either this or `folder`.
    pub(super) cluster: Option<As<ClusterName>>,
    /// Path of a folder to write them to as files, which are not applied.
    pub(super) folder: Option<Text<1>>,
    /// Namespace of the objects.
    #[schemars(extend("default" = "default"))]
    pub(super) namespace: Option<Text<1, 63>>,
    /// Field that contains weights for the provider that reads the objects. Default: none, no set identifiers.
    pub(super) weights: Option<Word<Weights>>,
}

/// TLS of outbound calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CallTls {
    /// Trusted certificates (PEM). Default: those of the system.
    pub(super) ca: Option<Reference>,
    /// Client certificate chain (PEM); requires `key`.
    pub(super) cert: Option<Reference>,
    /// Private key of the client certificate (PEM).
    pub(super) key: Option<Reference>,
}
