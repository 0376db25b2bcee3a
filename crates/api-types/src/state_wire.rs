//! What `/v1` speaks: JSON bodies, camelCase, times in RFC 3339. The server writes them, `fairway status` reads them.
//!
//! Fields are only ever added; a reader leaves alone what it does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::load_wire::LoadState;

/// A JSON body of the API.
pub trait Body: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Body for T {}

/// `GET /v1/state`: everything an operator needs to know of a running server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The program's version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// When this text was made.
    pub now: String,
    /// When the process started to serve.
    pub started_at: String,
    /// Seconds since then.
    pub uptime_secs: u64,
    /// Whether it answers and wants to be asked: as `/readyz`.
    pub ready: bool,
    /// Why it is not ready; empty where it is.
    pub not_ready: String,
    /// The configuration in force.
    pub config: ConfigState,
    /// The store of declared objects; none where there is none.
    pub store: Option<StoreState>,
    /// Balancing by load; none where nothing is balanced.
    pub balance: Option<BalanceState>,
    /// What is bound.
    pub listeners: Vec<ListenerState>,
    /// Zones in order of name.
    pub zones: Vec<ZoneState>,
    /// Clusters in order of name.
    pub clusters: Vec<ClusterState>,
    /// Pools in order of name.
    pub pools: Vec<PoolState>,
    /// Everything that is probed; members name them by `target`.
    pub targets: Vec<TargetState>,
    /// Overrides in force.
    pub overrides: Vec<OverrideState>,
    /// What was said twice and differently, and whose word holds.
    pub conflicts: Vec<String>,
}

/// The store of declared objects, and how this server stands to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StoreState {
    /// `embedded` or `etcd`.
    pub kind: String,
    /// The server of the store that is asked; none of an embedded one.
    pub endpoint: Option<String>,
    /// The last revision that is held here.
    pub revision: u64,
    /// The revision that is in the answers.
    pub served: u64,
    /// How many revisions are in the store, as far as was heard, and not yet held here.
    pub behind: u64,
    /// Since when it does not answer; none while it does. Then nothing can be declared, and what is held here is served on.
    pub unavailable_since: Option<String>,
    /// Why.
    pub error: Option<String>,
}

/// Balancing by load, as far as it is about all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BalanceState {
    /// Whose decisions hold: `alone` (this server's; nobody shares its store), `leads` (this server's, and those that share its store
    /// follow them), `follows` (those of the server that leads), `local` (this server's, since nobody leads or the store is away).
    pub role: String,
    /// Why it is `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Counts the decisions of who is gone by; 0 as long as nobody is held back.
    pub epoch: u64,
}

/// The configuration in force, and what became of the last attempt to change it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigState {
    /// Path of the file or folder, or `command line`.
    pub source: String,
    /// Counts accepted configurations, from 1.
    pub generation: u64,
    /// When this one was accepted.
    pub loaded_at: String,
    /// Id of what is configured, compiled: 16 hexadecimal digits. With `runtimeState` it fixes every answer.
    pub snapshot: String,
    /// Id of what is measured: 16 hexadecimal digits.
    pub runtime_state: String,
    /// Whether a newer configuration was refused and this older one still serves.
    pub stale: bool,
    /// The last attempt to reload; none since the start.
    pub last_reload: Option<ReloadReport>,
    /// What the author of the configuration in force should know.
    pub warnings: Vec<String>,
}

/// What became of one reload. Also the answer to `POST /v1/reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReloadReport {
    /// Names it in the log: 16 hexadecimal digits that all its lines carry as `trace`.
    pub trace: String,
    /// When it ended.
    pub at: String,
    /// What asked for it: `signal`, `files`, `command`.
    pub trigger: String,
    /// Whether the new configuration serves now. Refused: the old one goes on.
    pub accepted: bool,
    /// The generation that serves after it.
    pub generation: u64,
    /// How long reading and compiling took, in milliseconds.
    pub duration_ms: u64,
    /// What changed, counted: `pools: 1 added, 2 changed`. Empty where nothing did.
    pub changes: Vec<String>,
    /// Why it was refused: `file:line:column: what; way out`.
    pub errors: Vec<String>,
    /// What its author should know all the same.
    pub warnings: Vec<String>,
}

/// One bound address.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerState {
    /// `dns` (UDP and TCP), `http` or `control`.
    pub kind: String,
    /// Socket address, or the path of a unix socket.
    pub address: String,
}

/// One zone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneState {
    /// Its apex.
    pub name: String,
    /// Serial of its SOA.
    pub serial: Option<u32>,
    /// Records read from its file.
    pub records: usize,
    /// Steered names in it.
    pub names: Vec<String>,
}

/// One cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterState {
    /// Its name.
    pub name: String,
    /// Its ingress addresses.
    pub addresses: Vec<String>,
    /// Its own DNS name.
    pub dns_name: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// How much it can carry, in the unit of its load.
    pub capacity: Option<u64>,
    /// Load that it is kept under while others have room, in percent of the capacity; none without one.
    pub target: Option<f64>,
    /// Load above which it is given nothing as long as others have room, in percent.
    pub limit: Option<f64>,
    /// What is said of its load, the most trusted first; at most one word counts.
    pub load: Vec<LoadState>,
    /// What its gateways warn of.
    pub warnings: Vec<String>,
    /// Whether all its gateways that answer drain or are overloaded.
    pub exhausted: bool,
    /// How far its drain is; none while it is answered.
    pub drain: Option<DrainState>,
    /// How much it takes of clients to whom it is the best, in percent; 100 unless it is balanced.
    pub accepts_local: f64,
    /// How much it takes of clients whom a better one did not take, in percent.
    pub accepts_overflow: f64,
}

