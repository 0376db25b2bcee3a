//! The configuration file, version 1: the one definition from which parser, JSON Schema and reference page follow.
//!
//! The comments of fields are the operator's documentation. Nothing here is used past the conversion to model types.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use fairway_http::Url;
use fairway_model::{
    ClusterName, LoadSourceName, MapName, MonitorName, Name, Network, OverrideScope, PoolName, ProbeAddress, Schedule,
    Timestamp, Ttl,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{Float, Int, List, Text, each_once},
    load_wire::Load,
    policy_wire::Policy,
    publish_wire::Publish,
    store_wire::Store,
    traces_wire::Traces,
    v1_access::Access,
    v1_place::{Geo, Latencies, Latency, Map, Nearest},
    v1_records::Records,
    v1_schedule::Window,
    values::Sample,
    values_wire::{As, Down, Fraction, HttpAddress, NameServer, Prefix, Reference, Statuses},
    webhook_wire::Webhook,
};

/// Configuration of Fairway, version 1.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    /// Version of this format: 1.
    #[expect(dead_code, reason = "its type holds it to the one version there is")]
    pub(super) version: Int<u32, 1, 1>,
    /// Addresses to listen on. A change takes a restart.
    #[serde(default)]
    pub(super) listen: Listen,
    /// Folder for what must survive a restart, with mode 0700. Default: `STATE_DIRECTORY` where a service manager sets
    /// it, `/var/lib/fairway` for root, else `fairway` in the XDG state folder. A change takes a restart.
    pub(super) data_dir: Option<Text<1>>,
    /// User to become once sockets are bound. Default: stay who we are. A change takes a restart.
    pub(super) user: Option<Text<1>>,
    /// Who may do what over the API. Default: everybody on this machine may do all, and nobody else reaches it.
    pub(super) access: Option<Access>,
    /// What is logged, and how.
    #[serde(default)]
    pub(super) log: Log,
    /// What the server says about itself when asked.
    #[serde(default)]
    pub(super) identity: Identity,
    /// Who is told over DNS how a name is steered.
    #[serde(default)]
    pub(super) explain: Explain,
    /// Bounds of DNS over TCP (RFC 7766, RFC 9210). A change takes a restart.
    #[serde(default)]
    pub(super) tcp: Tcp,
    /// Bounds of DNS over UDP. A change takes a restart.
    #[serde(default)]
    pub(super) udp: Udp,
    /// Bounds of health checking. A change takes a restart.
    #[serde(default)]
    pub(super) health: Health,
    /// Who is told whether this server is ready. A change takes a restart.
    #[serde(default)]
    pub(super) ready: Ready,
    /// Where traces go, by OTLP. Default: nowhere. A change takes a restart.
    pub(super) traces: Option<Traces>,
    /// Sampled log of queries. Default: none.
    pub(super) query_log: Option<QueryLog>,
    /// Where objects are kept that are declared over the API. A change takes a restart.
    #[serde(default)]
    pub(super) store: Store,
    /// What is published to other DNS servers.
    #[serde(default)]
    pub(super) publish: Publish,
    /// Where ExternalDNS brings names and records. Default: nowhere.
    pub(super) webhook: Option<Webhook>,
    /// Most time that accepted queries have to be answered when the process ends; at most 10m.
    #[schemars(extend("default" = "5s"))]
    pub(super) drain_timeout: Option<As<Duration>>,
    /// Zones to be authoritative for.
    #[serde(default)]
    pub(super) zones: Vec<Zone>,
    /// Clusters that traffic can be sent to.
    #[serde(default)]
    pub(super) clusters: Vec<Cluster>,
    /// Checks of health.
    #[serde(default)]
    pub(super) monitors: Vec<Monitor>,
    /// Where the load of clusters is read.
    #[serde(default)]
    pub(super) load: Vec<Load>,
    /// Maps from addresses to places.
    #[serde(default)]
    pub(super) maps: Vec<Map>,
    /// Tables of measured latencies.
    #[serde(default)]
    pub(super) latencies: Vec<Latencies>,
    /// Groups of clusters, and how one is chosen.
    #[serde(default)]
    pub(super) pools: Vec<Pool>,
    /// Names whose addresses a pool chooses.
    #[serde(default)]
    pub(super) names: Vec<SteeredName>,
    /// Records that are served as they are, beside those of zones' files.
    #[serde(default)]
    pub(super) records: Vec<Records>,
    /// Force over verdicts, with reason and expiry.
    #[serde(default)]
    pub(super) overrides: Vec<Override>,
}

