//! What a replay found, as it is printed and as JSON.

use serde::Serialize;

/// What a replay found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Queries played.
    pub played: u64,
    /// Of those, queries that no pool answered.
    pub unsteered: u64,
    /// Lines that are no queries.
    pub other_lines: u64,
    /// Lines that could not be read.
    pub faulty_lines: u64,
    /// Whether there was another configuration to compare with.
    pub compared: bool,
    /// Shares over all pools.
    pub clusters: Vec<ClusterShare>,
    /// Each pool that was asked.
    pub pools: Vec<PoolReport>,
}

/// What was asked of one pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    /// The pool, as the configuration to come calls it.
    pub pool: String,
    /// Queries it answered.
    pub queries: u64,
    /// Queries that get another cluster than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<u64>,
    /// Client networks that asked.
    pub networks: u64,
    /// Client networks that get another cluster than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks_moved: Option<u64>,
    /// Whether all networks were told apart: past a million, further ones are not.
    pub networks_complete: bool,
    /// Shares of its clusters.
    pub clusters: Vec<ClusterShare>,
}

/// The share of one cluster, in percent of queries.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterShare {
    /// The cluster, or what is no cluster: fallbacks, empty answers.
    pub cluster: String,
    /// Before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// After.
    pub after: f64,
    /// Load before, in percent of the cluster's capacity, if as much is asked for as was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_before: Option<f64>,
    /// Load after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_after: Option<f64>,
}

impl ClusterShare {
    /// What stands for an answer that is no cluster.
    pub const NO_CLUSTER: &str = "(no cluster)";

    /// Works out the load from the cluster's part of all capacity and how much of that is asked for, in percent.
    pub fn weigh(&mut self, capacity: Option<f64>, offered: Option<f64>) {
        let (Some(capacity), Some(offered)) = (capacity, offered) else { return };
        self.load_before = self.before.map(|share| share / 100.0 / capacity * offered);
        self.load_after = Some(self.after / 100.0 / capacity * offered);
    }
}
