//! Version 1 of the configuration file. Parser, JSON Schema and the reference pages are derived from these types.
//!
//! The comments of fields are the operator's documentation. The types are used up to the conversion to model types
//! only.

use std::{collections::BTreeMap, time::Duration};

use fairway_model::{
    AnswerMode, ClusterName, Contributions, LoadSourceName, MapName, MonitorName, Name, Network, OverrideAction,
    OverrideScope, PoolName, PoolPattern, ProbeAddress, Schedule, Spread, Timestamp, Ttl, Visibility,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Float, Int, List, Text, Word, each_once},
    history_wire::{Events, History},
    landlock_wire::Landlock,
    limits_wire::TotalLimits,
    load_wire::Load,
    policy_wire::Policy,
    publish_wire::Publish,
    store_wire::Store,
    traces_wire::Traces,
    v1_abuse::{Cookies, RateLimit},
    v1_access::Access,
    v1_kubernetes::Kubernetes,
    v1_location::{Geo, Latencies, Latency, Map, Nearest},
    v1_process::{Explain, Health, Identity, Listen, Log, QueryLog, Ready, Resolvers, Tcp, Udp, Withdrawals},
    v1_records::Records,
    v1_schedule::Window,
    values::AddressOrHost,
    values_wire::{Down, Fraction, NameServer, Prefix, Reference, Statuses},
    webhook_wire::Webhook,
    words::{LoadOverride, WeightBy, Words},
};

/// Configuration of Fairway, version 1.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    /// Version of this format: 1.
    #[expect(dead_code, reason = "its type allows one value")]
    pub(super) version: Int<u32, 1, 1>,
    /// Addresses to listen on. A change requires a restart.
    #[serde(default)]
    pub(super) listen: Listen,
    /// Folder for state that survives a restart, with mode 0700. Default: `STATE_DIRECTORY` if a service manager sets
    /// it, `/var/lib/fairway` for root, otherwise `fairway` in the XDG state folder. A change requires a restart.
    pub(super) data_dir: Option<Text<1>>,
    /// User to switch to after the sockets are bound. Default: no switch. A change requires a restart.
    pub(super) user: Option<Text<1>>,
    /// Restriction of the process to the files that the configuration needs. A change requires a restart.
    #[serde(default)]
    pub(super) landlock: Landlock,
    /// Access to the API. Default: full access from this machine, none from others.
    pub(super) access: Option<Access>,
    /// Logging.
    #[serde(default)]
    pub(super) log: Log,
    /// Answers to queries about the server itself.
    #[serde(default)]
    pub(super) identity: Identity,
    /// Which queries count as evidence of demand in pools with `load`.
    #[serde(default)]
    pub(super) evidence: super::v1_abuse::Evidence,
    /// Explanations of steering over DNS.
    #[serde(default)]
    pub(super) explain: Explain,
    /// DNS cookies (RFC 7873, RFC 9018): answered if a client sends one, never demanded.
    #[schemars(extend("default" = true))]
    pub(super) cookies: Option<Cookies>,
    /// Response rate limiting over UDP. Default: none; `{}` for the defaults of its keys.
    pub(super) rate_limit: Option<RateLimit>,
    /// Limits of DNS over TCP (RFC 7766, RFC 9210). A change requires a restart.
    #[serde(default)]
    pub(super) tcp: Tcp,
    /// Limits of DNS over UDP. A change requires a restart.
    #[serde(default)]
    pub(super) udp: Udp,
    /// Limits of health checking. A change requires a restart.
    #[serde(default)]
    pub(super) health: Health,
    /// Look-ups of host names that clusters have in place of addresses.
    #[serde(default)]
    pub(super) resolvers: Resolvers,
    /// Notification of the server's readiness. A change requires a restart.
    #[serde(default)]
    pub(super) ready: Ready,
    /// Export of traces over OTLP. Default: none. A change requires a restart.
    pub(super) traces: Option<Traces>,
    /// Sampled log of queries. Default: none.
    pub(super) query_log: Option<QueryLog>,
    /// Store of objects that are declared over the API. A change requires a restart.
    #[serde(default)]
    pub(super) store: Store,
    /// Limits of everything that is declared over the API and the webhook, together.
    #[serde(default)]
    pub(super) limits: TotalLimits,
    /// Change log in the data folder. A change requires a restart.
    #[serde(default)]
    pub(super) history: History,
    /// Events of the change log.
    #[serde(default)]
    pub(super) events: Events,
    /// Publishing to other DNS servers.
    #[serde(default)]
    pub(super) publish: Publish,
    /// Webhook for ExternalDNS. Default: none.
    pub(super) webhook: Option<Webhook>,
    /// Withdrawals that are held until they are confirmed.
    #[serde(default)]
    pub(super) withdrawals: Withdrawals,
    /// Longest time for answering accepted queries when the process stops; at most 10m.
    #[schemars(extend("default" = "5s"))]
    pub(super) drain_timeout: Option<As<Duration>>,
    /// Zones to be authoritative for.
    #[serde(default)]
    pub(super) zones: Vec<Zone>,
    /// Clusters that traffic can be sent to.
    #[serde(default)]
    pub(super) clusters: Vec<Cluster>,
    /// Health checks.
    #[serde(default)]
    pub(super) monitors: Vec<Monitor>,
    /// Sources of the load of clusters.
    #[serde(default)]
    pub(super) load: Vec<Load>,
    /// Maps from client addresses to locations.
    #[serde(default)]
    pub(super) maps: Vec<Map>,
    /// Tables of measured latencies.
    #[serde(default)]
    pub(super) latencies: Vec<Latencies>,
    /// Groups of clusters, each with a policy that chooses among them.
    #[serde(default)]
    pub(super) pools: Vec<Pool>,
    /// Names whose addresses a pool chooses.
    #[serde(default)]
    pub(super) names: Vec<SteeredName>,
    /// Static records in addition to those of zone files.
    #[serde(default)]
    pub(super) records: Vec<Records>,
    /// Overrides of health and of load control, with reason and expiry.
    #[serde(default)]
    pub(super) overrides: Vec<Override>,
    /// Clusters that overrides may not take out.
    #[serde(default)]
    pub(super) override_rules: Vec<OverrideRule>,
}

