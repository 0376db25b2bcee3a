//! How the process itself runs: addresses, bounds, logs. Not what it answers.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use fairway_http::{Tls, Url};
use fairway_model::{Name, Network, ProviderRecordSet, RecordSet, Rtype, Secret, SharedNamePolicy, Ttl};
use fairway_providers::{
    publish::{Pacing, Rules, Weights},
    rfc2136::TsigKey,
};
use fairway_zones::ServerIdentity;
use hyper::header::HeaderName;

use fairway_access::{Access, ServerTls, TokenHash};

/// How the process itself runs. A change of what is marked (start) takes a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Addresses to answer DNS on, UDP and TCP (start). Default `[::]:53`.
    pub dns: Vec<SocketAddr>,
    /// Address of the HTTP listener; none for none (start). Default `127.0.0.1:8053`.
    pub http: Option<SocketAddr>,
    /// Who may do what over the API.
    pub access: Arc<Access>,
    /// Data folder; none keeps nothing (start).
    pub data_dir: Option<PathBuf>,
    /// User to become once sockets are bound (start). Default: stay who we are.
    pub user: Option<String>,
    /// What is logged, and how.
    pub log: LogSettings,
    /// Answers about the server itself. Default: none.
    pub identity: ServerIdentity,
    /// Who may ask over DNS how names are steered, at most 64 networks. Default: nobody.
    pub explain: Vec<Network>,
    /// Bounds of DNS over TCP (start).
    pub tcp: TcpSettings,
    /// Bounds of DNS over UDP (start).
    pub udp: UdpSettings,
    /// Bounds of health checking (start).
    pub health: HealthSettings,
    /// Who is told whether the server is ready (start). Default: nobody.
    pub callback: Option<Url>,
    /// Where traces go, and which (start). Default: nowhere.
    pub traces: Option<TraceSettings>,
    /// Sampled log of queries; none by default.
    pub query_log: Option<QueryLogSettings>,
    /// Where declared objects are kept (start). Default: in the data folder.
    pub store: StoreSettings,
    /// What is published to other DNS servers, and where. Default: nothing.
    pub publish: Vec<PublishTo>,
    /// Who we are in registries where nothing else is said. Default `fairway`.
    pub publish_owner: String,
    /// Where ExternalDNS brings names and records; none by default.
    pub webhook: Option<WebhookSettings>,
    /// Most time that accepted queries have to be answered when the process ends. Default 5 s.
    pub drain_timeout: Duration,
}

impl Settings {
    /// Who we are in registries where nothing is said.
    pub const PUBLISH_OWNER: &str = "fairway";

    /// What is done with names that several clients of the webhook offer without set identifiers.
    pub fn shared_names(&self) -> SharedNamePolicy {
        self.webhook.as_ref().map(|webhook| webhook.shared).unwrap_or_default()
    }
}

/// A place that is published to, and what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishTo {
    /// What it is called.
    pub name: String,
    /// What may be done there.
    pub rules: Rules,
    /// How often it is.
    pub pacing: Pacing,
    /// Whether changes are carried out as they come. Default yes.
    pub auto: bool,
    /// Where it is.
    pub destination: Destination,
    /// Which steered names within its zones are published. Default all.
    pub steered: Steered,
    /// Whether declared record sets within its zones are. Default no.
    pub records: bool,
    /// Further names that lead to steered ones.
    pub aliases: Vec<PublishedAlias>,
    /// Record sets that are always wanted: delegations whose name servers were told.
    pub fixed: Vec<ProviderRecordSet>,
    /// Delegations of zones as they are served.
    pub served: Vec<ServedDelegation>,
}

/// Steered names that are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steered {
    /// All.
    All,
    /// None.
    None,
    /// Those that intents of a project hold.
    OfProject {
        /// The project.
        project: String,
        /// Domains that they lie in; none: whichever.
        within: Vec<Name>,
        /// Domains that they do not lie in.
        without: Vec<Name>,
    },
}

