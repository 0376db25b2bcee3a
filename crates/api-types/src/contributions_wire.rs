//! Bodies of `/v1/contributions`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::objects_wire::Condition;

/// `GET /v1/contributions`: all contributions of webhook clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contributions {
    /// In the order of base path, owner and set identifier.
    pub items: Vec<ContributionState>,
}

/// The contribution of an owner under one set identifier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContributionState {
    /// Base path of the calls: `/`, or `/owners/NAME`.
    pub path: String,
    /// Owner.
    pub owner: String,
    /// Set identifier; empty without one.
    pub set: String,
    /// Number of names.
    pub names: usize,
    /// Number of endpoints, including those of the registry.
    pub endpoints: usize,
    /// Time of the oldest endpoint.
    pub since: String,
    /// Time of the client's last call; left out if there was none since the start and there is no lease.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_seen: Option<String>,
    /// Factor of its weights, from 1 to 0: below 1 once the client has not called for longer than the lease.
    pub lease_weight: f64,
    /// Time when the weights begin to fade if the client does not call; left out without a lease.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fades_at: Option<String>,
    /// Time when they are 0 then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gone_at: Option<String>,
    /// Number of names that its writer withdrew and that are held: the answers keep them while their targets are healthy.
    #[serde(default)]
    pub held: usize,
    /// `Held`: true if names are held, with the reason (`manyNames`, `lastHealthyMember`), the first name and the time. `Conflict`: true
    /// if its records would hide names and are rejected (`RecordsRejected`), or such records of another owner are (`HidingRejected`),
    /// or if it wrote to endpoints of another owner at the same base path (`OwnedByAnother`).
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Members of steered names, at most 100, in the order of their names.
    #[serde(default)]
    pub members: Vec<ContributedMember>,
    /// Warnings about ignored or suspicious endpoints, at most 100.
    pub warnings: Vec<ContributionWarning>,
}

/// A contributed member of a steered name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContributedMember {
    /// The name.
    pub name: String,
    /// The cluster.
    pub cluster: String,
    /// Weight in the pool of the name. If the weight of a member fades, all weights of the pool are scaled.
    pub weight: u16,
    /// Weight of the property `webhook-gslb-weight`; left out without it, which counts as 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub declared: Option<u16>,
}

/// A warning about an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContributionWarning {
    /// The name.
    pub name: String,
    /// Error and hint.
    pub message: String,
}

/// The query of `DELETE /v1/contributions` and `POST /v1/contributions/confirm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Eviction {
    /// The owner.
    pub owner: String,
    /// Base path; all by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// Set identifier; all by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub set: Option<String>,
    /// Reason, for the history.
    #[schemars(length(max = 1024), pattern(r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
}

/// The response to `DELETE /v1/contributions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evicted {
    /// Number of removed endpoints.
    pub endpoints: usize,
}

/// The response to `POST /v1/contributions/confirm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// Number of held endpoints that were removed.
    pub endpoints: usize,
}