/// A zone to be authoritative for: with `file`, or with `ns` and `contact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Zone {
    /// The apex of the zone.
    pub(super) name: As<Name>,
    /// Zone file (RFC 1035 master file). Relative paths start at the folder of this file.
    pub(super) file: Option<Text<1>>,
    /// Name servers of a zone without file. The first one is the primary of its SOA.
    pub(super) ns: Option<List<NameServer, 1, 16>>,
    /// Person responsible for a zone without file: a mail address, or the same as a domain name (RFC 1035 section 8).
    #[schemars(extend("default" = "hostmaster at the zone"))]
    pub(super) contact: Option<Text<3>>,
    /// Serial of a zone without file. Steering never changes it.
    #[schemars(extend("default" = 1))]
    pub(super) serial: Option<Int<u32, 1, 4_294_967_295>>,
    /// TTL of the SOA, NS and name server addresses of a zone without file.
    #[schemars(extend("default" = "1h"))]
    pub(super) ttl: Option<As<Ttl>>,
    /// TTL of negative answers of a zone without file (RFC 2308).
    #[schemars(extend("default" = "1m"))]
    pub(super) negative_ttl: Option<As<Ttl>>,
    /// Monitor of members for which neither member, pool nor cluster names one.
    pub(super) monitor: Option<As<MonitorName>>,
    /// Clients of the zone: everybody, or internal clients only. Members that are `internal` are answered in private
    /// zones only.
    #[schemars(extend("default" = "public"))]
    pub(super) visibility: Option<Word<Visibility>>,
}