/// Addresses to listen on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Listen {
    /// Addresses and ports that answer DNS, over UDP and TCP. `[::]` takes IPv4 too.
    #[schemars(extend("default" = ["[::]:53"]))]
    pub(super) dns: Option<List<As<SocketAddr>, 1, 64>>,
    /// Address and port of the HTTP listener (page, API, health, metrics), or `off`. One that other machines reach takes
    /// `access` with TLS.
    #[schemars(extend("default" = "127.0.0.1:8053"))]
    pub(super) http: Option<As<HttpAddress>>,
}

/// What is logged, and how.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Log {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`, `off`), or a list of `TARGET=LEVEL` with commas.
    #[schemars(extend("default" = "info"))]
    pub(super) level: Option<Text<1>>,
    /// How a line looks: text on a terminal and JSON otherwise (`auto`), or always one of both.
    #[schemars(extend("default" = "auto"))]
    pub(super) format: Option<LogFormat>,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the server says about itself when asked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Identity {
    /// Answer to `version.bind` and `version.server` (CH TXT). Default: refused.
    pub(super) version: Option<Text<1, 255>>,
    /// Answer to `hostname.bind` and `id.server` (CH TXT, RFC 4892), and NSID (RFC 5001). Default: refused, no NSID.
    pub(super) id: Option<Text<1, 255>>,
}

/// Who is told over DNS how a name is steered.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Explain {
    /// Networks whose questions for TXT at `_explain.NAME` are answered with how NAME is steered, by the source address of the
    /// question. Default: nobody's.
    pub(super) networks: Option<List<As<Network>, 1, 64>>,
}

/// Bounds of DNS over TCP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tcp {
    /// Most connections open at once. When full, the idlest is closed and the newcomer served.
    #[schemars(extend("default" = 1000))]
    pub(super) connections_max: Option<Int<u32, 1, 1_000_000>>,
    /// Most connections of one client address; a further one takes the place of the client's idlest.
    #[schemars(extend("default" = 100))]
    pub(super) per_client_max: Option<Int<u32, 1, 1_000_000>>,
    /// How long a connection may stay open with nothing asked; 100ms to 10m.
    #[schemars(extend("default" = "10s"))]
    pub(super) idle_timeout: Option<As<Duration>>,
    /// How long a message may take to arrive once it has begun, and an answer to be taken; 100ms to 10m.
    #[schemars(extend("default" = "5s"))]
    pub(super) query_timeout: Option<As<Duration>>,
}

/// Bounds of DNS over UDP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Udp {
    /// Threads and sockets for each address. Default: one a core.
    pub(super) workers: Option<Int<u16, 1, 1024>>,
    /// Longest answer in octets. 1232 never needs fragmenting (RFC 9715).
    #[schemars(extend("default" = 1232))]
    pub(super) payload_max: Option<Int<u16, 512, 1232>>,
}

/// Bounds of health checking.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Health {
    /// Most probe sockets open at once.
    #[schemars(extend("default" = 1024))]
    pub(super) sockets_max: Option<Int<u32, 1, 1_000_000>>,
    /// Most time that the first round of probes may hold back the first answer; at most 10m, 0s waits for nothing.
    #[schemars(extend("default" = "5s"))]
    pub(super) first_round: Option<As<Duration>>,
}

/// Who is told whether this server is ready.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Ready {
    /// URL that gets a POST once the server is ready, and one when it begins to stop: `http` or `https`, without user and
    /// password. Default: nobody is told.
    pub(super) callback: Option<As<Url>>,
}

/// Sampled log of queries.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QueryLog {
    /// Which share of queries is logged: one in so many.
    #[schemars(extend("default" = "1/1000"))]
    pub(super) sample: Option<As<Sample>>,
    /// File that lines are appended to, or `stdout`.
    #[schemars(extend("default" = "stdout"))]
    pub(super) file: Option<Text<1>>,
}

