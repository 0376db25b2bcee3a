//! Settings of the process: addresses, limits, logs, publishing. They do not change what is answered.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use fairway_health::ProbeNetworks;
use fairway_hosts::ResolverSettings;
use fairway_http::{Tls, Url};
use fairway_model::{
    ClusterName, KubernetesApi, Name, Network, OverrideRule, ProviderRecordSet, RecordSet, Rtype, Secret,
    SharedNamePolicy, Ttl,
};
use fairway_providers::{
    publish::{Pacing, Rules, Weights},
    rfc2136::TsigKey,
};
use fairway_zones::{CookieKey, RateLimits, ServerIdentity};
use hyper::header::HeaderName;

use fairway_access::Access;

use super::{
    health_listener::HealthListenerSettings, history_wire::HistorySettings, landlock_wire::LandlockSettings,
    limits_wire::DeclaredLimits, publish_wire::AliasForm, traces_wire::TraceProtocol, v1_process::LogFormat,
    webhook::WebhookSettings,
};

/// Settings of the process. A change of a field marked (start) requires a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Addresses to answer DNS on, UDP and TCP (start). Default `[::]:53`.
    pub dns: Vec<SocketAddr>,
    /// Address of the HTTP listener; `None` for no listener (start). Default `127.0.0.1:8053`.
    pub http: Option<SocketAddr>,
    /// Listener for health probes (start). Default: none.
    pub health_listener: Option<HealthListenerSettings>,
    /// Access to the API.
    pub access: Arc<Access>,
    /// Data folder; `None` keeps no state (start).
    pub data_dir: Option<PathBuf>,
    /// User to switch to after the sockets are bound (start). Default: no switch.
    pub user: Option<String>,
    /// Restriction of the process to its files (start). Default: on, without further files.
    pub landlock: LandlockSettings,
    /// Log settings.
    pub log: LogSettings,
    /// Answers to queries about the server itself. Default: none.
    pub identity: ServerIdentity,
    /// True if resolvers that have proven nothing are asked to come over TCP. Default: true.
    pub challenge: bool,
    /// Networks that may ask for explanations over DNS, at most 64. Default: none.
    pub explain: Vec<Network>,
    /// DNS cookies. Default: on, with a key of this server.
    pub cookies: CookieSettings,
    /// Limits of responses over UDP. Default: none.
    pub rate_limits: Option<RateLimits>,
    /// Limits of DNS over TCP (start).
    pub tcp: TcpSettings,
    /// Limits of DNS over UDP (start).
    pub udp: UdpSettings,
    /// Limits of health checking (start).
    pub health: HealthSettings,
    /// Look-ups of host names of clusters. Default: by the resolvers of the system.
    pub resolvers: ResolverSettings,
    /// URL that is notified of the server's readiness (start). Default: none.
    pub callback: Option<Url>,
    /// Export of traces (start). Default: none.
    pub traces: Option<TraceSettings>,
    /// Sampled log of queries. Default: none.
    pub query_log: Option<QueryLogSettings>,
    /// Store of declared objects (start). Default: in the data folder.
    pub store: StoreSettings,
    /// Limits of all declared objects together.
    pub limits: DeclaredLimits,
    /// Change log in the data folder (start).
    pub history: HistorySettings,
    /// Providers to publish to. Default: none.
    pub publish: Vec<PublishTo>,
    /// Owner id in the registries of providers that name none. Default `fairway`.
    pub publish_owner: String,
    /// Webhook for ExternalDNS. Default: none.
    pub webhook: Option<WebhookSettings>,
    /// Withdrawals that are held.
    pub withdrawals: WithdrawalSettings,
    /// Clusters that overrides may not take out. Default: none.
    pub override_rules: Vec<OverrideRule>,
    /// Longest time for answering accepted queries when the process stops. Default 5 s.
    pub drain_timeout: Duration,
}

impl Settings {
    /// Owner id in registries if none is configured.
    pub const PUBLISH_OWNER: &str = "fairway";

