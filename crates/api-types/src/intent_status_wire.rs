//! Status of an intent, as responses have it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::objects_wire::Condition;

/// Status of an intent. Responses have it; requests may have it, and it is ignored there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentStatus {
    /// Generation of the intent that the status is about.
    pub observed_generation: u64,
    /// `Accepted`. An intent that can be served also has `Conflict` (another intent claims its name) and `Ready` (clients are sent to it);
    /// a record of where to publish also has `Published`.
    pub conditions: Vec<Condition>,
    /// Answers for the intent; absent while it is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
    /// Clusters that serve the name, also if the name belongs to another intent.
    pub members: Vec<IntentMember>,
}

/// Answers for an intent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Answered {
    /// Name.
    pub name: String,
    /// Pool that answers for the name, as in `/v1/state`.
    pub pool: String,
    /// Its policy, as in a pool: `load, weighted` by default, or `weighted` if one of its clusters has no `capacity`.
    pub policy: String,
    /// TTL of the answers, in seconds.
    pub ttl: u32,
    /// Time of the last change, or of the start of this server, whichever was later.
    pub since: String,
}

/// A cluster that serves an intent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentMember {
    /// Cluster.
    pub cluster: String,
    /// True if clients are sent there.
    pub eligible: bool,
    /// Eligibility: `up`, `unknown`, `exhausted`, `pending`, `down`, `out`; `closed` outside its windows.
    pub reason: String,
    /// Weight, and its source.
    pub weight: EffectiveWeight,
    /// Tier.
    pub tier: u8,
    /// Share of its tier by weight, in percent; null if no member has a weight over 0.
    pub share: Option<f64>,
}

/// A weight, and its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EffectiveWeight {
    /// Effective weight.
    pub effective: u16,
    /// `gslb.members` of the intent, `services` of the cluster, `trafficWeight` of the intents below a compound, or `another intent`
    /// with the same name, whose members were merged.
    pub source: String,
}
