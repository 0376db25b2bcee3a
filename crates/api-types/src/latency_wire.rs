//! What `/v1` speaks of tables of latencies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `PUT /v1/latency/{table}`: what is in force now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LatencyState {
    /// The table.
    pub table: String,
    /// Networks it has a line for.
    pub networks: usize,
    /// Clusters it has a column for.
    pub clusters: usize,
    /// Counts the configurations that were accepted since the start: that of the first one with this table.
    pub generation: u64,
}
