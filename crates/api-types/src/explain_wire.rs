//! `GET /v1/explain?name=NAME&type=TYPE&client=SUBNET`: every step of an answer.
//!
//! The answering code itself reports the steps. Fields are only added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{history_wire::PastState, kubernetes_wire::WeightFactors, overrides_wire::PoolPin, state_wire::ProbeState};

/// An answer and the steps that led to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    /// The state of the past that it is of; null for that of now.
    pub at: Option<PastState>,
    /// Id of the snapshot.
    pub snapshot: String,
    /// Id of the runtime state.
    pub runtime_state: String,
    /// Number of the balancing decision in the runtime state; null without balancing.
    pub epoch: Option<u64>,
    /// Name of the query.
    pub name: String,
    /// Type of the query.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Network of the client; null for a query without one.
    pub client: Option<String>,
    /// Health: `measured`, or `assumed` if only files were read.
    pub health: String,
    /// Names that were looked up: that of the query, then those of aliases.
    pub steps: Vec<Step>,
    /// Mnemonic of the response code.
    pub rcode: String,
    /// True if the answer is authoritative (AA).
    pub authoritative: bool,
    /// Answer section.
    pub answer: Vec<Record>,
    /// Authority section.
    pub authority: Vec<Record>,
    /// Additional section, without OPT.
    pub additional: Vec<Record>,
    /// Bits of the client's address that the answer depends on (RFC 7871); null without a client.
    pub scope: Option<u8>,
    /// Reason of the TTL.
    pub ttl_reason: String,
}

/// One name that was looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// The name.
    pub name: String,
    /// Its zone; null outside of all zones.
    pub zone: Option<String>,
    /// Kind of the node: `static`, `steered`, `emptyNonTerminal`, `wildcard`, `delegation`, `dname`, `nothing`, `outside`.
    pub node: String,
    /// The wildcard, delegation or DNAME that applies to the name.
    pub through: Option<String>,
    /// Choice of its pool, for a steered name.
    pub pool: Option<PoolChoice>,
}

/// The choice of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolChoice {
    /// The pool.
    pub name: String,
    /// Policy, as in the configuration: `weighted`, or `geo, nearest, load, weighted`.
    pub policy: String,
    /// The override that pins the pool to its declared weights; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<PoolPin>,
    /// Steps of the policy in order, as text.
    pub policy_steps: Vec<String>,
    /// Basis of the choice: `live`, `exhausted`, `pending`, `panic`, `down`, `noFamily`, `hidden`.
    pub basis: String,
    /// The basis as text.
    pub basis_text: String,
    /// Result: `members`, `fallback`, `nothing`, `refuse`.
    pub result: String,
    /// Further input of the choice: `everyone` (none), `client 203.0.113.0/24`, or `draw`.
    pub depends_on: String,
    /// Source of the client's location: an entry of the map, latencies, or a preference; null for a policy without locations.
    pub location_source: Option<String>,
    /// Location of the client, as the pool classifies it.
    pub location: ClientLocation,
    /// Clusters of the members in groups of equal rank, in the order of the client's location class.
    pub groups: Vec<Vec<String>>,
    /// Assignment of the client, in a pool that uses load: `slot` (load control chose the cluster), `nearest` (the best group with a
    /// candidate).
    pub assignment: Option<String>,
    /// The assignment as text.
    pub assignment_text: Option<String>,
    /// Slot of the client's demand, 0 to 255; null if load control has no table for its location class.
    pub slot: Option<u8>,
    /// Cluster that load control has for the slot, eligible or not.
    pub slot_cluster: Option<String>,
    /// Demand of the client's location class that moves now, in the unit of the capacities: its clients follow within a TTL. Null without
    /// load control, before its first decision, and if another server decides.
    pub moving: Option<u64>,
    /// Reason why load control does not divide that demand in the best way yet: `deadBand` (too little would be gained to change answers), `rate` (as
    /// much moved as may at a time), `room` (the better clusters have none yet); null if it does.
    pub obstacle: Option<String>,
    /// Hash of the client in the formulas, 16 hexadecimal digits; zeros if every client gets the same.
    pub seed: String,
    /// Stable hash of the pool's name, as 16 hexadecimal digits.
    pub key: String,
    /// Clusters in the answer, the preferred one first.
    pub chosen: Vec<String>,
    /// Tiers that were considered.
    pub tiers: Vec<u8>,
    /// All members in declared order.
    pub members: Vec<MemberChoice>,
}

/// Location of a client in a pool, and the scope of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientLocation {
    /// Network that counts as one client.
    pub network: String,
    /// Block of the pool's client partition; null if all clients are in one location class.
    pub block: Option<String>,
    /// Location class of that block, counted from 0.
    pub class: u16,
    /// Number of location classes.
    pub classes: u16,
    /// ECS scope of this pool: bits of the client's address that the choice depends on.
    pub scope: u8,
    /// Reason of the scope.
    pub scope_reason: String,
}

/// A member of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberChoice {
    /// Name of the cluster.
    pub cluster: String,
    /// Weight: that of its declaration or its split, times its ready endpoints, as `weightFactors` says.
    pub weight: u16,
    /// Factors of the weight, and where they come from.
    pub weight_factors: WeightFactors,
    /// Declared tier.
    pub tier: u8,
    /// Index of its group in `groups`; null if it is in none.
    pub group: Option<u8>,
    /// True if it is answered only if no member of weight 1 or more can be.
    pub standby: bool,
    /// True if it is in the answer.
    #[serde(rename = "in")]
    pub is_in: bool,
    /// Reason why it is in the answer or not.
    pub reason: String,
    /// State of its schedule and the time until which it holds; null without a schedule.
    pub schedule: Option<String>,
    /// Candidacy in the stage that gave the answer; null if the stage did not reach it. `candidate`: may be chosen; `partial`: may be chosen
    /// if no candidate can, since only some of its addresses are eligible; `elsewhere`: has no eligible address of the family;
    /// `excluded`: was not up before all went down; `closed`: by its schedule; `ineligible`.
    pub candidacy: Option<String>,
    /// Stable hash of the names of pool and cluster, as 16 hexadecimal digits.
    pub key: String,
    /// Weight in the formulas: 1 for standby members, and if all weights are 0.
    pub effective_weight: u16,
    /// Slots that load control gives the cluster, of the 256 of the client's location class; null without a table.
    pub slots: Option<u16>,
    /// Demand of the client's location class that load control sends to the cluster, in the unit of the capacities; null where `moving` is.
    pub demand: Option<u64>,
    /// The same in the best division of all demand, which the slots move to.
    pub best_demand: Option<u64>,
    /// Addresses of the cluster.
    pub addresses: Vec<AddressHealth>,
}

/// Health of an address of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressHealth {
    /// The address.
    pub address: String,
    /// Eligibility: `up`, `unknown`, `exhausted`, `pending`, `down`, `out`.
    pub eligibility: String,
    /// Health status by its probes.
    pub status: String,
    /// Active override: `up`, `down`, `drain`; null without one.
    pub override_action: Option<String>,
    /// Reason why this server may not connect to it: it is not probed and not answered; null if it may.
    pub not_allowed: Option<String>,
    /// Probe of its target; null if nothing was probed.
    pub probe: Option<ProbeState>,
    /// Cause of the failure of its last probe, if known. Its text requires the verb `operate`.
    pub cause: Option<String>,
}

/// A record in presentation format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Owner.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Time to live in seconds.
    pub ttl: u32,
    /// RDATA in presentation format.
    pub data: String,
}
