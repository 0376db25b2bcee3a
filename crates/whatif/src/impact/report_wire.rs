//! What was found, as it is printed and as JSON.

use serde::Serialize;

/// What was found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether there was a configuration to compare with.
    pub compared: bool,
    /// Rules that do not hold.
    pub findings: Vec<Finding>,
    /// Rules that did not hold before, and do now.
    pub mended: Vec<Finding>,
    /// What a failure leaves of all capacity.
    pub capacity: CapacityReport,
    /// Each pool that answers names.
    pub pools: Vec<PoolImpact>,
    /// Names that come, go, or get another pool.
    pub names: NamesReport,
    /// Pools that answered names before.
    pub pools_removed: Vec<String>,
}

/// A rule that does not hold.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The rule that applies.
    pub rule: Rule,
    /// How serious it is.
    pub severity: Severity,
    /// Only where there was a configuration to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// The pool; none where it is about all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// What fails, or what is at fault: a cluster, a region.
    pub subject: String,
    /// For people.
    pub what: String,
}

/// What is held against a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// Every client network keeps a live cluster when any one is down.
    Clusters,
    /// And when all of a region are.
    Regions,
    /// Nobody carries more than its capacity when any one cluster is down.
    Capacity,
    /// Every member can be given to somebody.
    Unreachable,
    /// Caches forget a cluster within the time for a drain.
    Ttl,
}

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It does.
    Error,
    /// Only with `--strict`.
    Warning,
}

/// How a finding stands to the configuration before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Since {
    /// It was not there.
    New,
    /// It was there, and less bad.
    Worse,
    /// It was there as it is, or worse.
    Before,
}

/// What a failure leaves of all capacity.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReport {
    /// With any one cluster down nobody is over its capacity while each carries so many percent of it; none where that is not known.
    pub holds_up_to: Option<f64>,
    /// The same of the configuration before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_up_to_before: Option<f64>,
    /// The cluster whose loss that comes from.
    pub worst_down: Option<String>,
    /// The cluster that is full then.
    pub worst_full: Option<String>,
    /// Clusters that declare no capacity.
    pub undeclared: Vec<String>,
}

/// What was found of a pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolImpact {
    /// Name of the pool.
    pub pool: String,
    /// Names it answers.
    pub names: u64,
    /// Longest TTL of these.
    pub ttl_seconds: u32,
    /// Groups of client networks that are answered in ways of their own.
    pub places: usize,
    /// Fewest clusters that any of them comes to, one going down after the other.
    pub clusters_least: usize,
    /// The same of regions.
    pub regions_least: usize,
    /// Client networks whose first cluster changes, in percent; none where the pool is new, or nothing is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_percent: Option<f64>,
    /// Places whose first cluster changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places_moved: Option<usize>,
    /// Shares of client networks, where it is compared.
    pub shares: Vec<Share>,
}

impl PoolImpact {
    pub(super) fn new(pool: &str) -> Self {
        let most = usize::MAX;
        Self { pool: pool.to_owned(), clusters_least: most, regions_least: most, ..Self::default() }
    }

    /// Notes what clients of a place keep.
    pub(super) fn keep(&mut self, clusters: usize, regions: usize) {
        self.clusters_least = self.clusters_least.min(clusters);
        self.regions_least = self.regions_least.min(regions);
    }
}

/// The share of one cluster, in percent of client networks.
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
    /// What stands for an answer that is no live cluster.
    pub const NO_CLUSTER: &str = "(no cluster)";
}

/// Names that come, go, or get another pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamesReport {
    /// Names that are answered only afterwards.
    pub added: Vec<String>,
    /// Names that are answered only before.
    pub removed: Vec<String>,
    /// Names that another pool answers afterwards.
    pub moved: Vec<NameMoved>,
}

/// A name that another pool answers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameMoved {
    pub name: String,
    pub from: String,
    pub to: String,
}