/// A cluster that traffic can be sent to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cluster {
    /// Name of the cluster: 1 to 128 letters, digits, `-`, `_`, `.`, `+`.
    pub(super) name: As<ClusterName>,
    /// Addresses of the ingress gateway, IPv4 and IPv6, in the order of answers; at most 8 per family. A host name stands for the
    /// addresses that it has, and is looked up in the background (`resolvers`). Needed without `kubernetes`; default: those of its
    /// ingress gateway.
    pub(super) addresses: Option<List<As<AddressOrHost>, 1, 16>>,
    /// Kubernetes API of the cluster, which is read for names, addresses and ready endpoints. Files only.
    pub(super) kubernetes: Option<Kubernetes>,
    /// Domain name of the cluster, which pools of mode `cname` answer with. Default: its host name, if it has exactly one.
    pub(super) dns_name: Option<As<Name>>,
    /// Location of the cluster.
    pub(super) location: Option<Location>,
    /// Capacity, in the unit of the load reports.
    pub(super) capacity: Option<Int<u64, 1, 9_007_199_254_740_991>>,
    /// Load that pools with `load` in their policy do not exceed while others have capacity left, as a part of
    /// `capacity`. Over 0.
    #[schemars(extend("default" = "80%"))]
    pub(super) target: Option<Fraction>,
    /// Load above which such pools send it no traffic while others have capacity left. At least `target`.
    #[schemars(extend("default" = "100%"))]
    pub(super) limit: Option<Fraction>,
    /// Source of its load. Default: none; the load is unknown unless it is pushed.
    pub(super) load: Option<As<LoadSourceName>>,
    /// Addresses of its gateways for load requests. Default: its IPv4 addresses (IPv6 if it has no IPv4 address), at
    /// the port of the source.
    pub(super) scrape: Option<List<As<ProbeAddress>, 1, 64>>,
    /// Monitor of its addresses, where neither member nor pool names one.
    pub(super) monitor: Option<As<MonitorName>>,
    /// Services that the cluster runs, by their names in inbound intents; `*` means all.
    #[schemars(extend("default" = ["*"]))]
    pub(super) services: Option<List<Text<1, 255>, 0, 4096>>,
}

/// A location on earth.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Location {
    /// Latitude: degrees north.
    pub(super) latitude: Float<-90, 90>,
    /// Longitude: degrees east.
    pub(super) longitude: Float<-180, 180>,
    /// Name of the region; any text.
    pub(super) region: Option<Text<1>>,
    /// Bias of its distance in pools that rank by distance: 50 halves all distances to it, -50 doubles them.
    #[schemars(extend("default" = 0))]
    pub(super) bias: Option<Int<i8, -99, 99>>,
}

/// A health check. Some keys are allowed for some types only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Monitor {
    /// Name of the monitor.
    pub(super) name: As<MonitorName>,
    /// Type of the probe: open a TCP connection, send an HTTP request (plain or over TLS), call `grpc.health.v1`, or
    /// none (`always` passes).
    #[serde(rename = "type")]
    pub(super) kind: Word<MonitorType>,
    /// Port to connect to. Default: 443 for tcp and https, 80 for http; required for grpc.
    pub(super) port: Option<Int<u16, 1, 65_535>>,
    /// http, https: path and query of the request, beginning with `/`.
    #[schemars(extend("default" = "/"))]
    pub(super) path: Option<String>,
    /// http, https: method of the request.
    #[schemars(extend("default" = "GET"))]
    pub(super) method: Option<Word<Method>>,
    /// http, https: Host header. Default: the probed address.
    pub(super) host: Option<Text<1, 255>>,
    /// http, https: additional headers of the request.
    #[serde(default, deserialize_with = "each_once")]
    pub(super) headers: Option<BTreeMap<String, String>>,
    /// http, https: status codes that pass.
    #[schemars(extend("default" = "200-399"))]
    pub(super) status: Option<Statuses>,
    /// http, https: text that the first 64 KiB of the body must contain.
    pub(super) body: Option<Text<1, 4096>>,
    /// http, https: header that the response must have.
    pub(super) response_header: Option<ResponseHeader>,
    /// https, grpc: TLS settings. grpc uses TLS only if this key is present.
    pub(super) tls: Option<Tls>,
    /// grpc: service to ask for. Default: the server as a whole.
    pub(super) service: Option<String>,
    /// Time between probes, before ±10 % jitter; 50ms to 1d. `interval` is accepted too.
    #[schemars(extend("default" = "10s"))]
    pub(super) period: Option<As<Duration>>,
    /// Longest time of a probe; a longer one fails. At most the period. Default: 4s, or the period if that is shorter.
    pub(super) timeout: Option<As<Duration>>,
    /// Consecutive passes after which a target is up.
    #[schemars(extend("default" = 3))]
    pub(super) rise: Option<Int<u8, 1, 255>>,
    /// Consecutive failures after which a target is down. After a first failure the next probes follow immediately.
    #[schemars(extend("default" = 3))]
    pub(super) fall: Option<Int<u8, 1, 255>>,
}