/// A zone of ours that is delegated with the name servers that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDelegation {
    /// The zone.
    pub zone: Name,
    /// TTL of all of it.
    pub ttl: Ttl,
    /// RDATA of its DS records; none: what it says of its keys.
    pub ds: Vec<Box<[u8]>>,
}

/// Where records are published to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A server that takes updates.
    Rfc2136 {
        /// Where it listens.
        server: SocketAddr,
        /// What messages are signed with.
        key: Option<TsigKey>,
        /// Longest time of a call. Default 30 s.
        timeout: Duration,
    },
    /// A PowerDNS with its HTTP API.
    PowerDns {
        /// Where the API is.
        url: Url,
        /// Its key.
        key: Secret,
        /// Longest time of a call. Default 30 s.
        timeout: Duration,
    },
    /// An etcd that CoreDNS reads.
    Etcd {
        /// Prefix of all keys, with a slash at both ends.
        prefix: String,
        /// How it is reached. A call has 30 s by default, and each endpoint an equal share of them.
        etcd: fairway_etcd::Settings,
    },
    /// A provider that speaks the webhook of ExternalDNS.
    Webhook {
        /// Where it is.
        url: Url,
        /// What stands behind `Authorization`.
        authorization: Option<Secret>,
        /// Whom it is trusted for, and what is shown to it.
        tls: Tls,
        /// How it is told weights.
        weights: Option<Weights>,
        /// Longest time of a call. Default 30 s.
        timeout: Duration,
    },
    /// A folder of Kubernetes objects.
    DnsEndpoints {
        /// The folder.
        folder: PathBuf,
        /// The namespace of the objects.
        namespace: String,
        /// How the provider behind them is told weights.
        weights: Option<Weights>,
    },
    /// A zone file.
    File(PathBuf),
}

/// A name elsewhere that leads to a steered one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedAlias {
    /// The name there.
    pub name: Name,
    /// The steered name.
    pub of: Name,
    /// How it leads there.
    pub form: AliasForm,
}

/// How an alias is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasForm {
    /// As a CNAME.
    Cname,
    /// As the addresses of the members that can take traffic.
    Addresses,
}

/// The A and AAAA sets of these addresses; none where there is no address of a family.
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

/// Where declared objects are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreSettings {
    /// In a file of the data folder, for one server.
    #[default]
    Embedded,
    /// On an etcd, for several servers.
    Etcd {
        /// Prefix of all keys; ends with `/`. Default `/fairway/`.
        prefix: String,
        /// How it is reached. An endpoint has 2 s to answer by default, a call twice as long.
        etcd: fairway_etcd::Settings,
    },
}

/// The webhook of ExternalDNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Address that ExternalDNS speaks to (start). Default `127.0.0.1:8888`.
    pub listen: SocketAddr,
    /// Address of health and metrics alone; none for none (start). Default `0.0.0.0:8080`.
    pub metrics: Option<SocketAddr>,
    /// TLS. Default: plain HTTP.
    pub tls: Option<ServerTls>,
    /// What the token hashes to that each call shows. Default: none is asked for.
    pub token: Option<TokenHash>,
    /// What becomes of a name that several owners bring without set identifiers.
    pub shared: SharedNamePolicy,
    /// How long an owner may not be heard of before what it brought fades; it is gone after twice as long. None: never.
    pub lease: Option<Duration>,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8888)),
            metrics: Some(SocketAddr::from(([0, 0, 0, 0], 8080))),
            tls: None,
            token: None,
            shared: SharedNamePolicy::default(),
            lease: None,
        }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Filter, as `tracing`'s directives: `info`, or `info,fairway_health=debug`. Default `info`.
    pub filter: String,
    /// How a line looks. Default [`LogFormat::Auto`].
    pub format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::default() }
    }
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Bounds of DNS over TCP (RFC 7766 section 6.2, RFC 9210 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// Most connections open at once. When full, the idlest goes and the newcomer is served. Default 1000.
    pub connections_max: usize,
    /// Most connections of one client address; a further one replaces the client's idlest. Default 100.
    pub per_client_max: usize,
    /// How long a connection may stay open with nothing asked. Default 10 s.
    pub idle_timeout: Duration,
    /// How long a message may take to arrive once it has begun, and an answer to be taken. Default 5 s.
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

/// Bounds of DNS over UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Threads and sockets an address; none means one a core.
    pub workers: Option<usize>,
    /// Longest answer in octets, 512 to 1232 (RFC 9715 section 3.1). Default 1232.
    pub payload_max: u16,
}

