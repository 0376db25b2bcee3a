//! Bodies of `/v1/state`, `/v1/reload` and `/version`: JSON in camelCase, times in RFC 3339.
//!
//! Fields are only added; readers ignore those that they do not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    kubernetes_wire::{KubernetesState, ServiceLoadState, ServiceState, WeightFactors},
    load_wire::LoadState,
    overrides_wire::{OverrideState, PoolPin},
};

/// A JSON body of the API.
pub trait Body: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Body for T {}

/// A result of a command that can be shown as JSON.
pub trait Shown: Serialize {}

impl<T: Serialize> Shown for T {}

/// `GET /v1/state`: what is configured, measured and answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Current time of the server.
    pub now: String,
    /// Time when the process began to serve.
    pub started_at: String,
    /// Seconds since then.
    pub uptime_secs: u64,
    /// True if the server is ready, as `/readyz`.
    pub ready: bool,
    /// Reason why it is not ready; empty if it is.
    pub not_ready: String,
    /// The configuration in use.
    pub config: ConfigState,
    /// The store of declared objects; null without one.
    pub store: Option<StoreState>,
    /// Load balancing; null if no pool uses it.
    pub balance: Option<BalanceState>,
    /// Addresses that the server listens on.
    pub listeners: Vec<ListenerState>,
    /// Zones in order of name.
    pub zones: Vec<ZoneState>,
    /// Clusters in order of name.
    pub clusters: Vec<ClusterState>,
    /// Pools in order of name.
    pub pools: Vec<PoolState>,
    /// All targets. `targets` of an address has indices into this list.
    pub targets: Vec<TargetState>,
    /// Active overrides.
    pub overrides: Vec<OverrideState>,
    /// Conflicts between sources, each with the source that is used.
    pub conflicts: Vec<String>,
}

/// The store of declared objects, as this server sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StoreState {
    /// `embedded` or `etcd`.
    pub kind: String,
    /// Address of the etcd server in use; null for an embedded store.
    pub endpoint: Option<String>,
    /// Last revision that this server has.
    pub revision: u64,
    /// Revision that the answers follow.
    pub served: u64,
    /// Number of revisions in the store that this server does not have yet.
    pub behind: u64,
    /// Time when it became unavailable; null while it is available. While it is unavailable, writes fail and the objects that this server
    /// has are served.
    pub unavailable_since: Option<String>,
    /// Reason why it is unavailable.
    pub error: Option<String>,
    /// Limits of all declared objects together: `memory` in bytes, as estimated, `objects` and `owners`.
    pub limits: Vec<LimitState>,
}

/// A limit of all declared objects together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitState {
    /// Key in the section `limits` of the configuration.
    pub name: String,
    /// Present use.
    pub used: u64,
    /// Limit. A write that would bring the use over it is refused.
    pub limit: u64,
}

/// Load balancing of all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BalanceState {
    /// Role of this server: `alone` (its store is not shared), `leads` (servers that share the store apply its decisions), `follows` (it
    /// applies the leader's decisions), `local` (it decides alone, since there is no leader or the store is unavailable).
    pub role: String,
    /// Reason for the role `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of the last decision that is applied; 0 before the first.
    pub epoch: u64,
}

/// The configuration in use, and the last reload.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigState {
    /// Path of the file or folder, or `command line`.
    pub source: String,
    /// Its number: that of accepted configurations since the start. Each change of files, objects or contributions makes one.
    pub number: u64,
    /// Time when this one was accepted.
    pub loaded_at: String,
    /// Id of the snapshot (the compiled configuration): 16 hexadecimal digits. Servers with equal `snapshot` and `runtimeState` give equal
    /// answers.
    pub snapshot: String,
    /// Id of the runtime state (what is measured): 16 hexadecimal digits.
    pub runtime_state: String,
    /// True if a newer configuration was rejected and this one stays in use.
    pub stale: bool,
    /// The last reload; null before the first.
    pub last_reload: Option<ReloadReport>,
    /// Warnings about the configuration in use.
    pub warnings: Vec<String>,
}

/// The query of a reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReloadParameters {
    /// Apply files that no longer declare many names. By default a reload is rejected if a zone, or all zones together, would lose all of
    /// at least two names, or more than ten and more than a fifth.
    pub allow_removals: bool,
}

