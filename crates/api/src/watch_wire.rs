//! What `GET /v1/watch` speaks: the bodies of its events, JSON in camelCase. Fields are only ever added.

use fairway_model::Timestamp;
use std::sync::Arc;

use axum::response::sse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fairway_api_types::state_wire::ReloadReport;
use fairway_control::{AppliedTransition, PoolMoved, Story};

/// What `GET /v1/watch` is asked with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchParameters {
    /// Id of the last event that was seen, where the header `Last-Event-ID` is not sent.
    #[serde(default)]
    pub(super) after: Option<String>,
    /// How many of the last kept events to begin with, where no last one is named; default 0.
    #[serde(default)]
    pub(super) recent: Option<usize>,
}

/// Event `transition`: a verdict that changed, once the answers follow it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TransitionEvent {
    /// When the verdict changed.
    pub at: String,
    /// When the answers began to follow it.
    pub applied: String,
    /// Where its probes go.
    pub address: String,
    /// The monitor.
    pub monitor: String,
    /// Clusters judged by the target.
    pub clusters: Vec<String>,
    /// What it was: `up`, `down`, `pending`, `unknown`.
    pub from: String,
    /// What it is.
    pub to: String,
    /// Why.
    pub cause: String,
    /// How many pools are judged by the target.
    pub pools_total: usize,
    /// How many of them answer some clients otherwise than without the flip; none where there were too many to ask.
    pub pools_moved: Option<usize>,
    /// How many names these answer.
    pub names_moved: usize,
    /// The pools that moved most, at most 8.
    pub pools: Vec<PoolMovedState>,
}

/// What a flip moved in one pool, found by asking for 16 to 1,024 clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolMovedState {
    /// The pool.
    pub name: String,
    /// How many names it answers.
    pub names: usize,
    /// The first few of them.
    pub some_names: Vec<String>,
    /// How many of its clients are answered otherwise, in percent.
    pub moved: f64,
    /// Each cluster's part of the clients; at most 12, those that changed most.
    pub shares: Vec<ShareMoved>,
}

/// A cluster's part of a pool's clients, in percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShareMoved {
    /// The cluster.
    pub cluster: String,
    /// As it would be without the flip.
    pub before: f64,
    /// As it is.
    pub after: f64,
}

/// Event `state`: something that `/v1/state` shows has changed, or this is the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StateEvent {
    /// Counts accepted configurations.
    pub generation: u64,
    /// Id of what is configured.
    pub snapshot: String,
    /// Id of what is measured.
    pub runtime_state: String,
    /// Whether a newer configuration was refused.
    pub stale: bool,
    /// Whether the server wants to be asked.
    pub ready: bool,
    /// The overrides in force, each as its scope and end.
    pub overrides: Vec<String>,
    /// Revision of the declared objects that is served: intents, pools, and what the webhook's clients bring.
    pub objects: u64,
    /// Syncs of all providers that are published to, since the start.
    pub syncs: u64,
}

/// Event `reload`: the configuration was read anew, and taken or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReloadEvent {
    /// What became of it; of faults, changes and warnings the first 10.
    #[serde(flatten)]
    pub report: ReloadReport,
    /// How many faults there are in all.
    pub error_count: usize,
}

impl TransitionEvent {
    pub(super) fn new(told: &AppliedTransition, story: &Story) -> Self {
        let AppliedTransition { transition, clusters, pools, applied } = told;
        let time = |at| format!("{:.3}", Timestamp::from(at));
        Self {
            at: time(transition.at),
            applied: time(*applied),
            address: transition.target.address.to_string(),
            monitor: transition.target.label.to_string(),
            clusters: clusters.iter().take(LISTED_MAX).map(ToString::to_string).collect(),
            from: transition.from.to_string(),
            to: transition.to.to_string(),
            cause: transition.cause.to_string(),
            pools_total: pools.len(),
            pools_moved: story.pools_moved,
            names_moved: story.names_moved,
            pools: story.pools.iter().map(PoolMovedState::new).collect(),
        }
    }
}

impl PoolMovedState {
    fn new(moved: &PoolMoved) -> Self {
        let percent = |part: f64| (1000.0 * part).round() / 10.0;
        let share = |(cluster, before, after): &(fairway_model::ClusterName, f64, f64)| ShareMoved {
            cluster: cluster.to_string(),
            before: percent(*before),
            after: percent(*after),
        };
        Self {
            name: moved.pool.to_string(),
            names: moved.names,
            some_names: moved.some.iter().map(ToString::to_string).collect(),
            moved: percent(moved.moved),
            shares: moved.shares.iter().map(share).collect(),
        }
    }
}

impl ReloadEvent {
    pub(super) fn new(report: &ReloadReport) -> Self {
        let mut report = report.clone();
        let error_count = report.errors.len();
        report.errors.truncate(LISTED_MAX);
        report.changes.truncate(LISTED_MAX);
        report.warnings.truncate(LISTED_MAX);
        Self { report, error_count }
    }
}

/// One server-sent event. The hub keeps these, so that each is rendered once for all watchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// What a client sends as `Last-Event-ID` to continue after it.
    pub(super) id: Option<String>,
    pub(super) event: &'static str,
    /// JSON.
    pub(super) data: Arc<str>,
}

impl Message {
    pub(super) fn new(event: &'static str, id: Option<&str>, body: &impl Serialize) -> Self {
        let data = serde_json::to_string(body).expect("texts and numbers have a JSON form");
        Self { id: id.map(str::to_owned), event, data: data.into() }
    }
}

impl From<Message> for sse::Event {
    fn from(Message { id, event, data }: Message) -> Self {
        let made = match id {
            Some(id) => Self::default().id(id),
            None => Self::default(),
        };
        made.event(event).data(data)
    }
}

/// Most entries of a list in one event.
const LISTED_MAX: usize = 10;
