//! What a replay found, as it is printed and as JSON.

use serde::Serialize;

/// What a replay found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Queries played.
    pub(crate) played: u64,
    /// Of those, queries that no pool answered.
    pub(crate) unsteered: u64,
    /// Lines that are no queries.
    pub(crate) other_lines: u64,
    /// Lines that could not be read.
    pub(crate) faulty_lines: u64,
    /// Whether there was another configuration to compare with.
    pub(crate) compared: bool,
    /// Shares over all pools.
    pub(crate) clusters: Vec<ClusterShare>,
    /// Each pool that was asked.
    pub(crate) pools: Vec<PoolReport>,
}

/// What was asked of one pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolReport {
    /// The pool, as the configuration to come calls it.
    pub(crate) pool: String,
    /// Queries it answered.
    pub(crate) queries: u64,
    /// Queries that get another cluster than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved: Option<u64>,
    /// Client networks that asked.
    pub(crate) networks: u64,
    /// Client networks that get another cluster than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) networks_moved: Option<u64>,
    /// Whether all networks were told apart: past a million, further ones are not.
    pub(crate) networks_complete: bool,
    /// Shares of its clusters.
    pub(crate) clusters: Vec<ClusterShare>,
}

/// The share of one cluster, in percent of queries.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterShare {
    /// The cluster, or what is no cluster: fallbacks, empty answers.
    pub(crate) cluster: String,
    /// Before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<f64>,
    /// After.
    pub(crate) after: f64,
    /// Load before, in percent of the cluster's capacity, if as much is asked for as was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load_before: Option<f64>,
    /// Load after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load_after: Option<f64>,
}

impl ClusterShare {
    /// What stands for an answer that is no cluster.
    pub(crate) const NO_CLUSTER: &str = "(no cluster)";

    /// Works out the load from the cluster's part of all capacity and how much of that is asked for, in percent.
    pub(crate) fn weigh(&mut self, capacity: Option<f64>, offered: Option<f64>) {
        let (Some(capacity), Some(offered)) = (capacity, offered) else { return };
        self.load_before = self.before.map(|share| share / 100.0 / capacity * offered);
        self.load_after = Some(self.after / 100.0 / capacity * offered);
    }
}
