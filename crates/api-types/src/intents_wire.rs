//! What `/v1/intents` speaks, beside the bodies of intents themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects_wire::Metadata;

/// Which intents are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IntentListParameters {
    /// Those whose keys come after this one.
    pub after: String,
    /// At most so many, 1 to 1,000; 100 by default.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// Those whose key, or the name they are answered under, holds this text.
    pub contains: String,
    /// Those of this project, for which a grant there is enough.
    #[schemars(pattern(r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$"))]
    pub project: Option<String>,
    /// Stay, and be told of each change as it is served.
    pub watch: bool,
    /// Changes after this revision, with `watch`; from now on by default.
    pub revision: Option<u64>,
}

/// `GET /v1/intents`: intents of all projects, or of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentList {
    /// In the order of their keys.
    pub items: Vec<IntentItem>,
    /// The revision they are of.
    pub revision: u64,
    /// The `after` of the next page; left out on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An intent that is to be, as a list has it: `metadata` is left alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewIntent {
    /// Where it is to be: `inbound/PROJECT/APP/VERSION/GROUP/TRAFFIC-GROUP/NAME`.
    pub key: String,
    /// What it says, as `PUT` takes it.
    pub intent: Value,
}

/// One intent of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentItem {
    /// Where it is: `GET /v1/intents/KEY`.
    pub key: String,
    /// What the store knows of it.
    pub metadata: Metadata,
    /// What it says, and its `status`: as `GET` shows it.
    pub intent: Value,
}
