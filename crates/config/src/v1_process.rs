//! The part of the configuration file, version 1, about the process: addresses, logs, limits.
//!
//! As in `v1`, the comments of fields are the operator's documentation.

use std::{net::SocketAddr, time::Duration};

use fairway_http::Url;
use fairway_model::Network;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Int, List, Text, Word},
    values_wire::{HttpAddress, SampleRate},
    words::Words,
};

/// Addresses to listen on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Listen {
    /// Addresses and ports for DNS over UDP and TCP. `[::]` includes IPv4.
    #[schemars(extend("default" = ["[::]:53"]))]
    pub(super) dns: Option<List<As<SocketAddr>, 1, 64>>,
    /// Address and port of the HTTP listener (page, API, health, metrics), or `off`. An address that other machines can
    /// reach requires `access` with TLS.
    #[schemars(extend("default" = "127.0.0.1:8053"))]
    pub(super) http: Option<As<HttpAddress>>,
    /// Listener for health probes. Default: none.
    pub(super) health: Option<HealthListener>,
}

/// A plain HTTP listener that serves `/healthz`, `/livez` and `/readyz` and nothing else. It needs no authentication, and no response
/// has the name of a pool, a cluster or a target.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HealthListener {
    /// Address and port.
    pub(super) address: As<SocketAddr>,
    /// True if it also serves `/metrics`, which has names of pools, clusters and targets. On an address that other machines can
    /// reach this requires `networks`.
    #[schemars(extend("default" = false))]
    pub(super) metrics: Option<bool>,
    /// Networks whose clients may connect, in addition to loopback addresses. Default: all.
    pub(super) networks: Option<List<As<Network>, 1, 64>>,
}

/// Logging.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Log {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`, `off`), or a list of `TARGET=LEVEL` separated by commas.
    #[schemars(extend("default" = "info"))]
    pub(super) level: Option<Text<1>>,
    /// Format of a line: text on a terminal and JSON otherwise (`auto`), or always one of them.
    #[schemars(extend("default" = "auto"))]
    pub(super) format: Option<Word<LogFormat>>,
}

/// Format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Words for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("text", Self::Text), ("json", Self::Json)];
}

/// Answers to queries about the server itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Identity {
    /// Answer to `version.bind` and `version.server` (CH TXT). Default: these queries are refused.
    pub(super) version: Option<Text<1, 255>>,
    /// Answer to `hostname.bind` and `id.server` (CH TXT, RFC 4892), and NSID (RFC 5001). Default: these
    /// queries are refused, and there is no NSID.
    pub(super) id: Option<Text<1, 255>>,
}

/// Explanations of steering over DNS.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Explain {
    /// Networks from which TXT queries for `_explain.NAME` are answered with an explanation of how NAME is steered. The
    /// source address of the query counts. Default: none.
    pub(super) networks: Option<List<As<Network>, 1, 64>>,
}

/// Look-ups of host names that clusters have in place of addresses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Resolvers {
    /// Addresses and ports of recursive resolvers. Default: those of the system (`/etc/resolv.conf`).
    pub(super) servers: Option<List<As<SocketAddr>, 1, 8>>,
    /// Time for which the last good addresses of a host name are used while it cannot be resolved; 0s to 365d.
    #[schemars(extend("default" = "24h"))]
    pub(super) keep_for: Option<As<Duration>>,
}

/// Limits of DNS over TCP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tcp {
    /// Largest number of open connections. At the limit, a new connection replaces the one that has been idle longest.
    #[schemars(extend("default" = 1000))]
    pub(super) connections_max: Option<Int<usize, 1, 1_000_000>>,
    /// Largest number of connections per client address. At the limit, a new one replaces the client's longest idle
    /// one.
    #[schemars(extend("default" = 100))]
    pub(super) per_client_max: Option<Int<usize, 1, 1_000_000>>,
    /// Longest time a connection may stay open without a query; 100ms to 10m.
    #[schemars(extend("default" = "10s"))]
    pub(super) idle_timeout: Option<As<Duration>>,
    /// Longest time for receiving a query once it has begun, and for sending a response; 100ms to 10m.
    #[schemars(extend("default" = "5s"))]
    pub(super) query_timeout: Option<As<Duration>>,
}

/// Limits of DNS over UDP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Udp {
    /// Threads and sockets per address. Default: one per core.
    pub(super) workers: Option<Int<usize, 1, 1024>>,
    /// Largest response, in octets. 1232 never needs fragmenting (RFC 9715).
    #[schemars(extend("default" = 1232))]
    pub(super) payload_max: Option<Int<u16, 512, 1232>>,
}

/// Limits of health checking.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Health {
    /// Largest number of open probe sockets.
    #[schemars(extend("default" = 1024))]
    pub(super) sockets_max: Option<Int<usize, 1, 1_000_000>>,
    /// Longest time that the first round of probes delays the first answer; at most 10m, and 0s does not wait.
    #[schemars(extend("default" = "5s"))]
    pub(super) first_round: Option<As<Duration>>,
    /// Networks that probes and load readers may connect to. This is about targets that come over the API or the webhook;
    /// addresses and hosts of the configuration files are always allowed. It is also about the addresses that host names of
    /// clusters have, wherever the names come from.
    pub(super) networks: Option<ProbeNetworks>,
    /// Largest number of regular probes per second of all targets of one tenant: of a project, of a base path of the webhook, or of all
    /// other objects of the API together. If a tenant has more, the periods of its targets become longer. A target that the configuration
    /// files declare as well counts for no tenant.
    #[schemars(extend("default" = 1000))]
    pub(super) tenant_probes_max: Option<Int<u32, 1, 1_000_000>>,
}

/// Networks that probes and load readers may connect to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProbeNetworks {
    /// Networks that are allowed although they are denied by default: loopback, link-local, multicast and unspecified
    /// addresses, and the metadata services of clouds. Listeners of this server stay denied. Default: none.
    pub(super) allow: Option<List<As<Network>, 1, 64>>,
    /// Networks that are denied, also if they are in `allow`. Default: none.
    pub(super) deny: Option<List<As<Network>, 1, 64>>,
    /// Networks that get the `headers` and client certificates of monitors. With access rules, a tenant may have declared an address that
    /// is not in the configuration files, so only these networks get them; a target elsewhere is not probed and not answered. Default: none
    /// with access rules, all without.
    pub(super) credentials: Option<List<As<Network>, 1, 64>>,
}

/// Notification of the server's readiness.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Ready {
    /// URL that receives a POST when the server is ready, and another one when it begins to stop: `http` or `https`,
    /// without user and password. Default: none.
    pub(super) callback: Option<As<Url>>,
}

/// Withdrawals that look like a mistake are held: the answers keep what was withdrawn while its target is healthy.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Withdrawals {
    /// Longest time for which names are held if one owner withdraws all of its names, or many, within 10 minutes; at
    /// most 30d, and 0s holds none.
    #[schemars(extend("default" = "24h"))]
    pub(super) hold_for: Option<As<Duration>>,
    /// Longest time for which a member is held if its withdrawal leaves a shared name without a healthy member; at most
    /// 30d, and 0s holds none.
    #[schemars(extend("default" = "1h"))]
    pub(super) hold_last_for: Option<As<Duration>>,
}

/// Sampled log of queries.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QueryLog {
    /// Sampling rate: one query of so many.
    #[schemars(extend("default" = "1/1000"))]
    pub(super) sample: Option<SampleRate>,
    /// File to append lines to, or `stdout`.
    #[schemars(extend("default" = "stdout"))]
    pub(super) file: Option<Text<1>>,
}
