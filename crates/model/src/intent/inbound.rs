//! The inbound intent: a service that is exposed.

use std::time::Duration;

use super::Gslb;
use crate::Secret;

/// A service that is exposed under a name: the inbound intent of ONAP and EMCO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbound {
    /// The app it belongs to.
    pub app: String,
    /// The service. The clusters that run it are the members of its pool.
    pub service_name: String,
    /// `key=value` label of its workload; empty means that of the app.
    pub app_label: String,
    /// Its public name: a domain name, or a prefix that `public_domain` completes. An address is accepted but not served.
    pub external_name: String,
    /// Zone of names within a cluster.
    pub local_domain: String,
    /// Zone that is appended to a prefix.
    pub public_domain: String,
    /// Port in the mesh, which may differ from that of the pod.
    pub port: Option<u16>,
    /// Its application protocol.
    pub protocol: Option<Protocol>,
    /// True if each instance has a name of its own (a headless service).
    pub headless: bool,
    /// True if it is exposed outside its clusters; otherwise its name is not served.
    pub external_support: bool,
    /// Its share within a compound in per cent, 0 to 100; 0 means standby. Those with `None` share what the others leave.
    pub traffic_weight: Option<u8>,
    /// The service mesh.
    pub service_mesh: ServiceMesh,
    /// True if it runs with a sidecar proxy.
    pub sidecar_proxy: bool,
    /// TLS mode of connections to it.
    pub tls_mode: TlsMode,
    /// Traffic settings of the mesh.
    pub traffic: Traffic,
    /// Its certificates.
    pub certificates: Certificates,
    /// Namespaces whose workloads may use it; empty means all.
    pub namespaces: Vec<String>,
    /// Service accounts that may use it.
    pub service_accounts: Vec<ServiceAccount>,
    /// Steering settings of its name.
    pub gslb: Gslb,
}

/// Application protocol of a service.
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

/// Service mesh of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceMesh {
    /// Istio.
    #[default]
    Istio,
    /// No mesh.
    None,
}

/// TLS mode of connections to a service (Istio's `tls.mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Mutual TLS with certificates of the mesh.
    IstioMutual,
    /// Mutual TLS with the certificates of the intent.
    Mutual,
    /// No TLS.
    None,
    /// Only the server has a certificate.
    #[default]
    Simple,
}

/// Traffic settings of the mesh (Istio's `trafficPolicy`). Three of them are also defaults of probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Load balancing among instances.
    pub mode: Option<BalancingMode>,
    /// Name of the cookie of [`BalancingMode::Cookie`]; `None` in other modes.
    pub http_cookie: Option<String>,
    /// Name of the header of [`BalancingMode::Header`]; `None` in other modes.
    pub http_header: Option<String>,
    /// Smallest size of the ring of [`BalancingMode::Ring`]; `None` in other modes.
    pub minimum_ring_size: Option<u64>,
    /// Largest number of TCP connections.
    pub max_connections: Option<u32>,
    /// Largest number of concurrent HTTP/2 requests.
    pub http2_max_requests: Option<u32>,
    /// Largest number of HTTP requests per connection.
    pub max_requests_per_connection: Option<u32>,
    /// Consecutive errors that eject an instance. For probes: consecutive failures that change a target to down.
    pub consecutive_errors: Option<u32>,
    /// Duration of an ejection. For probes: duration of consecutive passes before a target is up again.
    pub base_ejection_time: Option<Duration>,
    /// Time between two checks for ejection. For probes: the period.
    pub sweep_interval: Option<Duration>,
}

/// Load balancing among instances (Istio's `loadBalancer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancingMode {
    /// By a hash of the cookie [`Traffic::http_cookie`].
    Cookie,
    /// By a hash of the header [`Traffic::http_header`].
    Header,
    /// The instance with the fewest requests (formerly Istio's `LEAST_CONN`).
    LeastRequest,
    /// The address that the client asked for.
    Passthrough,
    /// At random.
    Random,
    /// By a hash whose input the mesh chooses, in a ring of at least [`Traffic::minimum_ring_size`].
    Ring,
    /// In turn (round robin).
    RoundRobin,
    /// By a hash of the client's address.
    SourceIp,
}

impl BalancingMode {
    /// True if an instance is chosen by a consistent hash.
    pub fn is_hash(self) -> bool {
        matches!(self, Self::Cookie | Self::Header | Self::Ring | Self::SourceIp)
    }
}

/// Certificates of a service, as PEM or PEM in base64; empty without a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Certificate of the service; of an outbound server, that of its client.
    pub service: String,
    /// Its private key, which is never shown.
    pub private_key: Option<Secret>,
    /// Trust anchors for the peer's certificate.
    pub ca: String,
}

/// A service account with its permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its name.
    pub name: String,
    /// Its permissions; empty means all.
    pub rules: Vec<AccessRule>,
}

/// A permitted request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRule {
    /// The HTTP method.
    pub method: String,
    /// The path, which may end in `*`.
    pub path: String,
}