/// The result of a reload. Also the response to `POST /v1/reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReloadReport {
    /// Id of the reload in the log: 16 hexadecimal digits, the field `trace` of its lines.
    pub trace: String,
    /// Time when it ended.
    pub at: String,
    /// Trigger: `signal`, `files`, `command`.
    pub trigger: String,
    /// True if the new configuration is in use; if it was rejected, the previous one stays in use.
    pub accepted: bool,
    /// Number of the configuration in use after it.
    pub configuration: u64,
    /// Duration of reading and compiling, in milliseconds.
    pub duration_ms: u64,
    /// Number of changes by kind: `pools: 1 added, 2 changed`. Empty if nothing changed.
    pub changes: Vec<String>,
    /// Errors for which it was rejected: `file:line:column: error; hint`.
    pub errors: Vec<String>,
    /// True if it was rejected only because the files no longer declare many names. `allowRemovals` applies it.
    pub removals_refused: bool,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// An address that the server listens on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerState {
    /// `dns` (UDP and TCP), `http` or `control`.
    pub kind: String,
    /// Socket address, or the path of a unix socket.
    pub address: String,
}

/// A zone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneState {
    /// Name of the apex.
    pub name: String,
    /// Serial of its SOA record.
    pub serial: Option<u32>,
    /// Number of records in its file.
    pub records: usize,
    /// Steered names in the zone.
    pub names: Vec<String>,
}

/// A cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterState {
    /// Its name.
    pub name: String,
    /// Ingress addresses.
    pub addresses: Vec<String>,
    /// Host names whose addresses it has.
    pub hosts: Vec<HostState>,
    /// Its Kubernetes API; null if it is not read.
    pub kubernetes: Option<KubernetesState>,
    /// DNS name of the cluster itself.
    pub dns_name: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// Capacity, in the unit of its load.
    pub capacity: Option<u64>,
    /// Load that balancing keeps the cluster under while others have free capacity, in percent of the capacity; null without a capacity.
    pub target: Option<f64>,
    /// Load above which it gets no clients while other clusters have free capacity, in percent.
    pub limit: Option<f64>,
    /// Reports of its load, the preferred source first; at most one is used.
    pub load: Vec<LoadState>,
    /// Warnings of its gateways.
    pub warnings: Vec<String>,
    /// Versions of its gateways, each once; of Istio's gateways that export `istio_build`.
    pub gateway_versions: Vec<String>,
    /// True if all answering gateways drain or are overloaded.
    pub exhausted: bool,
    /// Progress of its drain; null while it is answered.
    pub drain: Option<DrainState>,
    /// Part that load control sends it of the demand of all clusters that it balances together, in percent; null without load control.
    pub share: Option<f64>,
}

/// A host name that stands for addresses of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostState {
    /// The host name.
    pub name: String,
    /// Its addresses in use.
    pub addresses: Vec<String>,
    /// Time of the last look-up that found addresses; null if none has.
    pub resolved_at: Option<String>,
    /// Cause of the failure of the last look-up; null if it succeeded.
    pub failure: Option<String>,
}

/// A cluster that is drained: clients still use answers that they were given before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainState {
    /// Time when it was taken out of the answers.
    pub since: String,
    /// Time when the last client should have left: after the largest TTL that was answered, or the longest time for which clients were
    /// seen to keep answers, and 5 % of the TTL.
    pub over: String,
    /// Part of its demand that is still there, in percent; null without balancing by load.
    pub left: Option<f64>,
}

/// A pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolState {
    /// Its name.
    pub name: String,
    /// Policy, as in the configuration: `weighted`, or `schedule, nearest, load, weighted`.
    pub policy: String,
    /// The override that pins it to its declared weights; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<PoolPin>,
    /// TTL of its answers in seconds, unless a name declares its own.
    pub ttl: u32,
    /// Reason of the TTL.
    pub ttl_reason: String,
    /// Names that it answers.
    pub names: Vec<String>,
    /// Members in declared order.
    pub members: Vec<MemberState>,
}

/// A member of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberState {
    /// Name of the cluster.
    pub cluster: String,
    /// Weight in use.
    pub weight: u16,
    /// Factors of the weight.
    pub weight_factors: WeightFactors,
    /// Source of the weight, if a webhook client contributed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_from: Option<WeightFrom>,
    /// Declared tier.
    pub tier: u8,
    /// Best eligibility of its addresses: `up`, `unknown`, `exhausted`, `pending`, `down`, `out`; `closed` if its schedule closes it.
    pub eligibility: String,
    /// State of its schedule and the time until which it holds; null without a schedule.
    pub schedule: Option<String>,
    /// Share of the member.
    pub share: ShareState,
    /// Addresses of the cluster.
    pub addresses: Vec<AddressState>,
    /// Number of ready endpoints of its names; null if the cluster is not read, or they cannot be counted.
    pub ready_endpoints: Option<u32>,
    /// Services of its names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceState>,
    /// Load of these services together, in a pool with `capacityPerPod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_load: Option<ServiceLoadState>,
}