    /// Returns a copy for telling later which changes need a restart. It has no credential that a reload replaces, which would stay in memory.
    #[must_use]
    pub fn of_start(&self) -> Self {
        let listener = |webhook: &WebhookSettings| WebhookSettings { listen: webhook.listen, ..Default::default() };
        Self {
            access: Arc::default(),
            cookies: CookieSettings::default(),
            publish: vec![],
            webhook: self.webhook.as_ref().map(listener),
            ..self.clone()
        }
    }

    /// Returns the policy for names that several webhook clients contribute without set identifiers.
    pub fn shared_names(&self) -> SharedNamePolicy {
        self.webhook.as_ref().map(|webhook| webhook.shared).unwrap_or_default()
    }
}

/// A provider, and the records that are published to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishTo {
    /// Name of the provider.
    pub name: String,
    /// Policy, ownership, limits and zones.
    pub rules: Rules,
    /// Intervals of reads and calls.
    pub pacing: Pacing,
    /// True if changes are applied automatically. Default true.
    pub auto: bool,
    /// Kind and address of the provider.
    pub destination: Destination,
    /// Steered names within its zones that are published. Default all.
    pub steered: Steered,
    /// True if declared record sets within its zones are published. Default false.
    pub records: bool,
    /// Additional names that refer to steered names.
    pub aliases: Vec<PublishedAlias>,
    /// Record sets that are always wanted: delegations with declared name servers.
    pub fixed: Vec<ProviderRecordSet>,
    /// Delegations with the name servers of the zones as served.
    pub served: Vec<ServedDelegation>,
}

/// Selection of the steered names that are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steered {
    /// All steered names.
    All,
    /// No steered names.
    None,
    /// Steered names of the intents of a project.
    OfProject {
        /// The project.
        project: String,
        /// Domains that contain the names; all domains if empty.
        within: Vec<Name>,
        /// Excluded domains.
        without: Vec<Name>,
    },
}

/// A delegation of a served zone to its own name servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDelegation {
    /// The zone.
    pub zone: Name,
    /// TTL of all its records.
    pub ttl: Ttl,
    /// RDATA of its DS records. If empty, they are derived from the CDS records of the zone.
    pub ds: Vec<Box<[u8]>>,
}

/// Kind and address of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A server with dynamic updates (RFC 2136).
    Rfc2136 {
        /// Address of the server.
        server: SocketAddr,
        /// Key that signs messages.
        key: Option<TsigKey>,
        /// Time limit of a call. Default 30 s.
        timeout: Duration,
    },
    /// PowerDNS with its HTTP API.
    PowerDns {
        /// URL of the API.
        url: Url,
        /// API key.
        key: Secret,
        /// Time limit of a call. Default 30 s.
        timeout: Duration,
    },
    /// The etcd of a CoreDNS.
    Etcd {
        /// Prefix of all keys, with a slash at both ends.
        prefix: String,
        /// Connection settings. The time limit of a call is 30 s by default; endpoints share it equally.
        etcd: fairway_etcd::Settings,
    },
    /// A provider with the webhook API of ExternalDNS.
    Webhook {
        /// URL of the webhook.
        url: Url,
        /// Value of the `Authorization` header.
        authorization: Option<Secret>,
        /// Trust anchors and client certificate.
        tls: Tls,
        /// Format of weights.
        weights: Option<Weights>,
        /// Time limit of a call. Default 30 s.
        timeout: Duration,
    },
    /// Kubernetes objects (DNSEndpoint).
    DnsEndpoints {
        /// Their place.
        place: ObjectPlace,
        /// Namespace of the objects.
        namespace: String,
        /// Format of weights.
        weights: Option<Weights>,
    },
    /// A zone file.
    File(PathBuf),
}

/// Place of Kubernetes objects that are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectPlace {
    /// A cluster, with its API.
    Cluster(ClusterName, Arc<KubernetesApi>),
    /// A folder; others apply its files.
    Folder(PathBuf),
}

