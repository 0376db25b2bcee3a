//! The report of a replay, as printed and as JSON.

use serde::Serialize;

/// Report of a replay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Number of queries.
    pub queries: u64,
    /// Number of queries that no pool answered.
    pub unsteered: u64,
    /// Number of lines that are not queries.
    pub other_lines: u64,
    /// Number of invalid lines.
    pub invalid_lines: u64,
    /// True if there was a configuration to compare with.
    pub compared: bool,
    /// Shares over all pools.
    pub clusters: Vec<ClusterShare>,
    /// Pools that answered queries.
    pub pools: Vec<PoolReport>,
}

/// Counts of one pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    /// Name of the pool in the new configuration.
    pub pool: String,
    /// Number of queries that it answered.
    pub queries: u64,
    /// Number of queries that get another cluster than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<u64>,
    /// Number of client networks.
    pub networks: u64,
    /// Number of client networks that get another cluster than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks_moved: Option<u64>,
    /// True if every network is counted; false if there are more than a million.
    pub networks_complete: bool,
    /// Shares of its clusters.
    pub clusters: Vec<ClusterShare>,
}

/// Share of a cluster, in percent of queries.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterShare {
    /// Name of the cluster, or [`ClusterShare::NO_CLUSTER`].
    pub cluster: String,
    /// Share before; `None` without a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// Share under the new configuration.
    pub after: f64,
    /// Load before, in percent of the cluster's capacity; `None` without a comparison or without an offered demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_before: Option<f64>,
    /// Load under the new configuration; `None` without an offered demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_after: Option<f64>,
}

impl ClusterShare {
    /// Name that is used for fallbacks and empty answers.
    pub const NO_CLUSTER: &str = "(no cluster)";

    /// Computes the load from the cluster's part of all capacity, and the demand in percent of all capacity.
    pub(super) fn set_load(&mut self, capacity: Option<f64>, offered: Option<f64>) {
        let (Some(capacity), Some(offered)) = (capacity, offered) else { return };
        self.load_before = self.before.map(|share| share / 100.0 / capacity * offered);
        self.load_after = Some(self.after / 100.0 / capacity * offered);
    }
}