/// Type of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonitorType {
    /// No probe: it always passes.
    Always,
    /// Calls `grpc.health.v1`.
    Grpc,
    /// Sends a plain HTTP/1.1 request.
    Http,
    /// Sends an HTTP/1.1 request over TLS.
    Https,
    /// Opens a TCP connection.
    Tcp,
}

impl Words for MonitorType {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("always", Self::Always),
        ("grpc", Self::Grpc),
        ("http", Self::Http),
        ("https", Self::Https),
        ("tcp", Self::Tcp),
    ];
}

/// Method of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// The response has a body.
    Get,
    /// The response has no body.
    Head,
}

impl Words for Method {
    const WORDS: &'static [(&'static str, Self)] = &[("GET", Self::Get), ("HEAD", Self::Head)];
}

/// A header that the response must have.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResponseHeader {
    /// Name of the header; case is ignored.
    pub(super) name: Text<1, 255>,
    /// Text that the value must contain. Default: any value passes.
    pub(super) contains: Option<Text<1, 4096>>,
}

/// TLS of a probe.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tls {
    /// Name that is sent (SNI) and verified. Default: `host`, otherwise the probed address.
    pub(super) server_name: Option<Text<1, 253>>,
    /// Trusted certificates (PEM). Default: those of the system.
    pub(super) ca: Option<Reference>,
    /// Client certificate chain (PEM); requires `key`.
    pub(super) cert: Option<Reference>,
    /// Private key of the client certificate (PEM).
    pub(super) key: Option<Reference>,
    /// False if the certificate of the gateway is not verified.
    #[schemars(extend("default" = true))]
    pub(super) verify: Option<bool>,
}

/// A group of clusters that serve the same thing, with the policy that chooses among them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Pool {
    /// Name of the pool.
    pub(super) name: As<PoolName>,
    /// Policy: shares by weight (`weighted`), the first live member in order (`failover`), or a list of steps:
    /// `schedule`, rankings (`tier`, `geo`, `nearest`, `latency`, `cost`), then `load`, then `weighted`, `sticky` or
    /// `failover`.
    pub(super) policy: Policy,
    /// Kind of answer: addresses at the name itself, or a CNAME to the cluster's `dnsName`.
    #[schemars(extend("default" = "address"))]
    pub(super) mode: Option<Word<AnswerMode>>,
    /// TTL of answers; at most 1d.
    #[schemars(extend("default" = "30s"))]
    pub(super) ttl: Option<As<Ttl>>,
    /// TTL while the risk level is high: a member is down or drained, opens or closes soon, or its load is above the
    /// target. At most `ttl`. Default: `ttl`.
    pub(super) ttl_min: Option<As<Ttl>>,
    /// TTL after ten TTLs without risk and without a change; at most 1d. At least `ttl`. Default: `ttl`.
    pub(super) ttl_max: Option<As<Ttl>>,
    /// Number of clusters in an answer, each with all its addresses.
    #[schemars(extend("default" = 1))]
    pub(super) answers: Option<Int<u8, 1, 8>>,
    /// Answer if no member can be answered. `ALL_RECORDS`, `EMPTY`, `NONE` and `FALLBACK_IP` are accepted too.
    #[schemars(extend("default" = "all"))]
    pub(super) down: Option<Down>,
    /// Choice of the member: kept per client network (`client`), or drawn for each query (`query`).
    #[schemars(extend("default" = "client"))]
    pub(super) spread: Option<Word<Spread>>,
    /// Prefix lengths of a client network. Default: /24 for IPv4, /56 for IPv6.
    #[schemars(extend("default" = { "v4": 24, "v6": 56 }))]
    pub(super) client_prefix: Option<Prefix>,
    /// Map of client locations. Default: the only declared one.
    pub(super) map: Option<As<MapName>>,
    /// Preferred regions, for the ranking `geo`.
    pub(super) geo: Option<Geo>,
    /// Settings of the ranking `nearest`.
    pub(super) nearest: Option<Nearest>,
    /// Settings of the ranking `latency`.
    pub(super) latency: Option<Latency>,
    /// Part of the weight that must be up for health to be used; below it all members share. 0 never ignores health.
    #[schemars(extend("default" = 0))]
    pub(super) panic_threshold: Option<Fraction>,
    /// Part of a tier's weight that must be up; below it the next tier is used as well. 0 means that one live member is
    /// enough.
    #[schemars(extend("default" = 0))]
    pub(super) min_healthy: Option<Fraction>,
    /// Monitor of members that name none. Default: that of the member's cluster, that of the zone, otherwise TCP 443.
    pub(super) monitor: Option<As<MonitorName>>,
    /// Factor of all weights: `pods` multiplies each by the number of ready endpoints that the names have in the cluster, where
    /// Kubernetes is read. Default: none.
    pub(super) weight_by: Option<Word<WeightBy>>,
    /// Requests in flight that one ready endpoint carries. If the policy has `load`, the pool is then balanced by the load of its
    /// services where Kubernetes is read, and not by that of its clusters. Default: by clusters.
    pub(super) capacity_per_pod: Option<Int<u64, 1, 9_007_199_254_740_991>>,
    /// Members that `/v1/pools` and webhook owners add to this pool: used (`allow`) or not (`refuse`). Default: `allow`, or
    /// `refuse` with access rules.
    pub(super) contributions: Option<Word<Contributions>>,
    /// Members in order; at most 255.
    pub(super) members: List<Member, 1, 255>,
}