/// An additional name that refers to a steered one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedAlias {
    /// Published name.
    pub name: Name,
    /// The steered name.
    pub of: Name,
    /// Form of the published records.
    pub form: AliasForm,
}

/// Returns the A and AAAA record sets of these addresses, without empty sets.
pub fn address_sets(name: &Name, ttl: Ttl, addresses: &[IpAddr]) -> Vec<RecordSet> {
    let octets = |address: &IpAddr| -> (Rtype, Box<[u8]>) {
        match address {
            IpAddr::V4(address) => (Rtype::A, address.octets().into()),
            IpAddr::V6(address) => (Rtype::AAAA, address.octets().into()),
        }
    };
    let all: Vec<_> = addresses.iter().map(octets).collect();
    let set = |rtype| {
        let rdatas = all.iter().filter(|(of, _)| *of == rtype).map(|(_, rdata)| rdata.clone());
        RecordSet::new(name.clone(), rtype, ttl, rdatas)
    };
    [Rtype::A, Rtype::AAAA].map(set).into_iter().filter(|set| !set.rdatas.is_empty()).collect()
}

/// Store of declared objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// Place (start).
    pub backend: StoreBackend,
    /// Keys that encrypt stored values (start), 64 hexadecimal digits each: the first one writes, all of them read. Default: none, values
    /// are stored in the clear.
    pub keys: Vec<Secret>,
}

/// Place of the store of declared objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreBackend {
    /// A file in the data folder, for one server.
    #[default]
    Embedded,
    /// etcd, shared by several servers.
    Etcd {
        /// Prefix of all keys; ends with `/`. Default `/fairway/`.
        prefix: String,
        /// Connection settings. Defaults: 2 s per endpoint, twice that per call.
        etcd: fairway_etcd::Settings,
    },
}

/// Longest times for which withdrawals are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithdrawalSettings {
    /// Withdrawals of many names of one owner. Default 24 h; zero holds none.
    pub hold_for: Duration,
    /// Withdrawals of the last healthy member of a name. Default 1 h; zero holds none.
    pub hold_last_for: Duration,
}

impl Default for WithdrawalSettings {
    fn default() -> Self {
        Self { hold_for: Duration::from_secs(86_400), hold_last_for: Duration::from_secs(3_600) }
    }
}

/// Log settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Filter in the syntax of `tracing`: `info`, or `info,fairway_health=debug`. Default `info`.
    pub filter: String,
    /// Format of a line. Default [`LogFormat::Auto`].
    pub format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::default() }
    }
}

/// DNS cookies (RFC 7873).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CookieSettings {
    /// Off.
    Off,
    /// On, with a random key in the data folder.
    #[default]
    OwnKey,
    /// On, with these keys. The first one makes cookies, and all are accepted.
    Keys(Arc<[CookieKey]>),
}

/// Limits of DNS over TCP (RFC 7766 section 6.2, RFC 9210 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// Largest number of open connections. At the limit, a new connection replaces the longest idle one. Default 1000.
    pub connections_max: usize,
    /// Largest number per client address. At the limit, a new one replaces the client's longest idle one. Default 100.
    pub per_client_max: usize,
    /// Longest time a connection may stay open without a query. Default 10 s.
    pub idle_timeout: Duration,
    /// Longest time for receiving a query once it has begun, and for sending a response. Default 5 s.
    pub query_timeout: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            per_client_max: 100,
            idle_timeout: Duration::from_secs(10),
            query_timeout: Duration::from_secs(5),
        }
    }
}

/// Limits of DNS over UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Threads and sockets per address; `None` means one per core.
    pub workers: Option<usize>,
    /// Largest response in octets, 512 to 1232 (RFC 9715 section 3.1). Default 1232.
    pub payload_max: u16,
}

impl UdpSettings {
    /// 1,232 = 1,280 (smallest IPv6 MTU) - 40 - 8, so that a response is never fragmented.
    pub const PAYLOAD_MAX: u16 = 1232;
}

