//! Load of clusters: the state of its sources, and pushed reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The load of a cluster as one source reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadState {
    /// Name of the source in the configuration; null for pushed load.
    pub source: Option<String>,
    /// Load in permille of the capacity; null if it was never known.
    pub permille: Option<u32>,
    /// Signal that it was read from: `declared`, `inFlight`, `connections`, `requestRate`.
    pub signal: Option<String>,
    /// Age of the report, in milliseconds.
    pub age_ms: Option<u64>,
    /// Status: `used`, `unused` (a better source is used), `stale` (too old to be used) or `unknown` (never reported).
    pub status: String,
    /// Cause of the failure of the last reading; null if it succeeded.
    pub failure: Option<String>,
    /// Number of gateways that answered the last reading.
    pub gateways_answering: Option<usize>,
    /// Number of gateways that were asked.
    pub gateways: Option<usize>,
}

/// `PUT /v1/load/{cluster}`: a load report, with either `load` or `used`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewLoad {
    /// Load in permille of the capacity, 0 to 100000.
    #[schemars(range(max = 100000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<u64>,
    /// Load in the unit of the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Sequence number; a report is rejected unless its number is above that of the last valid one. By default the order is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Duration for which the report is valid, 1s to 1h; default 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for: Option<String>,
}
