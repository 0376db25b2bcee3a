//! Bodies of `/v1/publishing`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of all providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishingState {
    /// Providers of the configuration in its order, then declared ones in the order of their names.
    pub providers: Vec<PublisherState>,
}

/// Status of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublisherState {
    /// Name; `PROJECT/NAME` if a `dns-update-record` declares it.
    pub name: String,
    /// Zones that are published there.
    pub zones: Vec<String>,
    /// True if changes are published automatically.
    pub auto: bool,
    /// Status: `ok`, `behind`, `failing`, `starting`, or `standby` if another server publishes.
    pub status: String,
    /// Time when its records began to differ from the desired ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_since: Option<String>,
    /// Time when the last sync ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_at: Option<String>,
    /// Time when the last successful sync ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_at: Option<String>,
    /// Time of the next sync, unless the desired records change earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_sync_at: Option<String>,
    /// Seconds since its records differ from the desired ones; 0 if they are equal.
    pub lag_secs: u64,
    /// Server that publishes in place of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<String>,
    /// Cause of failing syncs, or the deletions that are held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Number of failed syncs in a row.
    pub failures: u32,
    /// Number of record sets that this server owns.
    pub owned: usize,
    /// Number of record sets that others own.
    pub foreign: usize,
    /// Number of record sets changed since the start, including those of the registry.
    pub changed: u64,
    /// Number of record sets that others changed since the start (drift).
    pub drifted: u64,
    /// Status of each record set.
    pub records: Vec<PublishedRecord>,
}

/// Status of a record set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishedRecord {
    /// Name.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Set identifier, for providers with weights: the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub set_identifier: String,
    /// Status: `published`, `waiting`, `leaving` or `refused`; of a handover `announced`, `taken`, `returned` or `left`.
    pub status: String,
    /// Time of the last change of its status; if it is published, also of its records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Reason why it is refused or left.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The changes of a sync: planned or made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishPlan {
    /// The provider.
    pub provider: String,
    /// Id of the plan, for a sync of exactly these changes: 16 hexadecimal digits.
    pub id: String,
    /// Record sets to create.
    pub create: Vec<PlannedSet>,
    /// Record sets to change.
    pub update: Vec<PlannedUpdate>,
    /// Record sets to delete.
    pub delete: Vec<PlannedSet>,
    /// Number of own record sets that do not change.
    pub kept: usize,
    /// Number of record sets of others, which are never changed.
    pub foreign: usize,
    /// Number of registry records to write or delete.
    pub registry: usize,
    /// Record sets that cannot be published.
    pub refused: Vec<PublishedRecord>,
    /// Reason why deletions are held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions_refused: Option<String>,
    /// Number of changed record sets; left out of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<usize>,
    /// Error that ended the sync early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A step of taking record sets over from another owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeOrder {
    /// Owner of the record sets in the registry.
    #[schemars(length(min = 1, max = 1024))]
    pub from: String,
    /// Step: `announce`, `finish` or `abort`.
    #[schemars(pattern(r"^(announce|finish|abort)$"))]
    pub step: String,
    /// Names to take over; by default all names of that owner that are desired here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Reason, for the audit log.
    #[schemars(length(max = 1024), pattern(r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    #[serde(default)]
    pub reason: String,
    /// Seconds between announcing and finishing a record set, 0 to 86,400; default 120.
    #[schemars(range(max = 86400))]
    #[serde(default = "two_minutes")]
    pub after_secs: u64,
    /// Report what would be done, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Returns the default of `afterSecs`: twice the default interval of ExternalDNS, so that it has read the announcement.
fn two_minutes() -> u64 {
    120
}

/// The result of a step of a handover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TakeReport {
    /// The provider.
    pub provider: String,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// Record sets of the step.
    pub records: Vec<PublishedRecord>,
    /// Error that ended the step early; repeat the step to continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A record set of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedSet {
    /// Name.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// TTL in seconds.
    pub ttl: u32,
    /// Set identifier, for providers with weights: the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub set_identifier: String,
    /// Further properties of the provider, such as the weight.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// RDATA in presentation format.
    pub records: Vec<String>,
}

/// A record set to change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedUpdate {
    /// Record set before.
    pub from: PlannedSet,
    /// Record set after.
    pub to: PlannedSet,
}

/// The query of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SyncParameters {
    /// Number of record sets that may be deleted beyond the bounds.
    pub deletions: usize,
    /// Id of the plan to apply. If the changes would be others by now, nothing is changed.
    pub plan: Option<String>,
}

/// The query of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PublishParameters {
    /// Number of record sets that may be deleted beyond the bounds.
    pub deletions: usize,
}