impl Default for UdpSettings {
    fn default() -> Self {
        Self { workers: None, payload_max: Self::PAYLOAD_MAX }
    }
}

/// Limits of health checking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Largest number of open probe sockets. Default 1024.
    pub sockets_max: usize,
    /// Longest time that the first round of probes delays the first answer. Default 5 s.
    pub first_round: Duration,
    /// Networks that targets of tenants may be in. Default: all but loopback, link-local and the like.
    pub networks: ProbeNetworks,
    /// Largest number of regular probes per second of the targets of one tenant. Default 1,000.
    pub tenant_probes_max: u32,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            sockets_max: 1024,
            first_round: Duration::from_secs(5),
            networks: ProbeNetworks::default(),
            tenant_probes_max: 1000,
        }
    }
}

/// Export of traces (OTLP 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// URL that spans are sent to.
    pub endpoint: Url,
    /// Protocol of the collector. Default HTTP with protobuf.
    pub protocol: TraceProtocol,
    /// Headers of each request; values may be secrets.
    pub headers: Vec<(HeaderName, Secret)>,
    /// Trust anchors and client certificate.
    pub tls: Tls,
    /// Time limit of a request. Default 10 s.
    pub timeout: Duration,
    /// Recorded part, in millionths, of the traces that begin here. Traces that began elsewhere are recorded if they
    /// are recorded there. Default: all.
    pub per_million: u32,
    /// Name of the service. Default `fairway`.
    pub service: String,
    /// Additional resource attributes.
    pub resource: BTreeMap<String, String>,
}

impl TraceSettings {
    /// Default time limit of a request, from the OTLP specification.
    pub const TIMEOUT: Duration = Duration::from_secs(10);
    /// Path of the trace endpoint below the URL of a collector, from the OTLP specification.
    pub const PATH: &str = "/v1/traces";

    /// Returns settings for this collector with the default of every other field.
    pub fn to(endpoint: Url) -> Self {
        Self {
            endpoint,
            protocol: TraceProtocol::default(),
            headers: Vec::new(),
            tls: Tls::default(),
            timeout: Self::TIMEOUT,
            per_million: 1_000_000,
            service: "fairway".to_owned(),
            resource: BTreeMap::new(),
        }
    }
}

/// Sampled log of queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryLogSettings {
    /// One query out of this number is logged; 1 logs all.
    pub one_in: NonZeroU32,
    /// Output.
    pub sink: QueryLogSink,
}

/// Output of the query log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryLogSink {
    /// Standard output.
    Stdout,
    /// A file to append to, reopened on SIGHUP.
    File(PathBuf),
}

impl Default for Settings {
    /// Returns the settings of a configuration without any. The data folder is `None`, because its default depends on
    /// the user.
    fn default() -> Self {
        Self {
            dns: vec![SocketAddr::from(([0u16; 8], 53))],
            http: Some(SocketAddr::from(([127, 0, 0, 1], 8053))),
            health_listener: None,
            access: Arc::default(),
            data_dir: None,
            user: None,
            landlock: LandlockSettings::default(),
            log: LogSettings::default(),
            identity: ServerIdentity::default(),
            challenge: true,
            explain: vec![],
            cookies: CookieSettings::default(),
            rate_limits: None,
            tcp: TcpSettings::default(),
            udp: UdpSettings::default(),
            health: HealthSettings::default(),
            resolvers: ResolverSettings::default(),
            callback: None,
            traces: None,
            query_log: None,
            store: StoreSettings::default(),
            limits: DeclaredLimits::default(),
            history: HistorySettings::default(),
            publish: Vec::new(),
            publish_owner: Self::PUBLISH_OWNER.to_owned(),
            webhook: None,
            withdrawals: WithdrawalSettings::default(),
            override_rules: Vec::new(),
            drain_timeout: Duration::from_secs(5),
        }
    }
}
