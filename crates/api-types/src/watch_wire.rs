//! Parameters and events of `GET /v1/watch`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state_wire::ReloadReport;

/// The query of `GET /v1/watch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchParameters {
    /// Id of the last event that the client has seen, if it does not send the header `Last-Event-ID`.
    #[serde(default)]
    pub after: Option<String>,
    /// Number of past events to begin with, if no last event is given; default 0.
    #[serde(default)]
    pub recent: Option<usize>,
}

/// Event `transition`: the health status of a target has changed, and the answers follow it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TransitionEvent {
    /// Time of the transition.
    pub at: String,
    /// Time from which the answers follow it.
    pub applied: String,
    /// Address of the target.
    pub address: String,
    /// Monitor of the target.
    pub monitor: String,
    /// Clusters with this target, at most 10.
    pub clusters: Vec<String>,
    /// Status before: `up`, `down`, `pending`, `unknown`.
    pub from: String,
    /// Status after.
    pub to: String,
    /// Cause.
    pub cause: String,
    /// Number of pools that use the target.
    pub pools_total: usize,
    /// Number of those whose answers to some clients changed; null if there were too many to compare.
    pub pools_moved: Option<usize>,
    /// Number of names of these pools.
    pub names_moved: usize,
    /// The pools that moved most, at most 8.
    pub pools: Vec<PoolMovedState>,
}

/// Impact of a transition on one pool, estimated for 16 to 1,024 clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolMovedState {
    /// Name of the pool.
    pub name: String,
    /// Number of names that it answers.
    pub names: usize,
    /// The first few of them.
    pub some_names: Vec<String>,
    /// Clients whose answer changed, in percent.
    pub moved: f64,
    /// Clusters whose share changed most, at most 12.
    pub shares: Vec<ShareMoved>,
}

/// Share of a cluster in the clients of a pool, in percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShareMoved {
    /// Name of the cluster.
    pub cluster: String,
    /// Share without the transition.
    pub before: f64,
    /// Share with it.
    pub after: f64,
}

/// Event `state`: something that `/v1/state` shows has changed, or the stream begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StateEvent {
    /// Number of accepted configurations since the start.
    pub configuration: u64,
    /// Id of the snapshot.
    pub snapshot: String,
    /// Id of the runtime state.
    pub runtime_state: String,
    /// True if a newer configuration was rejected.
    pub stale: bool,
    /// True if the server is ready, as `/readyz`.
    pub ready: bool,
    /// Active overrides, each as scope and end.
    pub overrides: Vec<String>,
    /// Revision of the declared objects that is served: intents, pools, and contributions of the webhook.
    pub objects: u64,
    /// Number of syncs of all providers since the start.
    pub syncs: u64,
}

/// Event `reload`: the configuration was reloaded or rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReloadEvent {
    /// The result, with the first 10 errors, changes and warnings.
    #[serde(flatten)]
    pub report: ReloadReport,
    /// Number of all errors.
    pub error_count: usize,
}
