//! The report of an assessment, as printed and as JSON.

use serde::Serialize;

/// Report of an assessment.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// True if there was a configuration to compare with.
    pub compared: bool,
    /// Rules that do not hold.
    pub findings: Vec<Finding>,
    /// Violations of the configuration before that are fixed now.
    pub fixed: Vec<Finding>,
    /// Capacity after a failure.
    pub capacity: CapacityReport,
    /// Pools that answer names.
    pub pools: Vec<PoolImpact>,
    /// Names that are added, removed, or answered by another pool.
    pub names: NamesReport,
    /// Pools that answered names before and no longer do.
    pub pools_removed: Vec<String>,
}

/// A rule that does not hold. Two configurations have the same finding if rule, pool and subject are equal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The severity.
    pub severity: Severity,
    /// Comparison with the configuration before; `None` without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// The pool; `None` if the rule is about all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The failing cluster or region, or the member concerned.
    pub subject: String,
    /// Severity as a number, to compare the same finding in two configurations.
    #[serde(skip)]
    pub(super) measure: f64,
    /// Description for people.
    pub what: String,
}

/// Rule for a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// Every client network keeps a live cluster when any one is down.
    Clusters,
    /// Every client network keeps a live cluster when all of any one region are down.
    Regions,
    /// No cluster exceeds its capacity when any other one is down.
    Capacity,
    /// Every member is answered to some client.
    Unreachable,
    /// Caches drop the answers of a cluster within the time for a drain.
    Ttl,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The check fails.
    Error,
    /// The check fails with `--strict` only.
    Warning,
}

/// Comparison of a finding with the configuration before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Since {
    /// It is new.
    New,
    /// It is worse than before.
    Worse,
    /// It is as before, or better.
    Before,
}

/// Capacity after a failure.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReport {
    /// Highest load of each cluster, in percent, at which no cluster exceeds its capacity with any other one down. `None` if a capacity
    /// is not declared.
    pub holds_up_to: Option<f64>,
    /// The same for the configuration before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_up_to_before: Option<f64>,
    /// Cluster whose failure sets that limit.
    pub worst_down: Option<String>,
    /// Cluster that is full after that failure.
    pub worst_full: Option<String>,
    /// Clusters without a declared capacity.
    pub undeclared: Vec<String>,
}

/// Result for a pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolImpact {
    /// Name of the pool.
    pub pool: String,
    /// Number of names that it answers.
    pub names: u64,
    /// Longest TTL of these names.
    pub ttl_seconds: u32,
    /// Number of location classes.
    pub location_classes: usize,
    /// Smallest number of clusters that a location class can get when one after the other fails.
    pub clusters_least: usize,
    /// The same for regions.
    pub regions_least: usize,
    /// Client networks whose first cluster changes, in percent. `None` if the pool is new, or without a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_percent: Option<f64>,
    /// Number of location classes whose first cluster changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location_classes_moved: Option<usize>,
    /// Shares of client networks; empty without a comparison.
    pub shares: Vec<Share>,
}

impl PoolImpact {
    pub(super) fn new(pool: &str) -> Self {
        Self { pool: pool.to_owned(), clusters_least: usize::MAX, regions_least: usize::MAX, ..Self::default() }
    }

    /// Adds the number of clusters and regions that a location class can get.
    pub(super) fn add_class(&mut self, clusters: usize, regions: usize) {
        self.clusters_least = self.clusters_least.min(clusters);
        self.regions_least = self.regions_least.min(regions);
    }
}

/// Share of a cluster, in percent of client networks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// Name of the cluster.
    pub cluster: String,
    /// Its share of client networks before, in percent.
    pub before: f64,
    /// Its share afterwards, in percent.
    pub after: f64,
}

impl Share {
    /// Name that is used for answers without a live cluster.
    pub const NO_CLUSTER: &str = "(no cluster)";
}

/// Names that are added, removed, or answered by another pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamesReport {
    /// Names that only the new configuration steers.
    pub added: Vec<String>,
    /// Names that only the configuration before steers.
    pub removed: Vec<String>,
    /// Names that another pool answers now.
    pub moved: Vec<NameMoved>,
}

/// A name that another pool answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameMoved {
    /// The name.
    pub name: String,
    /// Pool before.
    pub from: String,
    /// Pool now.
    pub to: String,
}
