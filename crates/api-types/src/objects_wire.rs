//! Declared objects: bodies in the format of the configuration, with metadata and status.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::intents_wire::NewIntent;

/// An object: its fields in the format of the configuration, and two that the server adds and ignores in requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectBody {
    /// Its own fields.
    #[serde(flatten)]
    pub spec: Map<String, Value>,
    /// Its source, and metadata of the store.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Status conditions.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    pub status: Option<ObjectStatus>,
}

/// Reads a field that may be left out, but not null.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Metadata of an object. Objects that are not declared over the API have a source only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Revision of its last change; its ETag.
    #[serde(skip_serializing_if = "is_zero")]
    pub revision: u64,
    /// Number of changes of its content, from 1 (Kubernetes: `metadata.generation`).
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// Time of its creation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Time of its last change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub changed: String,
    /// Identity that changed it last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub changed_by: String,
    /// Reason of the last change; left out if none was given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// True if the last change was by `POST /v1/apply`; left out if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Its source.
    pub source: ObjectSource,
}

/// The source of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectSource {
    /// Kind of the source.
    // Of a schema that describes each word, the generator makes Go code that needs another module.
    #[schemars(with = "String", extend("enum" = ["api", "file", "intent", "webhook", "kubernetes"]))]
    pub kind: SourceKind,
    /// File and line, the key of the intent, or the owners of the contributions; empty for objects of the API.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
}

/// A kind of source of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The API declared it.
    #[default]
    Api,
    /// A configuration file declares it.
    File,
    /// An intent leads to it.
    Intent,
    /// Clients of the webhook contribute it, perhaps together with objects of Kubernetes clusters.
    Webhook,
    /// Objects of Kubernetes clusters contribute it.
    Kubernetes,
}

impl SourceKind {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::File => "file",
            Self::Intent => "intent",
            Self::Webhook => "webhook",
            Self::Kubernetes => "kubernetes",
        }
    }
}

// Serde passes a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Status of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectStatus {
    /// Generation that the conditions are about; 0 for an object that is not declared over the API.
    pub observed_generation: u64,
    /// `Accepted` (it is valid together with the other objects), `Conflict` (another source declares it differently) and `Served` (its last
    /// change is in the answers).
    pub conditions: Vec<Condition>,
}

/// A condition of an object (Kubernetes: `metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// Reason, in one word.
    pub reason: String,
    /// Explanation; left out if the reason says it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Condition {
    /// Returns a condition with the status `True` if it holds, else `False`.
    pub fn new(kind: &str, holds: bool, reason: &str, message: String) -> Self {
        let status = if holds { "True" } else { "False" };
        Self { kind: kind.to_owned(), status: status.to_owned(), reason: reason.to_owned(), message }
    }
}

/// `GET /v1/pools` and the like: a page of objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectList {
    /// In the order of their names.
    #[schemars(with = "Vec<Value>")]
    pub items: Vec<ObjectBody>,
    /// Revision of the store.
    pub revision: u64,
    /// Value of `after` for the next page; left out on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST /v1/apply`: objects by section, as in a configuration file, and intents by their keys. All are applied, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApplyBody {
    /// Version of the format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: Option<u32>,
    /// Clusters.
    #[schemars(with = "Vec<Value>")]
    pub clusters: Vec<ObjectBody>,
    /// Intents with their keys.
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
    /// Records that are answered unchanged.
    #[schemars(with = "Vec<Value>")]
    pub records: Vec<ObjectBody>,
}

/// Changes that `POST /v1/apply` made, or would make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplyReport {
    /// True if nothing was changed.
    pub dry_run: bool,
    /// Created objects: `pools/shop`.
    pub created: Vec<String>,
    /// Changed objects.
    pub changed: Vec<String>,
    /// Number of objects that were equal.
    pub unchanged: u64,
    /// Deleted objects (`prune`).
    pub deleted: Vec<String>,
    /// Differences field by field, at most 1,000; only for a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Changes of what is served.
    pub effect: Vec<String>,
    /// Objects that are stored but not used, with the reasons.
    pub rejected: Vec<String>,
    /// Revision of the change; 0 if nothing was written.
    pub revision: u64,
    /// True if the change is in the answers.
    pub served: bool,
}

/// A field of an object that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Difference {
    /// The object: `pools/shop`.
    pub object: String,
    /// JSON pointer (RFC 6901) to the field; empty for an object that is created or deleted.
    pub pointer: String,
    /// Value before; null if there was none.
    pub before: Value,
    /// Value after; null if there is none.
    pub after: Value,
}

/// The query of a write.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WriteParameters {
    /// For `POST /v1/apply` with `prune`: delete also if that looks like a mistake. By default the request fails with 409 if all names of
    /// the caller (at least two) would go, or more than ten and more than a fifth, or the last healthy member of a name that stays. What the
    /// caller pruned in the last ten minutes counts.
    pub allow_removals: bool,
    /// Report what would change, and change nothing.
    pub dry_run: bool,
    /// For `POST /v1/apply`: store access points that deny requests, although nothing enforces them.
    pub inert: bool,
    /// For `POST /v1/apply`: delete objects of the API that the body lacks; of intents only those that the caller has applied.
    pub prune: bool,
    /// Reason, for the history.
    #[schemars(length(max = 1024), pattern(r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub reason: String,
}

/// The query of a list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListParameters {
    /// Only objects whose names come after this one.
    pub after: String,
    /// Number of objects, 1 to 10,000; 1,000 by default.
    #[schemars(range(min = 1, max = 10000))]
    pub limit: Option<usize>,
    /// Only objects whose name contains this text.
    pub contains: String,
    /// Stream changes as they are served, instead of a list.
    pub watch: bool,
    /// With `watch`: begin after this revision; by default with the next change.
    #[schemars(range(max = 18446744073709551615u64))]
    pub revision: Option<u64>,
}

/// Event `deleted` of `GET /v1/pools?watch=true`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletedObject {
    /// Name of the object; the key of an intent.
    pub name: String,
    /// Key of an intent, as `changed` has it; left out for other objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Revision of the deletion.
    pub revision: u64,
}

/// Event `reset` of `GET /v1/pools?watch=true`: changes were lost; list again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectsReset {
    /// The stream continues after this revision.
    pub revision: u64,
}

/// An entry of `GET /v1/pools/NAME/history`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryEntry {
    /// Revision of the change.
    pub revision: u64,
    /// Time of the change.
    pub at: String,
    /// Identity that made it.
    pub by: String,
    /// Reason; left out if none was given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Content after the change; null after a deletion.
    pub object: Option<Value>,
}

/// `GET /v1/objects`, on the control socket only: all declared objects, for a replacing process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectsExport {
    /// Revision of the store.
    pub revision: u64,
    /// All objects.
    pub objects: Vec<ExportedObject>,
}

/// An object as the store has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExportedObject {
    /// Its key in the store.
    pub key: String,
    /// Content.
    pub value: Value,
    /// Revision of its last change.
    pub revision: u64,
    /// Generation.
    pub generation: u64,
}
