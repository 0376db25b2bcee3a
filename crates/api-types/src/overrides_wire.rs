//! Bodies of `/v1/overrides`: JSON in camelCase, times in RFC 3339.
//!
//! Fields are only added; readers ignore those that they do not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET /v1/overrides`: the active overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideList {
    /// Current time of the server.
    pub now: String,
    /// Active overrides; those of the configuration come first.
    pub items: Vec<OverrideState>,
}

/// An active override. Also the response to `POST /v1/overrides`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideState {
    /// Id for its deletion; null for overrides of the configuration, which are deleted there, and after a dry run.
    pub id: Option<String>,
    /// `config`, `command` (added to this server), or `store` (added to all servers that share the store).
    pub source: String,
    /// Addresses that it matches, as a pattern; absent if it is of pools.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// `up`, `down` or `drain`; absent if it is of pools.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// Pattern of the pools that it pins to their declared weights; absent if it is of health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<String>,
    /// Load control in these pools: `off`; absent if it is of health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Pools that it pins now; empty if it is of health.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// Reason.
    pub reason: String,
    /// Time when it expires.
    pub expires: String,
    /// Identity of the caller that added it; null for overrides of the configuration.
    pub created_by: Option<String>,
    /// Time when it was added; null for overrides of the configuration.
    pub created_at: Option<String>,
    /// Address of the client that added it, `control socket`, or its place in the configuration.
    pub created_from: String,
    /// Addresses that it matches now, as `CLUSTER/ADDRESS`; an empty list hints at a wrong scope.
    pub addresses: Vec<String>,
    /// Addresses at which another override has a different action. `down` takes precedence over `drain`, and `drain` over `up`.
    pub overlaps: Vec<OverrideOverlap>,
    /// Effect of an override that is added, by the health at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<OverrideEffect>,
}

/// An address that two overrides with different actions match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideOverlap {
    /// The address, as `CLUSTER/ADDRESS`.
    pub address: String,
    /// Id of the other override, or its place in the configuration. Of several, the one that takes precedence.
    #[serde(rename = "override")]
    pub other: String,
    /// Action of the other override.
    pub action: String,
    /// True if the other override takes precedence.
    pub shadowed: bool,
}

impl OverrideState {
    /// Returns what it applies to as text: `eu*`, or `pools shop*`.
    pub fn scope_text(&self) -> String {
        self.pools.as_ref().map_or_else(|| self.scope.clone(), |pools| format!("pools {pools}"))
    }

    /// Returns what it does as text: `drain`, or `load off`.
    pub fn action_text(&self) -> String {
        self.load.as_ref().map_or_else(|| self.action.clone(), |load| format!("load {load}"))
    }
}

/// Effect of an override on the answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideEffect {
    /// Number of names that it leaves without a healthy member; more than 0 require `confirm=true`.
    pub names_without_healthy_member: usize,
    /// The first of these names, at most 8.
    pub first_names: Vec<String>,
}

/// A pool that an override pins to its declared weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolPin {
    /// Id of the override, or its place in the configuration.
    #[serde(rename = "override")]
    pub id: String,
    /// Reason of the override.
    pub reason: String,
    /// Time when the override expires.
    pub expires: String,
    /// Declared policy, which holds again after the override.
    pub policy: String,
}

/// `POST /v1/overrides`: an override to create, with `scope` and `action`, or with `pools` and `load`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewOverride {
    /// Pattern of clusters or addresses: `eu*` or `eu1/203.0.113.10`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// `up`, `down` or `drain`.
    #[schemars(pattern(r"^(up|down|drain|)$"))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// Pattern of pools with the step `load`, which are pinned to their declared weights: `shop` or `shop*`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pools: String,
    /// Load control in these pools: `off`.
    #[schemars(pattern(r"^(off|)$"))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub load: String,
    /// Reason, one line.
    pub reason: String,
    /// Seconds until it expires, 1 to 2,592,000 (30 days).
    #[schemars(range(min = 1, max = 2592000))]
    pub for_secs: u64,
}

/// The query of `POST /v1/overrides`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideParameters {
    /// True to add an override that leaves names without a healthy member; default false.
    #[serde(default)]
    pub confirm: bool,
    /// True to return the effect and change nothing; default false.
    #[serde(default)]
    pub dry_run: bool,
    /// True to add it to this server alone, if several servers share a store; default false.
    #[serde(default)]
    pub local: bool,
}
