//! What `/v1` speaks of load: what is known of a cluster's, and what is pushed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one source says of a cluster's load; in [`ClusterState`](super::state_wire::ClusterState), the most trusted first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadState {
    /// The source of the configuration; none for what was pushed.
    pub source: Option<String>,
    /// Permille of the capacity; none if it was never known.
    pub permille: Option<u32>,
    /// What that was read from: `declared`, `inFlight`, `connections`, `requestRate`.
    pub signal: Option<String>,
    /// Age of that, in milliseconds.
    pub age_ms: Option<u64>,
    /// How it counts: `used`, `unused` (a better source is used), `stale` (too old to be used) or `unknown` (never reported).
    pub status: String,
    /// Why the last reading gave no load; none where it did.
    pub failure: Option<String>,
    /// Gateways that answered the last reading.
    pub gateways_answering: Option<usize>,
    /// Gateways that were asked.
    pub gateways: Option<usize>,
}

/// `PUT /v1/load/{cluster}`: what somebody reports of a cluster. Either `load` or `used`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewLoad {
    /// Permille of the capacity, 0 to 100000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<u64>,
    /// In the unit of the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Counts the reports of this cluster; one that is not above the last valid one is refused. Default: no order is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// How long it counts: `30s`; 1s to 1h. Default 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for: Option<String>,
}