/// A zone to be authoritative for: with `file`, or with `ns` and `contact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Zone {
    /// The apex.
    pub(super) name: As<Name>,
    /// Zone file (RFC 1035 master file); relative paths begin at this file's folder.
    pub(super) file: Option<Text<1>>,
    /// Name servers of a zone without file, the first one being the primary of its SOA.
    pub(super) ns: Option<List<NameServer, 1, 16>>,
    /// Who is responsible for a zone without file: a mail address, or its form as a domain name (RFC 1035 section 8).
    #[schemars(extend("default" = "hostmaster at the zone"))]
    pub(super) contact: Option<Text<3>>,
    /// Serial of a zone without file. Steering never changes it.
    #[schemars(extend("default" = 1))]
    pub(super) serial: Option<Int<u32, 1, 4_294_967_295>>,
    /// TTL of SOA, NS and addresses of name servers of a zone without file.
    #[schemars(extend("default" = "1h"))]
    pub(super) ttl: Option<As<Ttl>>,
    /// How long a negative answer may be kept, in a zone without file (RFC 2308).
    #[schemars(extend("default" = "1m"))]
    pub(super) negative_ttl: Option<As<Ttl>>,
    /// Monitor of members whose pool names none.
    pub(super) monitor: Option<As<MonitorName>>,
    /// Who is meant to see it: everybody, or clients inside. Members that are `internal` are answered in private zones only.
    #[schemars(extend("default" = "public"))]
    pub(super) visibility: Option<Visibility>,
}

/// Who is meant to see a zone.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum Visibility {
    /// Clients inside.
    Private,
    /// Everybody.
    Public,
}

/// A cluster: where traffic can be sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cluster {
    /// Its name: 1 to 128 letters, digits, `-`, `_`, `.`, `+`.
    pub(super) name: As<ClusterName>,
    /// Addresses of its ingress gateway, IPv4 and IPv6, in the order they are answered; at most 8 a family.
    pub(super) addresses: List<As<IpAddr>, 1, 16>,
    /// Its own domain name, which pools of mode `cname` answer with.
    pub(super) dns_name: Option<As<Name>>,
    /// Where it stands.
    pub(super) location: Option<Location>,
    /// How much it can carry, in the unit of its load reports.
    pub(super) capacity: Option<Int<u64, 1, 9_007_199_254_740_991>>,
    /// Load that pools which heed load keep it under while others have room, as a part of its capacity. Over 0.
    #[schemars(extend("default" = "80%"))]
    pub(super) target: Option<Fraction>,
    /// Load above which they give it nothing as long as others have room. At least the target.
    #[schemars(extend("default" = "100%"))]
    pub(super) limit: Option<Fraction>,
    /// The source its load is read from. Default: none, so that its load is unknown unless it is pushed.
    pub(super) load: Option<As<LoadSourceName>>,
    /// Where its gateways are asked for their load. Default: its IPv4 addresses (IPv6 where it has no other), at the
    /// source's port.
    pub(super) scrape: Option<List<As<ProbeAddress>, 1, 64>>,
    /// Services it runs, as inbound intents name them; `*` stands for all.
    #[schemars(extend("default" = ["*"]))]
    pub(super) services: Option<List<Text<1, 255>, 0, 4096>>,
}

/// A place on earth.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Location {
    /// Degrees north.
    pub(super) latitude: Float<-90, 90>,
    /// Degrees east.
    pub(super) longitude: Float<-180, 180>,
    /// Free name of the region.
    pub(super) region: Option<Text<1>>,
    /// How far beyond its own surroundings it draws clients where pools rank by distance: 50 halves all distances to it, -50
    /// doubles them.
    #[schemars(extend("default" = 0))]
    pub(super) bias: Option<Int<i8, -99, 99>>,
}

