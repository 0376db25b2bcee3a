//! The part of the configuration file, version 1, about forged queries: cookies and rate limits.
//!
//! As in `v1`, the comments of fields are the operator's documentation.

use std::time::Duration;

use fairway_model::Network;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Int, List, Text, Word},
    words::Words,
};

/// DNS cookies: a switch, or keys.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "true, off, or { keyFile: PATH }")]
pub(super) enum Cookies {
    /// On or off.
    Switch(bool),
    /// Off.
    Off(Word<Off>),
    /// On, with these settings.
    On(CookieSettings),
}

/// The word `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Off;

impl Words for Off {
    const WORDS: &'static [(&'static str, Self)] = &[("off", Self)];
}

/// Evidence of demand.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Evidence {
    /// Ask resolvers without a cookie to come over TCP: each once a day at most, and in at most one of 1,000 queries.
    #[schemars(extend("default" = true))]
    pub(super) challenge: Option<bool>,
}

/// DNS cookies (RFC 7873, RFC 9018).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CookieSettings {
    /// File with the keys that several servers share: one per line, with 32 hexadecimal digits. The first key makes
    /// cookies, and all are accepted. Default: a random key that the server keeps in its data folder.
    pub(super) key_file: Option<Text<1>>,
}

/// Response rate limiting over UDP: responses per second to a network of clients, per kind of response. Clients over TCP or with a
/// valid cookie have no limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RateLimit {
    /// Responses per second with records of one name. 0 for no limit.
    #[schemars(extend("default" = 50))]
    pub(super) responses_per_second: Option<Rate>,
    /// Referrals per second to the servers of one delegation. 0 for no limit.
    #[schemars(extend("default" = "responsesPerSecond"))]
    pub(super) referrals_per_second: Option<Rate>,
    /// Responses per second that one name has no records of a type. 0 for no limit.
    #[schemars(extend("default" = "responsesPerSecond"))]
    pub(super) nodata_per_second: Option<Rate>,
    /// NXDOMAIN responses per second in one zone. 0 for no limit.
    #[schemars(extend("default" = "responsesPerSecond"))]
    pub(super) nxdomains_per_second: Option<Rate>,
    /// Errors and refusals per second. 0 for no limit.
    #[schemars(extend("default" = "responsesPerSecond"))]
    pub(super) errors_per_second: Option<Rate>,
    /// All responses per second together. 0 for no limit.
    #[schemars(extend("default" = 1000))]
    pub(super) all_per_second: Option<Rate>,
    /// Bytes per second by which responses to all networks together may exceed their queries, without those that have sent a query over
    /// TCP within a day. Over it, responses other than errors are truncated. 0 for no limit.
    #[schemars(extend("default" = 100_000))]
    pub(super) excess_bytes_per_second: Option<Int<u32, 0, 1_000_000_000>>,
    /// Time for which a network stays limited after it exceeded a limit for as long; 1s to 15m.
    #[schemars(extend("default" = "15s"))]
    pub(super) window: Option<As<Duration>>,
    /// One in so many responses over a limit is truncated, so that a real client comes back over TCP; the others are dropped. 1
    /// truncates all, 0 drops all.
    #[schemars(extend("default" = 2))]
    pub(super) slip: Option<Int<u32, 0, 10>>,
    /// Prefix length of IPv4 networks.
    #[schemars(extend("default" = 24))]
    pub(super) ipv4_prefix_length: Option<Int<u8, 8, 32>>,
    /// Prefix length of IPv6 networks.
    #[schemars(extend("default" = 56))]
    pub(super) ipv6_prefix_length: Option<Int<u8, 16, 64>>,
    /// Networks without a limit. Default: none.
    pub(super) allowlist: Option<List<As<Network>, 1, 64>>,
}

/// Responses per second.
pub(super) type Rate = Int<u32, 0, 1_000_000>;