/// The contribution of a webhook client that has a member's weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightFrom {
    /// Owner of the contribution.
    pub owner: String,
    /// Set identifier; empty without one.
    pub set: String,
    /// Weight of the property `webhook-gslb-weight`; left out without it, which counts as 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<u16>,
    /// Factor of its lease, from 1 (valid) to 0 (expired).
    pub lease_weight: f64,
}

/// Share of a member, in percent of all members of its pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShareState {
    /// By declared weight, whatever its tier; null if all weights are 0.
    pub declared: Option<f64>,
    /// In the answers of the last minute, in pools that use load by the demand behind them; null if there were none.
    pub answered: Option<f64>,
    /// In the reported load of the pool's clusters, whatever caused it; null unless all report one.
    pub arrived: Option<f64>,
}

/// An address of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressState {
    /// The address.
    pub address: String,
    /// Eligibility: `up`, `unknown`, `exhausted`, `pending`, `down`, `out`.
    pub eligibility: String,
    /// Reason, in a few words.
    pub reason: String,
    /// Indices of its targets in `targets`: one, or one per zone if zones have monitors of their own.
    pub targets: Vec<usize>,
    /// Probe of its best target; null if no name uses the pool.
    pub probe: Option<ProbeState>,
}

/// The probe of an address, and the declaration that it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeState {
    /// Name of the monitor.
    pub monitor: String,
    /// Declaration that the monitor comes from: `member`, `pool`, `cluster` or `zone`, which name it; `intent port`, `gateway status port`,
    /// `no ready endpoint` or `default` if none does.
    pub from: String,
    /// Port that is probed; null if none is.
    pub port: Option<u16>,
    /// Check and its destination: `http 203.0.113.10:15021/healthz/ready`, `tcp 203.0.113.10:443`; `always` or `never` without a probe.
    pub check: String,
}

impl ProbeState {
    /// Returns the source of the monitor in a few words: `intent port 8443`, or `monitor gateway of the pool, tcp 192.0.2.1:443`.
    pub fn source(&self) -> String {
        match (self.from.as_str(), self.port) {
            ("intent port" | "gateway status port", Some(port)) => format!("{} {port}", self.from),
            ("default", Some(port)) => format!("default port {port}"),
            ("no ready endpoint", _) => self.from.clone(),
            (from, _) => format!("monitor {} of the {from}, {}", self.monitor, self.check),
        }
    }

    /// Returns the source with the cause of a failed probe: `intent port 8443: connection refused`.
    pub fn failure(&self, cause: &str) -> String {
        let source = self.source();
        if source == cause { source } else { format!("{source}: {cause}") }
    }
}

/// A target: an address with its monitor.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetState {
    /// Address that is probed.
    pub address: String,
    /// Name of a monitor with its settings.
    pub monitor: String,
    /// Clusters with this target.
    pub clusters: Vec<String>,
    /// Pools that use it.
    pub pools: Vec<String>,
    /// Health status by its probes: `up`, `down`, `pending`, `unknown`.
    pub status: String,
    /// Active override: `up`, `down`, `drain`; null without one.
    pub override_action: Option<String>,
    /// Reason why this server may not connect to it (`TargetNotAllowed`): it is not probed and not answered; null if it may.
    pub not_allowed: Option<String>,
    /// Time when its status changed to this one.
    pub since: String,
    /// Number of equal outcomes in a row up to the last probe.
    pub streak: u8,
    /// Cause of the failure of the last probe; null if it passed.
    pub last_cause: Option<String>,
    /// Time when the last conclusive probe ended.
    pub last_probe: Option<String>,
    /// Duration of that probe, in microseconds.
    pub last_micros: Option<u64>,
    /// Number of probes that passed.
    pub passes: u64,
    /// Number of probes that failed.
    pub failures: u64,
    /// Number of inconclusive probes: the prober itself was late.
    pub inconclusive: u64,
    /// Last transitions, oldest first.
    pub history: Vec<HistoryState>,
}

/// A health transition.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryState {
    /// Time.
    pub at: String,
    /// New status.
    pub to: String,
    /// Cause.
    pub cause: String,
}

/// `GET /version`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
}

/// The query of `GET /v1/explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainParameters {
    /// Name of the query to explain.
    pub name: String,
    /// Type of the query; default A.
    #[serde(rename = "type", default)]
    pub rtype: Option<String>,
    /// Address or network of the client; default none.
    #[serde(default)]
    pub client: Option<String>,
    /// Time (RFC 3339) of the answer, as far as the change log reaches; default now.
    #[serde(default)]
    pub at: Option<String>,
}