impl UdpSettings {
    /// 1,232 = 1,280 (smallest IPv6 MTU) - 40 - 8, so that a reply is never fragmented.
    pub const PAYLOAD_MAX: u16 = 1232;
}

impl Default for UdpSettings {
    fn default() -> Self {
        Self { workers: None, payload_max: Self::PAYLOAD_MAX }
    }
}

/// Bounds of health checking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Most probe sockets open at once. Default 1024.
    pub sockets_max: usize,
    /// Most time that the first round of probes may hold back the first answer. Default 5 s.
    pub first_round: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { sockets_max: 1024, first_round: Duration::from_secs(5) }
    }
}

/// Destination of traces (OTLP 1), and which are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// What spans are posted to.
    pub endpoint: Url,
    /// Protocol of the collector. Default HTTP with protobuf.
    pub protocol: TraceProtocol,
    /// Headers of each request, which may be as good as a password.
    pub headers: Vec<(HeaderName, Secret)>,
    /// Whom the collector is trusted for, and what is shown to it.
    pub tls: Tls,
    /// Longest time of a request. Default 10 s.
    pub timeout: Duration,
    /// How many of a million traces that begin here are recorded; of those that come from elsewhere, the ones that are recorded there.
    /// Default all.
    pub per_million: u32,
    /// What the service is called. Default `fairway`.
    pub service: String,
    /// What is further said of this server with each trace.
    pub resource: BTreeMap<String, String>,
}

/// Protocol of a collector of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceProtocol {
    /// OTLP over HTTP in protobuf, usually on port 4318.
    #[default]
    HttpProtobuf,
    /// OTLP over gRPC, usually on port 4317.
    Grpc,
}

impl TraceSettings {
    /// Longest time of a request where nothing is said, as the specification of OTLP has it.
    pub const TIMEOUT: Duration = Duration::from_secs(10);
    /// Where a collector takes traces, below its own URL.
    pub const PATH: &str = "/v1/traces";

    /// Traces to this URL, for the rest by default.
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

/// The sampled log of queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryLogSettings {
    /// One query in so many is logged; 1 logs each.
    pub one_in: NonZeroU32,
    /// Where its lines go.
    pub sink: QueryLogSink,
}

/// Where lines of the query log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryLogSink {
    /// Standard output.
    Stdout,
    /// Appended to this file, which is opened anew on SIGHUP.
    File(PathBuf),
}

impl Default for Settings {
    /// What a configuration without any process setting means, apart from the data folder: that depends on who runs it.
    fn default() -> Self {
        Self {
            dns: vec![SocketAddr::from(([0u16; 8], 53))],
            http: Some(SocketAddr::from(([127, 0, 0, 1], 8053))),
            access: Arc::default(),
            data_dir: None,
            user: None,
            log: LogSettings::default(),
            identity: ServerIdentity::default(),
            explain: vec![],
            tcp: TcpSettings::default(),
            udp: UdpSettings::default(),
            health: HealthSettings::default(),
            callback: None,
            traces: None,
            query_log: None,
            store: StoreSettings::default(),
            publish: Vec::new(),
            publish_owner: Self::PUBLISH_OWNER.to_owned(),
            webhook: None,
            drain_timeout: Duration::from_secs(5),
        }
    }
}
