//! Bodies and parameters of `/v1/intents`, without the bodies of intents themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::objects_wire::Metadata;

/// The query of `GET /v1/intents`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IntentListParameters {
    /// Only intents whose keys come after this one.
    pub after: String,
    /// Number of intents, 1 to 10,000; 1,000 by default.
    #[schemars(range(min = 1, max = 10000))]
    pub limit: Option<usize>,
    /// Only intents whose key or DNS name contains this text.
    pub contains: String,
    /// Only intents of this project; a grant for it is enough.
    #[schemars(pattern(r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?)?$"))]
    pub project: Option<String>,
    /// Stream changes as they are served, instead of a list.
    pub watch: bool,
    /// With `watch`: begin after this revision; by default with the next change.
    #[schemars(range(max = 18446744073709551615u64))]
    pub revision: Option<u64>,
}

/// `GET /v1/intents`: a page of intents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentList {
    /// In the order of their keys.
    pub items: Vec<IntentItem>,
    /// Revision of the store.
    pub revision: u64,
    /// Value of `after` for the next page; left out on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An intent to create, as a list has it; other fields such as `metadata` are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewIntent {
    /// Key: `inbound/PROJECT/APP/VERSION/GROUP/TRAFFIC-GROUP/NAME`.
    pub key: String,
    /// The intent, as `PUT` accepts it.
    pub intent: Value,
}

/// An intent in a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentItem {
    /// Key: `GET /v1/intents/KEY` returns the intent.
    pub key: String,
    /// Metadata of the store.
    pub metadata: Metadata,
    /// The intent with its `status`, as `GET` returns it.
    pub intent: Value,
}
