//! A service that is exposed.

use std::time::Duration;

use super::{Gslb, Metadata};
use crate::Secret;

/// A service that is exposed under a name: the inbound intent of ONAP and EMCO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// What people say about it.
    pub metadata: Metadata,
    /// The app it belongs to.
    pub app: String,
    /// The service; the clusters that run it are its members.
    pub service_name: String,
    /// `key=value` label of its workload; empty: the app's own.
    pub app_label: String,
    /// The name it is answered at: a domain name, a prefix that `public_domain` completes, or an address, which is not answered.
    pub external_name: String,
    /// Zone that completes names within a cluster.
    pub local_domain: String,
    /// Zone that completes a prefix.
    pub public_domain: String,
    /// Port in the mesh; not that of the pod.
    pub port: Option<u16>,
    /// What it speaks.
    pub protocol: Option<Protocol>,
    /// True if each instance is to be reached by itself.
    pub headless: bool,
    /// True if it is exposed outside its clusters. What is not is not answered.
    pub external_support: bool,
    /// Its share within a compound, 0 to 100. None: of what the others leave; 0: standby.
    pub traffic_weight: Option<u8>,
    /// The mesh that carries it.
    pub service_mesh: ServiceMesh,
    /// True if a proxy stands beside it.
    pub sidecar_proxy: bool,
    /// How TLS is spoken to it.
    pub tls_mode: TlsMode,
    /// How the mesh shapes its traffic.
    pub traffic: Traffic,
    /// Its certificates.
    pub certificates: Certificates,
    /// Namespaces whose workloads may use it; empty: all.
    pub namespaces: Vec<String>,
    /// Service accounts that may use it.
    pub service_accounts: Vec<ServiceAccount>,
    /// How its name is steered.
    pub gslb: Gslb,
}

/// What a service speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC.
    Grpc,
    /// HTTP/1.1.
    Http,
    /// HTTP/2.
    Http2,
    /// HTTP over TLS.
    Https,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The mesh that carries a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceMesh {
    /// Istio.
    #[default]
    Istio,
    /// None.
    None,
}

/// How TLS is spoken to a service (Istio's `tls.mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Both sides show certificates of the mesh.
    IstioMutual,
    /// Both sides show certificates.
    Mutual,
    /// None is spoken.
    None,
    /// The server shows a certificate.
    #[default]
    Simple,
}

/// How the mesh shapes the traffic to a service; kept for the mesh part, three of it are hints for probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How an instance is chosen.
    pub balancing: Option<LoadBalancing>,
    /// Most TCP connections.
    pub max_connections: Option<u32>,
    /// Most concurrent HTTP/2 requests.
    pub http2_max_requests: Option<u32>,
    /// Most HTTP requests of one connection.
    pub max_requests_per_connection: Option<u32>,
    /// Errors in a row that eject an instance. Probes: failures in a row that turn a target down.
    pub consecutive_errors: Option<u32>,
    /// How long it stays ejected. Probes: how long passes are counted before it is up again.
    pub base_ejection_time: Option<Duration>,
    /// Time between looks. Probes: their period.
    pub sweep_interval: Option<Duration>,
}

/// How an instance is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadBalancing {
    /// By a hash.
    ConsistentHash(HashKey),
    /// By none.
    Simple(SimpleBalancing),
}

/// What is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashKey {
    /// A cookie of this name.
    Cookie(String),
    /// A header of this name.
    Header(String),
    /// The ring's smallest size; what is hashed is left to the mesh.
    MinimumRingSize(u64),
    /// The client's address.
    SourceIp,
}

/// How an instance is chosen without a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimpleBalancing {
    /// The one with the fewest requests (Istio once called it `LEAST_CONN`).
    LeastRequest,
    /// None is chosen: the client's own aim stands.
    Passthrough,
    /// By chance.
    Random,
    /// In turn.
    RoundRobin,
}

/// Certificates of a service, PEM or PEM in base64; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// What the service (for an outbound server: the client) shows.
    pub service: String,
    /// Its key. It is never shown.
    pub private_key: Option<Secret>,
    /// What the other side's certificate is held against.
    pub ca: String,
}

/// A service account and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its name.
    pub name: String,
    /// What it may do; empty: everything.
    pub rules: Vec<AccessRule>,
}

/// One thing that may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// HTTP method.
    pub method: String,
    /// Path; may end in `*`.
    pub path: String,
}
