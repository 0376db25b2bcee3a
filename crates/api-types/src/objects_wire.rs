//! What `/v1` speaks of declared objects: bodies as a configuration writes them, with what is known of each beside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::intents_wire::NewIntent;

/// An object: its own fields as a configuration writes them, and two that the server adds and leaves alone on input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectBody {
    /// What it says.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// What the store knows of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// What has become of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ObjectStatus>,
}

/// What the store knows of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The revision of its last change: also its ETag.
    pub revision: u64,
    /// How often what it says has changed, from 1.
    pub generation: u64,
    /// When it was declared first.
    pub created: String,
    /// When it was last changed.
    pub changed: String,
    /// Who changed it last.
    pub changed_by: String,
    /// Why; left out where nobody said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether that was by `POST /v1/apply`; left out where it was not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
}

/// What has become of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectStatus {
    /// The generation that this speaks of.
    pub observed_generation: u64,
    /// `Accepted` (it fits what else is declared) and `Served` (its last change is in the answers).
    pub conditions: Vec<Condition>,
}

/// One thing that is said of an object (Kubernetes: `metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What is said.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people; left out where the word says it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// `GET /v1/pools` and the like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectList {
    /// In the order of their names.
    #[schemars(with = "Vec<Value>")]
    pub items: Vec<ObjectBody>,
    /// The revision they are of.
    pub revision: u64,
    /// The `after` of the next page; left out on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST /v1/apply`: objects by section, as in a configuration file, and intents by their keys. All are taken, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApplyBody {
    /// Version of the format: 1.
    pub version: Option<u32>,
    /// Clusters.
    #[schemars(with = "Vec<Value>")]
    pub clusters: Vec<ObjectBody>,
    /// Intents, by their keys.
    pub intents: Vec<NewIntent>,
    /// Monitors.
    #[schemars(with = "Vec<Value>")]
    pub monitors: Vec<ObjectBody>,
    /// Steered names.
    #[schemars(with = "Vec<Value>")]
    pub names: Vec<ObjectBody>,
    /// Pools.
    #[schemars(with = "Vec<Value>")]
    pub pools: Vec<ObjectBody>,
    /// Records that are served as they are.
    #[schemars(with = "Vec<Value>")]
    pub records: Vec<ObjectBody>,
}

/// What `POST /v1/apply` did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplyReport {
    /// Whether it was only tried.
    pub dry_run: bool,
    /// Objects that were not there: `pools/shop`.
    pub created: Vec<String>,
    /// Objects that said something else.
    pub changed: Vec<String>,
    /// Objects that said the same.
    pub unchanged: u64,
    /// Objects that were taken away (`prune`).
    pub deleted: Vec<String>,
    /// What is other in the objects, field by field; only where it was only tried, and at most 1,000.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// What is other in what is served.
    pub effect: Vec<String>,
    /// Objects that are kept and not heeded, with the reasons.
    pub rejected: Vec<String>,
    /// The revision of it; 0 where nothing was written.
    pub revision: u64,
    /// Whether it is in the answers.
    pub served: bool,
}

/// A field of an object that says something else than before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Difference {
    /// The object: `pools/shop`.
    pub object: String,
    /// JSON pointer (RFC 6901) to the field; empty for all of an object that was made or taken away.
    pub pointer: String,
    /// What it said; null where there was nothing.
    pub before: Value,
    /// What it would say; null where there would be nothing.
    pub after: Value,
}

/// What a request may say beside its body.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WriteParameters {
    /// Only tell what would come of it.
    pub dry_run: bool,
    /// Take away what is declared over the API and not named here; of intents those that the caller has applied. Only of `POST /v1/apply`.
    pub prune: bool,
    /// Why, for the history.
    pub reason: String,
}

/// Which objects are wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListParameters {
    /// Those whose names come after this one.
    pub after: String,
    /// At most so many, 1 to 10,000; 1,000 by default.
    #[schemars(range(min = 1, max = 10000))]
    pub limit: Option<usize>,
    /// Those whose name holds this text.
    pub contains: String,
    /// Stay, and be told of each change as it is served.
    pub watch: bool,
    /// Changes after this revision, with `watch`; from now on by default.
    pub revision: Option<u64>,
}

/// What `GET /v1/pools?watch=true` says of an object that was taken away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletedObject {
    /// What it was called.
    pub name: String,
    /// The revision that took it away.
    pub revision: u64,
}

/// What `GET /v1/pools?watch=true` says where changes are no longer remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectsReset {
    /// Changes after this revision follow.
    pub revision: u64,
}

/// One entry of `GET /v1/pools/NAME/history`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryEntry {
    /// The revision it made.
    pub revision: u64,
    /// When.
    pub at: String,
    /// Who did it.
    pub by: String,
    /// Why; left out where nobody said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it said from then on; null where it was taken away.
    pub object: Option<Value>,
}

/// `GET /v1/objects`, on the control socket alone: everything that is declared, for a process that takes over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectsExport {
    /// The revision they are of.
    pub revision: u64,
    /// All of them.
    pub objects: Vec<ExportedObject>,
}

/// One object as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExportedObject {
    /// Its key in the store.
    pub key: String,
    /// What it says.
    pub value: Value,
    /// The revision of its last change.
    pub revision: u64,
    /// How often it has changed.
    pub generation: u64,
}
