//! `GET /v1/explain?name=NAME&type=TYPE&client=SUBNET`: why this answer, as JSON.
//!
//! The server makes it from what the answering code itself reports; nothing is decided or guessed here. Fields are only ever added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One answer and everything that led to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    /// Id of the snapshot that it was answered from.
    pub snapshot: String,
    /// Id of the conditions that it was answered from.
    pub runtime_state: String,
    /// Which decision of balancing these conditions hold; none where nothing was balanced.
    pub epoch: Option<u64>,
    /// The name asked for.
    pub name: String,
    /// The type asked for.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The client network that was played; none for a client that says nothing of itself.
    pub client: Option<String>,
    /// What the health in it is: `measured`, or `assumed` where files alone were read.
    pub health: String,
    /// The names looked at: the one asked for, then those that aliases led to.
    pub steps: Vec<Step>,
    /// Mnemonic of the response code.
    pub rcode: String,
    /// Whether the answer has authority (AA).
    pub authoritative: bool,
    /// Answer section.
    pub answer: Vec<Record>,
    /// Authority section.
    pub authority: Vec<Record>,
    /// Additional section, without OPT.
    pub additional: Vec<Record>,
    /// How many bits of the client's address the answer depends on (RFC 7871); none without a client.
    pub scope: Option<u8>,
    /// Where the TTL of the answer comes from.
    pub ttl_reason: String,
}

/// One name on the way to an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// The name.
    pub name: String,
    /// The zone it was looked for in; none outside of all zones.
    pub zone: Option<String>,
    /// What stands there: `static`, `steered`, `emptyNonTerminal`, `wildcard`, `delegation`, `dname`, `nothing`, `outside`.
    pub node: String,
    /// The wildcard, delegation or DNAME that stands for the name.
    pub through: Option<String>,
    /// How its pool chose, for a steered name.
    pub pool: Option<PoolChoice>,
}

/// How a pool chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolChoice {
    /// The pool.
    pub name: String,
    /// As in the configuration: `weighted`, or `geo, nearest, load, weighted`.
    pub policy: String,
    /// Each of its steps in words, in order.
    pub policy_steps: Vec<String>,
    /// What the choice rests on: `live`, `pending`, `panic`, `down`, `noFamily`.
    pub basis: String,
    /// The same in words.
    pub basis_text: String,
    /// What is answered: `members`, `fallback`, `nothing`, `refuse`.
    pub result: String,
    /// What the choice depends on beside health: `everyone` (the same for all), `client 203.0.113.0/24`, or `draw`.
    pub depends_on: String,
    /// What told the client's place: the entry of the map, latencies, the preference that holds; none for a pool that does
    /// not go by place.
    pub location_source: Option<String>,
    /// Where the client is, as the pool tells places apart.
    pub location: ClientLocation,
    /// The clusters of members, group by group in the order of the client's row.
    pub groups: Vec<Vec<String>>,
    /// How the client came to its member, in a pool that heeds load: `local`, `overflow`, `pinned`, `remainder`.
    pub assignment: Option<String>,
    /// The same in words.
    pub assignment_text: Option<String>,
    /// The cluster that holds the client's demand, whether or not it can be answered.
    pub pinned_to: Option<String>,
    /// What stands for the client in the formulas, as 16 hexadecimal digits; zeros where every client gets the same.
    pub seed: String,
    /// Stable hash of the pool's name, as 16 hexadecimal digits.
    pub key: String,
    /// The clusters in the answer, the preferred one first.
    pub chosen: Vec<String>,
    /// The tiers that were looked at.
    pub tiers: Vec<u8>,
    /// Every member in declared order.
    pub members: Vec<MemberChoice>,
}

/// Where a client is, as a pool tells places apart, and how much of its address the answer depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientLocation {
    /// The network that the client is taken for.
    pub network: String,
    /// The block of the pool's territory that it is in; none where everybody is in one row.
    pub block: Option<String>,
    /// The row of that block, counted from 0.
    pub class: u16,
    /// How many rows there are.
    pub classes: u16,
    /// How many bits of its address the answer depends on: the ECS scope of this pool.
    pub scope: u8,
    /// Why so many.
    pub scope_reason: String,
}

/// A member in a choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberChoice {
    /// Its cluster.
    pub cluster: String,
    /// Declared weight.
    pub weight: u16,
    /// Declared tier.
    pub tier: u8,
    /// Its group in the order of the client's row, counted from 0; none where it is not in that order.
    pub group: Option<u8>,
    /// Whether it is answered only when no member of weight 1 or more can be.
    pub standby: bool,
    /// Whether it is in the answer.
    #[serde(rename = "in")]
    pub is_in: bool,
    /// Why it is, or why not.
    pub reason: String,
    /// How its schedule stands, and until when; none for a member that is always open.
    pub schedule: Option<String>,
    /// What it was to the stage that gave the answer: `candidate`, `partial`, `elsewhere`, `excluded`, `closed`, `ineligible`; none where that
    /// did not come to it.
    pub candidacy: Option<String>,
    /// Stable hash of the names of pool and cluster, as 16 hexadecimal digits.
    pub key: String,
    /// Its weight as it counts: 1 for standby members, and where all weights are 0.
    pub effective_weight: u16,
    /// What it takes, in a pool that heeds load.
    pub acceptance: Option<Acceptance>,
    /// What came of it when it was asked to take the client.
    pub acceptance_test: Option<AcceptanceTest>,
    /// Its addresses.
    pub addresses: Vec<AddressHealth>,
}

/// What a member takes of the clients that fall to it, in 65535ths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Acceptance {
    /// Of clients to whom its group is the best.
    pub local: u16,
    /// Of clients whom a better group passed on.
    pub overflow: u16,
}

/// A member that was asked whether it takes the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AcceptanceTest {
    /// Which part of its acceptance holds: `local` or `overflow`.
    pub share: String,
    /// That part, in 65535ths.
    pub acceptance: u16,
    /// The same in percent, for people.
    pub percent: String,
    /// What is held against it: taken where it is below.
    pub draw: u16,
    /// Whether the member takes the client.
    pub accepted: bool,
}

/// Health of one address of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressHealth {
    /// The address.
    pub address: String,
    /// How it counts: `up`, `unknown`, `pending`, `down`, `out`.
    pub eligibility: String,
    /// What its probes say.
    pub status: String,
    /// What an operator says over it: `up`, `down`, `drain`.
    pub override_action: Option<String>,
    /// Why its last probe failed, where it did and where that is known.
    pub cause: Option<String>,
}

/// A record as people read it.
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
    /// Data in presentation form.
    pub data: String,
}