/// One cluster in a pool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Member {
    /// Cluster of the member. `edge` is accepted too.
    pub(super) cluster: As<ClusterName>,
    /// Weight relative to the other members; 0 is standby.
    #[schemars(extend("default" = 1))]
    pub(super) weight: Option<Int<u16, 0, 65535>>,
    /// Tier; tier 1 is used first.
    #[schemars(extend("default" = 1))]
    pub(super) tier: Option<Int<u8, 1, 255>>,
    /// Cost of traffic, in any unit. If the policy ranks by `cost`, the lowest is used first.
    #[schemars(extend("default" = 0))]
    pub(super) cost: Option<Int<u16, 0, 65535>>,
    /// Bias of its distance; replaces that of the cluster's location.
    pub(super) bias: Option<Int<i8, -99, 99>>,
    /// Networks whose clients may get this member; it is hidden from all others. At most 4096 in a pool. Default: all
    /// clients.
    pub(super) networks: Option<List<As<Network>, 1, 4096>>,
    /// True if the member is never answered in public zones.
    #[schemars(extend("default" = false))]
    pub(super) internal: Option<bool>,
    /// Windows in which the member takes part, if the policy has the step `schedule`. Default: always.
    pub(super) open: Option<List<Window, 1, { Schedule::WINDOWS_MAX }>>,
    /// Monitor of the member. Default: that of the pool.
    pub(super) monitor: Option<As<MonitorName>>,
    /// Address to probe. Default: each of its addresses, on the monitor's port.
    pub(super) probe: Option<As<ProbeAddress>>,
}

/// A name whose addresses a pool chooses. It may be a wildcard or the apex of a zone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SteeredName {
    /// The steered name.
    pub(super) name: As<Name>,
    /// Pool that answers it.
    pub(super) pool: As<PoolName>,
    /// TTL that replaces the pool's; at most 1d.
    pub(super) ttl: Option<As<Ttl>>,
}

/// An override of the health of clusters and addresses, or of load control in pools.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Override {
    /// Scope: `CLUSTER` or `CLUSTER/ADDRESS`, in which `*` matches any characters and `?` one.
    /// An override has either `match` and `action`, or `pools` and `load`.
    #[serde(rename = "match")]
    pub(super) scope: Option<As<OverrideScope>>,
    /// Health status: answered whatever the probes say (`up`), never answered (`down`), or taken out for planned work
    /// (`drain`).
    pub(super) action: Option<Word<OverrideAction>>,
    /// Pools with the step `load` that are pinned to their weights, by name; `*` matches any characters and `?` one.
    pub(super) pools: Option<As<PoolPattern>>,
    /// Load control in these pools: `off`.
    pub(super) load: Option<Word<LoadOverride>>,
    /// Reason, for people who find it later; one line.
    pub(super) reason: Text<1, 500>,
    /// Expiry; at most 30 days from now.
    pub(super) until: As<Timestamp>,
}

/// A number of clusters of each pool that overrides may not take out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OverrideRule {
    /// Pools that the rule applies to, by name; `*` matches any characters and `?` one.
    pub(super) pools: List<As<PoolPattern>, 1, 64>,
    /// Number of clusters of each of these pools that no override takes out. An override that would leave fewer is
    /// refused, also with a confirmation.
    pub(super) min_clusters: Int<u8, 1, 255>,
}
