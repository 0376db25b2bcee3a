//! What has become of an intent, as answers tell it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fairway_api_types::objects_wire::Condition;

/// What has become of an intent. It is told in answers, and left alone on input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentStatus {
    /// The generation that this speaks of: how often what it says has changed.
    pub observed_generation: u64,
    /// `Accepted`; of what can be answered also `Conflict` (another one claims its name) and `Ready` (clients are sent to it); of records of
    /// where to publish also `Published`.
    pub conditions: Vec<Condition>,
    /// Where it is answered; left out while it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
    /// Who answers there, also where the name belongs to another intent.
    pub members: Vec<IntentMember>,
}

/// Where an intent is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Answered {
    /// The name.
    pub name: String,
    /// The pool that answers for it, as `/v1/state` has it.
    pub pool: String,
    /// TTL of the answers, in seconds.
    pub ttl: u32,
    /// Since when, as it is now: its last change, or the start of this server, whichever was later.
    pub since: String,
}

/// One cluster that answers for an intent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentMember {
    /// The cluster.
    pub cluster: String,
    /// Whether clients are sent there.
    pub eligible: bool,
    /// How it stands: `up`, `unknown`, `pending`, `down`, `out`; `closed` outside of its windows.
    pub reason: String,
    /// Its weight, and what says it.
    pub weight: EffectiveWeight,
    /// Its tier.
    pub tier: u8,
    /// Its share of its tier by weight, in percent; none where no weight is over 0.
    pub share: Option<f64>,
}

/// A weight, and what says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EffectiveWeight {
    /// What is reckoned with.
    pub effective: u16,
    /// `gslb.members` of the intent, `services` of the cluster, `trafficWeight` of the intents below a compound, or `another intent`
    /// of the same name, whose members joined.
    pub source: String,
}