/// A check of health. Which keys have a meaning depends on `type`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Monitor {
    /// Its name.
    pub(super) name: As<MonitorName>,
    /// What a probe does: open a TCP connection, send an HTTP request (in clear or over TLS), ask `grpc.health.v1`, or
    /// nothing (`always` passes).
    #[serde(rename = "type")]
    pub(super) kind: MonitorType,
    /// Port to connect to. Default: 443 for tcp and https, 80 for http; needed for grpc.
    pub(super) port: Option<Int<u16, 1, 65_535>>,
    /// http, https: path and query of the request, beginning with `/`.
    #[schemars(extend("default" = "/"))]
    pub(super) path: Option<String>,
    /// http, https: the request's method.
    #[schemars(extend("default" = "GET"))]
    pub(super) method: Option<Method>,
    /// http, https: the Host header. Default: the address that is probed.
    pub(super) host: Option<Text<1, 255>>,
    /// http, https: further headers of the request.
    #[serde(default, deserialize_with = "each_once")]
    pub(super) headers: Option<BTreeMap<String, String>>,
    /// http, https: statuses that pass.
    #[schemars(extend("default" = "200-399"))]
    pub(super) status: Option<Statuses>,
    /// http, https: text that the first 64 KiB of the body must contain.
    pub(super) body: Option<Text<1, 4096>>,
    /// http, https: a header that the response must have.
    pub(super) response_header: Option<ResponseHeader>,
    /// https, grpc: how TLS is spoken. grpc speaks it only if this is there.
    pub(super) tls: Option<Tls>,
    /// grpc: the service asked for. Default: the server as a whole.
    pub(super) service: Option<String>,
    /// Time from probe to probe, before ±10 % jitter; 50ms to 1d. `interval` is accepted too.
    #[schemars(extend("default" = "10s"))]
    pub(super) period: Option<As<Duration>>,
    /// A probe that takes longer fails; at most the period. Default: 4s, or the period where that is shorter.
    pub(super) timeout: Option<As<Duration>>,
    /// Passes in a row that turn a target up.
    #[schemars(extend("default" = 3))]
    pub(super) rise: Option<Int<u8, 1, 255>>,
    /// Failures in a row that turn a target down; after the first one the others are sought at once.
    #[schemars(extend("default" = 3))]
    pub(super) fall: Option<Int<u8, 1, 255>>,
}

/// What a probe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum MonitorType {
    /// Nothing: it always passes.
    Always,
    /// Asks `grpc.health.v1`.
    Grpc,
    /// Sends an HTTP/1.1 request in clear.
    Http,
    /// Sends an HTTP/1.1 request over TLS.
    Https,
    /// Opens a connection.
    Tcp,
}

/// Method of an HTTP request.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub(super) enum Method {
    /// With body.
    Get,
    /// Without body.
    Head,
}

/// A header that a response must have.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResponseHeader {
    /// Its name; case does not count.
    pub(super) name: Text<1, 255>,
    /// Text that its value must contain. Default: any value.
    pub(super) contains: Option<Text<1, 4096>>,
}

/// TLS of a probe.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tls {
    /// Name that is sent (SNI) and verified. Default: `host`, else the address that is probed.
    pub(super) server_name: Option<Text<1, 253>>,
    /// Certificates that are trusted (PEM). Default: the system's.
    pub(super) ca: Option<Reference>,
    /// Client certificate chain (PEM), together with `key`.
    pub(super) cert: Option<Reference>,
    /// Key of the client certificate (PEM).
    pub(super) key: Option<Reference>,
    /// Whether the certificate of the gateway is verified.
    #[schemars(extend("default" = true))]
    pub(super) verify: Option<bool>,
}

/// A group of clusters that serve the same thing, and how one is chosen for a client.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Pool {
    /// Its name.
    pub(super) name: As<PoolName>,
    /// How it chooses: shares by weight (`weighted`), the first live member in order (`failover`), or a list of steps:
    /// `schedule`, rankings (`tier`, `geo`, `nearest`, `latency`, `cost`), then `load`, then `weighted`, `sticky` or `failover`.
    pub(super) policy: Policy,
    /// What it answers with: addresses at the name itself, or a CNAME to the cluster's `dnsName`.
    #[schemars(extend("default" = "address"))]
    pub(super) mode: Option<Mode>,
    /// TTL of its answers; at most 1d.
    #[schemars(extend("default" = "30s"))]
    pub(super) ttl: Option<As<Ttl>>,
    /// TTL while something is at risk: a member is down or drained, opens or closes soon, load is above its target. At most `ttl`, which is the
    /// default: then it stays as it is.
    pub(super) ttl_min: Option<As<Ttl>>,
    /// TTL after ten TTLs in which nothing was at risk and nothing moved; at most 1d. At least `ttl`, which is the default.
    pub(super) ttl_max: Option<As<Ttl>>,
    /// How many clusters an answer names; all addresses of each go together.
    #[schemars(extend("default" = 1))]
    pub(super) answers: Option<Int<u8, 1, 8>>,
    /// What is answered when no member can be. `ALL_RECORDS`, `EMPTY`, `NONE` and `FALLBACK_IP` are accepted too.
    #[schemars(extend("default" = "all"))]
    pub(super) down: Option<Down>,
    /// Whether a client network keeps its member (`client`), or each query draws (`query`).
    #[schemars(extend("default" = "client"))]
    pub(super) spread: Option<Spread>,
    /// What counts as one client. Default: /24 of IPv4, /56 of IPv6.
    #[schemars(extend("default" = { "v4": 24, "v6": 56 }))]
    pub(super) client_prefix: Option<Prefix>,
    /// The map that tells where clients are. Default: the only one there is.
    pub(super) map: Option<As<MapName>>,
    /// Which regions clients prefer, for the ranking `geo`.
    pub(super) geo: Option<Geo>,
    /// How the ranking `nearest` measures.
    pub(super) nearest: Option<Nearest>,
    /// How the ranking `latency` measures.
    pub(super) latency: Option<Latency>,
    /// When less than this part of the weight is up, health is ignored and all members share; 0 is never.
    #[schemars(extend("default" = 0))]
    pub(super) panic_threshold: Option<Fraction>,
    /// When less than this part of a tier's weight is up, the next tier helps; 0 is only when none of it is.
    #[schemars(extend("default" = 0))]
    pub(super) min_healthy: Option<Fraction>,
    /// Monitor of members that name none. Default: the zone's, else TCP 443.
    pub(super) monitor: Option<As<MonitorName>>,
    /// The members, in order; at most 255.
    pub(super) members: List<Member, 1, 255>,
}

