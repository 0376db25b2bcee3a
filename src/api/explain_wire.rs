//! `GET /v1/explain?name=NAME&type=TYPE&client=SUBNET`: why this answer, as JSON.
//!
//! Made from what the answering code itself told ([`fairway_zones::explain`]); nothing is decided or guessed here. Fields are
//! only ever added.

use fairway_model::{Forced, Standing};
use fairway_zones::{
    Explained, ExplainedRecord, ExplainedStep, NodeKind, TargetIndex,
    steer::{self, AddressNote, Answer, Basis, HashInput, MemberNote},
};
use serde::{Deserialize, Serialize};

/// One answer and everything that led to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolChoice {
    /// The pool.
    pub name: String,
    /// `weighted` or `failover`.
    pub policy: String,
    /// What the choice rests on: `live`, `pending`, `panic`, `down`, `noFamily`.
    pub basis: String,
    /// The same in words.
    pub basis_text: String,
    /// What is answered: `members`, `fallback`, `nothing`, `refuse`.
    pub gives: String,
    /// What the choice depends on beside health: `everyone` (the same for all), `client 203.0.113.0/24`, or `draw`.
    pub depends_on: String,
    /// The tiers that were looked at.
    pub tiers: Vec<u8>,
    /// Every member in declared order.
    pub members: Vec<MemberChoice>,
}

/// A member in a choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberChoice {
    /// Its cluster.
    pub cluster: String,
    /// Declared weight.
    pub weight: u16,
    /// Declared tier.
    pub tier: u8,
    /// Whether it is answered only when no member of weight 1 or more can be.
    pub standby: bool,
    /// Whether it is in the answer.
    #[serde(rename = "in")]
    pub is_in: bool,
    /// Why it is, or why not.
    pub reason: String,
    /// Its addresses.
    pub addresses: Vec<AddressHealth>,
}

/// Health of one address of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressHealth {
    /// The address.
    pub address: String,
    /// How it counts: `up`, `unknown`, `pending`, `down`, `out`.
    pub standing: String,
    /// What its probes say.
    pub verdict: String,
    /// What an operator says over it: `up`, `down`, `drain`.
    pub forced: Option<String>,
    /// Why its last probe failed, where it did and where that is known.
    pub cause: Option<String>,
}

/// A record as people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

impl Explanation {
    /// Words for what was explained. `cause` tells why a target's last probe failed, where that is known; `measured` is false
    /// where nothing was probed and health is assumed.
    pub fn new(explained: &Explained, measured: bool, cause: &dyn Fn(TargetIndex) -> Option<String>) -> Self {
        let records = |records: &[ExplainedRecord]| records.iter().map(Record::from).collect();
        Self {
            name: explained.name.to_string(),
            rtype: explained.rtype.to_string(),
            client: explained.client.map(|network| network.to_string()),
            health: if measured { "measured" } else { "assumed" }.to_owned(),
            steps: explained.steps.iter().map(|step| Step::new(step, cause)).collect(),
            rcode: explained.rcode.to_owned(),
            authoritative: explained.authoritative,
            answer: records(&explained.answer),
            authority: records(&explained.authority),
            additional: records(&explained.additional),
            scope: explained.scope,
            ttl_reason: explained.ttl_reason.clone(),
        }
    }
}

impl Step {
    fn new(step: &ExplainedStep, cause: &dyn Fn(TargetIndex) -> Option<String>) -> Self {
        let (node, through) = match &step.node {
            NodeKind::Static => ("static", None),
            NodeKind::Steered => ("steered", None),
            NodeKind::EmptyNonTerminal => ("emptyNonTerminal", None),
            NodeKind::Wildcard { name, .. } => ("wildcard", Some(name)),
            NodeKind::Delegation(name) => ("delegation", Some(name)),
            NodeKind::Dname(name) => ("dname", Some(name)),
            NodeKind::Nothing => ("nothing", None),
            NodeKind::Outside => ("outside", None),
        };
        Self {
            name: step.name.to_string(),
            zone: step.zone.as_ref().map(ToString::to_string),
            node: node.to_owned(),
            through: through.map(ToString::to_string),
            pool: step.pool.as_ref().map(|pool| PoolChoice::new(pool, cause)),
        }
    }
}

impl PoolChoice {
    fn new(pool: &steer::Explanation, cause: &dyn Fn(TargetIndex) -> Option<String>) -> Self {
        let basis = match pool.choice.basis {
            Basis::Live => "live",
            Basis::Pending => "pending",
            Basis::Panic => "panic",
            Basis::Down => "down",
            Basis::NoFamily => "noFamily",
            Basis::Hidden => "hidden",
        };
        let gives = match pool.choice.answer {
            Answer::Set(_) if !pool.members.iter().any(|m| m.reason.is_in()) => "fallback",
            Answer::Set(_) | Answer::Member(_) => "members",
            Answer::FallbackAddresses | Answer::FallbackCname => "fallback",
            Answer::Nothing => "nothing",
            Answer::Refuse => "refuse",
        };
        let depends_on = match pool.input {
            HashInput::Everyone => "everyone".to_owned(),
            HashInput::Client(client) => format!("client {}", client.network()),
            HashInput::Draw(_) => "draw".to_owned(),
        };
        Self {
            name: pool.pool.to_string(),
            policy: pool.policy.to_string(),
            basis: basis.to_owned(),
            basis_text: pool.choice.basis.to_string(),
            gives: gives.to_owned(),
            depends_on,
            tiers: pool.tiers.clone(),
            members: pool.members.iter().map(|member| MemberChoice::new(member, cause)).collect(),
        }
    }
}

impl MemberChoice {
    fn new(member: &MemberNote, cause: &dyn Fn(TargetIndex) -> Option<String>) -> Self {
        Self {
            cluster: member.cluster.to_string(),
            weight: member.weight.0,
            tier: member.tier,
            standby: member.standby,
            is_in: member.reason.is_in(),
            reason: member.reason.to_string(),
            addresses: member.addresses.iter().map(|note| AddressHealth::new(note, cause(note.target))).collect(),
        }
    }
}

impl AddressHealth {
    fn new(note: &AddressNote, cause: Option<String>) -> Self {
        let standing = match note.health.standing() {
            Standing::Up => "up",
            Standing::Unknown => "unknown",
            Standing::Pending => "pending",
            Standing::Down => "down",
            Standing::Out => "out",
        };
        Self {
            address: note.address.to_string(),
            standing: standing.to_owned(),
            verdict: note.health.verdict().to_string(),
            forced: note.health.forced().as_ref().map(Forced::to_string),
            cause,
        }
    }
}

impl From<&ExplainedRecord> for Record {
    fn from(record: &ExplainedRecord) -> Self {
        Self {
            name: record.owner.to_string(),
            rtype: record.rtype.to_string(),
            ttl: record.ttl.secs(),
            data: record.rdata.clone(),
        }
    }
}