/// A cluster that is taken out: clients keep answers that were given before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainState {
    /// Since when it is not answered any more.
    pub since: String,
    /// When the last client should have left: the largest TTL given, or the time for which clients were seen to keep answers,
    /// and a twentieth of the TTL.
    pub over: String,
    /// How much of its demand is still there, in percent; none where it is not balanced by load.
    pub left: Option<f64>,
}

/// One pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolState {
    /// Its name.
    pub name: String,
    /// Its steps in order, in the words of the configuration: `weighted`, or `schedule, nearest, load, weighted`.
    pub policy: String,
    /// TTL of its answers, in seconds, where a name does not declare its own.
    pub ttl: u32,
    /// Why it is that.
    pub ttl_reason: String,
    /// Names it answers for.
    pub names: Vec<String>,
    /// Its members in declared order.
    pub members: Vec<MemberState>,
}

/// One member of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberState {
    /// Its cluster.
    pub cluster: String,
    /// Declared weight.
    pub weight: u16,
    /// Where the weight comes from; none where the member is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_from: Option<WeightFrom>,
    /// Declared tier.
    pub tier: u8,
    /// The best standing among its addresses: `up`, `unknown`, `pending`, `down`, `out`; `closed` outside of its windows.
    pub eligibility: String,
    /// How its schedule stands, and until when; none for a member that is always open.
    pub schedule: Option<String>,
    /// Its share: declared, answered, arrived.
    pub share: ShareState,
    /// Its addresses.
    pub addresses: Vec<AddressState>,
}

/// Where the weight of a member comes from that a client of the webhook brings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightFrom {
    /// Whose it is.
    pub owner: String,
    /// The set identifier; empty where there is none.
    pub set: String,
    /// The weight that `webhook-gslb-weight` says; none where it says nothing, which counts as 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<u16>,
    /// What is left of it, from 1 to 0.
    pub lease_weight: f64,
}

/// The share of a member, in percent of what all members of its pool have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShareState {
    /// By weight, whatever its tier; none where no weight is over 0.
    pub declared: Option<f64>,
    /// Of the answers of the last minute; in pools that heed load by the demand behind them. None where there were none.
    pub answered: Option<f64>,
    /// Of the load that the pool's clusters report, whatever it comes from; none unless all of them report one.
    pub arrived: Option<f64>,
}

/// One address of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressState {
    /// The address that is answered.
    pub address: String,
    /// How it counts: `up`, `unknown`, `pending`, `down`, `out`.
    pub eligibility: String,
    /// Why, in a few words.
    pub reason: String,
    /// Places in `targets` of what it is judged by: one, or one a zone where zones have monitors of their own.
    pub targets: Vec<usize>,
}

/// One target: an address with its monitor.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetState {
    /// Where probes go.
    pub address: String,
    /// One of the monitor's names.
    pub monitor: String,
    /// Clusters judged by it.
    pub clusters: Vec<String>,
    /// Pools judged by it.
    pub pools: Vec<String>,
    /// What its probes say: `up`, `down`, `pending`, `unknown`.
    pub status: String,
    /// What an operator says over it: `up`, `down`, `drain`.
    pub override_action: Option<String>,
    /// Since when the verdict holds.
    pub since: String,
    /// Passes or failures in a row, ending with the last probe.
    pub streak: u8,
    /// Why the last probe failed; none if it passed.
    pub last_cause: Option<String>,
    /// When the last conclusive probe ended.
    pub last_probe: Option<String>,
    /// How long it took, in microseconds.
    pub last_micros: Option<u64>,
    /// Conclusive probes that passed.
    pub passes: u64,
    /// Conclusive probes that failed.
    pub failures: u64,
    /// Probes that told nothing: the observer was late itself.
    pub inconclusive: u64,
    /// The last changes of its verdict, oldest first.
    pub history: Vec<HistoryState>,
}

/// One change of a verdict.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryState {
    /// When.
    pub at: String,
    /// To what.
    pub to: String,
    /// Why.
    pub cause: String,
}

/// One override in force. Also the answer to `POST /v1/overrides`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideState {
    /// Names it for its removal; those of the configuration are removed there, and have none.
    pub id: Option<String>,
    /// `config` or `command`.
    pub source: String,
    /// What it holds for.
    pub scope: String,
    /// `up`, `down` or `drain`.
    pub action: String,
    /// Why.
    pub reason: String,
    /// When it ends by itself.
    pub expires: String,
    /// Addresses it holds for now, as `CLUSTER/ADDRESS`; none at all is worth a second look at the scope.
    pub addresses: Vec<String>,
}

/// `POST /v1/overrides`: what an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewOverride {
    /// `eu*` or `eu1/203.0.113.10`.
    pub scope: String,
    /// `up`, `down` or `drain`.
    pub action: String,
    /// Why.
    pub reason: String,
    /// Seconds until it ends by itself; 1 to 2,592,000 (30 days).
    pub for_secs: u64,
}

/// `GET /version`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    /// The program's version.
    pub version: String,
    /// Process id.
    pub pid: u32,
}

/// What `GET /v1/explain` is asked with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainParameters {
    /// The name asked for.
    pub name: String,
    /// The type asked for; default A.
    #[serde(rename = "type", default)]
    pub rtype: Option<String>,
    /// The client's address or network; default none.
    #[serde(default)]
    pub client: Option<String>,
}
