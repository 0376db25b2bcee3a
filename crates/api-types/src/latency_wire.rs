//! Bodies of `/v1/latency`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The response to `PUT /v1/latency/{table}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LatencyState {
    /// Name of the table.
    pub table: String,
    /// Number of networks (lines).
    pub networks: usize,
    /// Number of clusters (columns).
    pub clusters: usize,
    /// Number of the configuration since which the table is in use.
    pub configuration: u64,
}
