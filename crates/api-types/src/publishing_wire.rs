//! What is said about publishing: `/v1/publishing`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How all providers stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishingState {
    /// In the order of the configuration; behind them those that are declared, in the order of their names.
    pub providers: Vec<PublisherState>,
}

/// How a provider stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublisherState {
    /// Its name; of one that a record of where to publish declares, `PROJECT/NAME`.
    pub name: String,
    /// Its zones.
    pub zones: Vec<String>,
    /// Whether changes are carried out as they come.
    pub auto: bool,
    /// `ok`, `behind`, `failing` or `starting`.
    pub status: String,
    /// Since when what is wanted is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_since: Option<String>,
    /// When the last sync ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_at: Option<String>,
    /// When the last good one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_at: Option<String>,
    /// When the next sync is due, unless what is wanted changes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_sync_at: Option<String>,
    /// For how long what is wanted has not been there, in seconds; 0 where it is.
    pub lag_secs: u64,
    /// Why it fails, or what is held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// Record sets of ours there.
    pub owned: usize,
    /// Record sets of others in its zones.
    pub foreign: usize,
    /// Record sets changed since the start, the registry's counted.
    pub changed: u64,
    /// Record sets that were found changed by others since the start.
    pub drifted: u64,
    /// How it stands with each record set.
    pub records: Vec<PublishedRecord>,
}

/// How it stands with a record set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishedRecord {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// What tells it from others of its name and type: the cluster, where the provider knows weights.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub set_identifier: String,
    /// `published`, `waiting`, `leaving` or `refused`; of a handover `announced`, `taken`, `returned` or `left`.
    pub status: String,
    /// Since when; of one that is published, since its records are these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What a sync would do, or did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishPlan {
    /// The provider.
    pub provider: String,
    /// Record sets that are, or would be, created.
    pub create: Vec<PlannedSet>,
    /// Those that are changed, as they were and as they are wanted.
    pub update: Vec<PlannedUpdate>,
    /// Those that are deleted.
    pub delete: Vec<PlannedSet>,
    /// Those of ours that stay.
    pub kept: usize,
    /// Those of others, which are never touched.
    pub foreign: usize,
    /// Registry records that are written or deleted, too.
    pub registry: usize,
    /// What cannot be published.
    pub refused: Vec<PublishedRecord>,
    /// Why deletions are held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions_refused: Option<String>,
    /// Record sets that were changed; none for a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<usize>,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A step by which record sets are taken over from another owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeOrder {
    /// Whose they are, as the registry says.
    pub from: String,
    /// `announce`, `finish` or `abort`.
    pub step: String,
    /// Names that are taken over; none: all of that owner that are wanted here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Why; it stands in the audit log.
    #[serde(default)]
    pub reason: String,
    /// How long ago a set must have been announced to be finished, in seconds, 0 to 86,400. Default 120.
    #[serde(default = "two_minutes")]
    pub after_secs: u64,
    /// Only tell what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// Longer than an ExternalDNS takes from reading to writing, with its usual interval of a minute.
fn two_minutes() -> u64 {
    120
}

/// What a step of a handover did, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TakeReport {
    /// The provider.
    pub provider: String,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The record sets that it is about.
    pub records: Vec<PublishedRecord>,
    /// Why it ended early; the same step again does the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A record set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedSet {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// In seconds.
    pub ttl: u32,
    /// What tells it from others of its name and type: the cluster, where the provider knows weights.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub set_identifier: String,
    /// Further fields, such as its weight.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// RDATA in presentation form.
    pub records: Vec<String>,
}

/// A record set that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedUpdate {
    /// As it is.
    pub from: PlannedSet,
    /// As it is wanted.
    pub to: PlannedSet,
}

/// How a plan or an apply is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PublishParameters {
    /// Record sets that may be deleted, whatever the bounds say.
    pub deletions: usize,
}
