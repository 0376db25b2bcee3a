//! What `/v1/contributions` speaks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET /v1/contributions`: everything that is brought over the webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contributions {
    /// By base path, owner and set identifier.
    pub items: Vec<ContributionState>,
}

/// What one owner brings under one set identifier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContributionState {
    /// The base path it comes by: `/`, or `/owners/NAME`.
    pub path: String,
    /// Whose it is.
    pub owner: String,
    /// The set identifier; empty where there is none.
    pub set: String,
    /// How many names it is about.
    pub names: usize,
    /// How many endpoints, those of the registry included.
    pub endpoints: usize,
    /// Since when, at the longest.
    pub since: String,
    /// When its writer was last heard of; none if it was not since the start and there is no lease.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_seen: Option<String>,
    /// What is left of its weight, from 1 to 0: less than 1 while its writer is silent for longer than the lease.
    pub lease_weight: f64,
    /// When it begins to fade if the writer stays silent; none without a lease.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fades_at: Option<String>,
    /// When it is gone then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gone_at: Option<String>,
    /// The members that it brings to steered names, with their weights, at most 100; by name.
    #[serde(default)]
    pub members: Vec<ContributedMember>,
    /// What of it is not heeded or odd, at most 100.
    pub warnings: Vec<ContributionWarning>,
}

/// A member that a contribution brings to a steered name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContributedMember {
    /// The name.
    pub name: String,
    /// The cluster.
    pub cluster: String,
    /// The weight that counts in the name's pool. Where any of its members fades, all weights are multiplied by one number.
    pub weight: u16,
    /// The weight that `webhook-gslb-weight` says; none where it says nothing, which counts as 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub declared: Option<u16>,
}

/// Something of a contribution that is not heeded, or odd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContributionWarning {
    /// The name.
    pub name: String,
    /// What it is, and what to do about it.
    pub message: String,
}

/// What is to be taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Eviction {
    /// The owner.
    pub owner: String,
    /// The base path; all of them where it is left out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The set identifier; all of them where it is left out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub set: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
}

/// `DELETE /v1/contributions`: what was taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evicted {
    /// How many endpoints.
    pub endpoints: usize,
}