/// What a pool answers with.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum Mode {
    /// Addresses at the name itself.
    Address,
    /// A CNAME to the cluster's own name.
    Cname,
}

/// Whether a client keeps its member.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum Spread {
    /// A client network keeps its member.
    Client,
    /// Each query draws.
    Query,
}

/// One cluster in a pool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Member {
    /// The cluster. `edge` is accepted too.
    pub(super) cluster: As<ClusterName>,
    /// Its share beside its neighbours'; 0 is standby.
    #[schemars(extend("default" = 1))]
    pub(super) weight: Option<Int<u16, 0, 65535>>,
    /// When it is used: tier 1 is used first.
    #[schemars(extend("default" = 1))]
    pub(super) tier: Option<Int<u8, 1, 255>>,
    /// What traffic costs there, in any unit: the lowest first, where the policy ranks by `cost`.
    #[schemars(extend("default" = 0))]
    pub(super) cost: Option<Int<u16, 0, 65535>>,
    /// How far beyond its own surroundings it draws clients, in place of its cluster's `bias`.
    pub(super) bias: Option<Int<i8, -99, 99>>,
    /// The networks whose clients may get it; to all others it is not there. At most 4096 in a pool. Default: everybody.
    pub(super) networks: Option<List<As<Network>, 1, 4096>>,
    /// Whether it is kept from public zones.
    #[schemars(extend("default" = false))]
    pub(super) internal: Option<bool>,
    /// When it takes part, where the policy has the step `schedule`: while any of these is open. Default: always.
    pub(super) open: Option<List<Window, 1, { Schedule::WINDOWS_MAX }>>,
    /// Its own monitor. Default: the pool's.
    pub(super) monitor: Option<As<MonitorName>>,
    /// Where it is probed. Default: at each of its addresses, on the monitor's port.
    pub(super) probe: Option<As<ProbeAddress>>,
}

/// A name whose addresses a pool chooses. It may be a wildcard or the apex of a zone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SteeredName {
    /// The name.
    pub(super) name: As<Name>,
    /// The pool that answers.
    pub(super) pool: As<PoolName>,
    /// TTL in place of the pool's; at most 1d.
    pub(super) ttl: Option<As<Ttl>>,
}

/// Force over the verdicts of what it matches.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Override {
    /// What it matches: `CLUSTER` or `CLUSTER/ADDRESS`, where `*` stands for any characters and `?` for one.
    #[serde(rename = "match")]
    pub(super) scope: As<OverrideScope>,
    /// What is forced: answered whatever probes say (`up`), never answered (`down`), or taken out for planned work
    /// (`drain`).
    pub(super) action: Action,
    /// Why, for whoever finds it later: one line.
    pub(super) reason: Text<1, 500>,
    /// When it ends by itself; at most 30 days from now.
    pub(super) until: As<Timestamp>,
}

/// What is forced.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum Action {
    /// Taken out for planned work.
    Drain,
    /// Never answered.
    Down,
    /// Answered whatever probes say.
    Up,
}
