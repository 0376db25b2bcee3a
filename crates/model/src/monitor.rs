//! Monitors: the check of a target, its period, and the number of results that change the health status.

use std::{
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use serde::{Deserialize, Serialize};

use crate::{MonitorName, Name};

/// A check and its times. The name is not part of it, so two monitors with equal settings are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Monitor {
    /// The check that one probe runs.
    pub check: Check,
    /// Time between two probes, before ±10 % jitter; default 10 s, at least 50 ms.
    pub period: Duration,
    /// Time after which a probe fails; default 4 s, at most the period.
    pub timeout: Duration,
    /// Consecutive passes that change a target to up; default 3.
    pub rise: u8,
    /// Consecutive failures that change a target to down; default 3. After a first failure the next probes follow at once.
    pub fall: u8,
}

impl Monitor {
    /// Shortest period accepted.
    pub const PERIOD_MIN: Duration = Duration::from_millis(50);

    /// Returns a monitor with the default times and counts (10 s, 4 s, 3, 3): those of the health monitor of Avi's GSLB
    /// operator for Kubernetes (AMKO). Route 53 probes every 10 s or 30 s, allows 4 s for a TCP connection, and changes
    /// the status after 3 results by default; gdnsd probes every 10 s.
    pub const fn new(check: Check) -> Self {
        Self { check, period: Duration::from_secs(10), timeout: Duration::from_secs(4), rise: 3, fall: 3 }
    }
}

impl Default for Monitor {
    /// Returns the monitor of members without a declared one: a TCP connection to port 443.
    fn default() -> Self {
        Self::new(Check::Tcp { port: 443 })
    }
}

/// The check that one probe runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Check {
    /// Always passes: no probe is sent.
    Always,
    /// A call of grpc.health.v1 `Check`, which must return SERVING.
    Grpc(GrpcCheck),
    /// An HTTP/1.1 request, plain or over TLS.
    Http(HttpCheck),
    /// A TCP connection, which must open.
    Tcp {
        /// Port to connect to.
        port: u16,
    },
    // The last one: hashes of the others stay.
    /// Always fails: no probe is sent. It is the check of a member whose cluster has nothing that could answer.
    Never,
}

impl Check {
    /// Returns the port a probe goes to, if the check has one.
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::Always | Self::Never => None,
            Self::Grpc(grpc) => Some(grpc.port),
            Self::Http(http) => Some(http.port),
            Self::Tcp { port } => Some(*port),
        }
    }

    /// True if a probe sends what may be a secret: headers, or a signature with the key of a client certificate.
    pub fn sends_secrets(&self) -> bool {
        let (has_headers, tls) = match self {
            Self::Always | Self::Never | Self::Tcp { .. } => (false, None),
            Self::Grpc(grpc) => (false, grpc.tls.as_ref()),
            Self::Http(http) => (!http.headers.is_empty(), http.tls.as_ref()),
        };
        has_headers || tls.is_some_and(|tls| tls.client.is_some())
    }
}

/// An HTTP check. Redirects are not followed: a 3xx status is the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HttpCheck {
    /// Port to connect to.
    pub port: u16,
    /// Request target, beginning with `/`.
    pub path: String,
    /// `GET` or `HEAD`.
    pub method: String,
    /// Host header; default the probed address.
    pub host: Option<String>,
    /// Further request headers, name and value.
    pub headers: Vec<(String, Secret)>,
    /// Statuses that pass; default 200–399.
    pub status: StatusSet,
    /// Text that the first 64 KiB of the body must contain.
    pub body: Option<String>,
    /// A response header that must be present and, if a text is given, contain it.
    pub response_header: Option<(String, Option<String>)>,
    /// TLS settings; `None` for plain HTTP.
    pub tls: Option<TlsCheck>,
}

impl HttpCheck {
    /// Returns a plain GET request with every default.
    pub fn get(port: u16, path: &str) -> Self {
        Self {
            port,
            path: path.to_owned(),
            method: "GET".to_owned(),
            host: None,
            headers: vec![],
            status: StatusSet::default(),
            body: None,
            response_header: None,
            tls: None,
        }
    }
}

/// A gRPC health check.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrpcCheck {
    /// Port to connect to.
    pub port: u16,
    /// `service` of the request; empty means the whole server.
    pub service: String,
    /// TLS settings; `None` for plain HTTP/2.
    pub tls: Option<TlsCheck>,
}

/// TLS settings of a probe. PEM texts are contents, not paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TlsCheck {
    /// Name that is sent (SNI) and verified; default the Host header or the probed address.
    pub server_name: Option<String>,
    /// Trust anchors (PEM); default the system's.
    pub ca: Option<Secret>,
    /// Client certificate chain and key (PEM).
    pub client: Option<(Secret, Secret)>,
    /// True if the server's certificate is verified; default true.
    pub verify: bool,
}

impl Default for TlsCheck {
    fn default() -> Self {
        Self { server_name: None, ca: None, client: None, verify: true }
    }
}

/// A text that logs and debug output never show, and whose memory is overwritten when its last copy is dropped.
///
/// Copies share one allocation. Two secrets are equal if their digests are: the change log has digests only.
#[derive(Clone)]
pub struct Secret(Arc<(SecretString, SecretDigest)>);

/// The first bytes of the SHA-256 of a secret.
type SecretDigest = [u8; 16];

impl Secret {
    /// Wraps the text. A string that is given away is overwritten: it may have space left, and then the copy of its length would leave
    /// the text behind.
    pub fn new(text: impl Into<String>) -> Self {
        let text = Zeroizing::new(text.into());
        let mut digest = SecretDigest::default();
        let whole = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        digest.copy_from_slice(&whole.as_ref()[..size_of::<SecretDigest>()]);
        Self(Arc::new((SecretString::from(text.as_str()), digest)))
    }

    /// Returns a secret whose text is not known any more. It is equal to the one with the text, which has this digest.
    pub(crate) fn forgotten(digest: SecretDigest) -> Self {
        Self(Arc::new((SecretString::default(), digest)))
    }

    pub(crate) fn digest(&self) -> &SecretDigest {
        &self.0.1
    }

    /// Returns the text itself, for its one use.
    pub fn expose(&self) -> &str {
        self.0.0.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for Secret {}

impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest().hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// A set of HTTP statuses, as inclusive ranges.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// Returns true if the status is in the set.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|&(low, high)| (low..=high).contains(&status))
    }
}

impl Default for StatusSet {
    /// Returns 200 to 399, the default of common load balancers.
    fn default() -> Self {
        Self(vec![(200, 399)])
    }
}

/// A text that is not a set of HTTP statuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a set of HTTP statuses; write it like \"200-299,401\" or \"2xx\"")]
pub struct StatusSetError(String);

impl FromStr for StatusSet {
    type Err = StatusSetError;

    /// Parses `200-299,301,4xx`.
    fn from_str(text: &str) -> Result<Self, StatusSetError> {
        let one = |item: &str| -> Option<(u16, u16)> {
            let item = item.trim();
            if let Some(class) = item.strip_suffix("xx").or_else(|| item.strip_suffix("XX")) {
                let class: u16 = class.parse().ok()?;
                return (1..=5).contains(&class).then_some((class * 100, class * 100 + 99));
            }
            let (low, high) = item.split_once('-').unwrap_or((item, item));
            let (low, high): (u16, u16) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            (low <= high && (100..=599).contains(&low) && high <= 599).then_some((low, high))
        };
        let ranges = text.split(',').map(one).collect::<Option<_>>();
        ranges.map(Self).ok_or_else(|| StatusSetError(text.to_owned()))
    }
}

/// The destination of a probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProbeAddress {
    /// An address of a cluster; the port is the check's.
    Address(IpAddr),
    /// An address that this host name was resolved to; the port is the check's, and the name the default of Host header and server name.
    OfHost(IpAddr, Name),
    /// An address and port (`probe: 192.0.2.1:15021`).
    Socket(SocketAddr),
    /// A host name and port, resolved at each probe (`probe: gw.internal:15021`).
    Host(String, u16),
}

/// A text that is not the destination of a probe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not HOST:PORT; write it like gw.internal:15021 or [2001:db8::1]:15021")]
pub struct ProbeAddressError(String);

impl FromStr for ProbeAddress {
    type Err = ProbeAddressError;

    /// Parses `HOST:PORT`; an IPv6 address must be in brackets.
    fn from_str(text: &str) -> Result<Self, ProbeAddressError> {
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(Self::Socket(socket));
        }
        let invalid = || ProbeAddressError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse::<u16>().map_err(|_| invalid())?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let valid = !host.is_empty() && host.len() <= 253 && host.bytes().all(plain) && port != 0;
        if valid { Ok(Self::Host(host.to_owned(), port)) } else { Err(invalid()) }
    }
}

impl fmt::Display for ProbeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::OfHost(address, host) => write!(f, "{address} ({host})"),
            Self::Socket(socket) => write!(f, "{socket}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// The declaration that a monitor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum MonitorSource {
    /// The member.
    Member,
    /// Its pool.
    Pool,
    /// Its cluster.
    Cluster,
    /// The zone of the name.
    Zone,
    /// The port of an intent, since nobody names a monitor.
    #[strum(to_string = "intent port")]
    IntentPort,
    /// The status port of the gateway that was found in the cluster, since nobody names a monitor.
    #[strum(to_string = "gateway status port")]
    StatusPort,
    /// A Kubernetes cluster without a ready endpoint of the name.
    #[strum(to_string = "no ready endpoint")]
    NoEndpoint,
    /// Nobody names a monitor.
    Default,
}

/// An address with its monitor: what is probed and has a health status.
///
/// Targets with equal address and equal monitor are one, whichever pools use them and whatever the monitor's name.
#[derive(Clone, Debug)]
pub struct Target {
    /// The destination of its probes.
    pub address: ProbeAddress,
    /// The monitor.
    pub monitor: Arc<Monitor>,
    /// One of the monitor's names, for people; two targets that differ only in it are equal.
    pub label: MonitorName,
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address && self.monitor == other.monitor
    }
}

impl Eq for Target {}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
        self.monitor.hash(state);
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.label)
    }
}

impl Target {
    /// Returns the port of the probes; `None` if none is sent.
    pub fn port(&self) -> Option<u16> {
        let port = self.monitor.check.port()?;
        Some(match &self.address {
            ProbeAddress::Address(_) | ProbeAddress::OfHost(..) => port,
            ProbeAddress::Socket(socket) => socket.port(),
            ProbeAddress::Host(_, port) => *port,
        })
    }

    /// Returns the probe in a few words: `http 192.0.2.1:15021/healthz/ready`, `tcp 192.0.2.1:443`, `always`.
    pub fn probe(&self) -> String {
        let tls = |has: bool| if has { "s" } else { "" };
        let (protocol, rest) = match &self.monitor.check {
            Check::Always => return "always".to_owned(),
            Check::Never => return "never".to_owned(),
            Check::Grpc(check) if check.service.is_empty() => {
                (format!("grpc{}", tls(check.tls.is_some())), String::new())
            }
            Check::Grpc(check) => (format!("grpc{}", tls(check.tls.is_some())), format!("/{}", check.service)),
            Check::Http(check) => (format!("http{}", tls(check.tls.is_some())), check.path.clone()),
            Check::Tcp { .. } => ("tcp".to_owned(), String::new()),
        };
        let to = match (&self.address, self.port()) {
            (ProbeAddress::Address(address) | ProbeAddress::OfHost(address, _), Some(port)) => {
                SocketAddr::new(*address, port).to_string()
            }
            (address, _) => address.to_string(),
        };
        format!("{protocol} {to}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_is_named_with_protocol_endpoint_and_path() {
        let of = |address: ProbeAddress, check| {
            let label = MonitorName::new("m").unwrap();
            Target { address, monitor: Arc::new(Monitor::new(check)), label }
        };
        let address = |text: &str| ProbeAddress::Address(text.parse().unwrap());
        let ready = || Check::Http(HttpCheck::get(15_021, "/healthz/ready"));
        assert_eq!(of(address("192.0.2.1"), ready()).probe(), "http 192.0.2.1:15021/healthz/ready");
        assert_eq!(of(address("2001:db8::1"), Check::Tcp { port: 443 }).probe(), "tcp [2001:db8::1]:443");
        let elsewhere = of("gw.internal:81".parse().unwrap(), ready());
        assert_eq!((elsewhere.probe().as_str(), elsewhere.port()), ("http gw.internal:81/healthz/ready", Some(81)));
        let grpc = Check::Grpc(GrpcCheck { port: 9, service: "shop".to_owned(), tls: None });
        assert_eq!(of(address("192.0.2.1"), grpc).probe(), "grpc 192.0.2.1:9/shop");
        let never = of(address("192.0.2.1"), Check::Never);
        assert_eq!((never.probe().as_str(), never.port()), ("never", None));
    }

    #[test]
    fn status_set_parses_numbers_ranges_and_classes() {
        let set: StatusSet = "200-204, 401,5xx".parse().unwrap();
        assert!([200, 204, 401, 500, 599].iter().all(|s| set.contains(*s)));
        assert!([199, 205, 400, 402].iter().all(|s| !set.contains(*s)));
        assert!("9xx".parse::<StatusSet>().is_err() && "300-200".parse::<StatusSet>().is_err());
    }

    #[test]
    fn probe_address_parses_host_and_bracketed_address() {
        assert_eq!("[2001:db8::1]:80".parse::<ProbeAddress>().unwrap().to_string(), "[2001:db8::1]:80");
        assert_eq!("gw.internal:15021".parse(), Ok(ProbeAddress::Host("gw.internal".into(), 15021)));
        assert!("gw.internal".parse::<ProbeAddress>().is_err() && "a b:1".parse::<ProbeAddress>().is_err());
    }

    #[test]
    fn secret_is_redacted_in_debug_output() {
        let tls = TlsCheck { ca: Some(Secret::new("PRIVATE")), ..TlsCheck::default() };
        assert!(!format!("{tls:?}").contains("PRIVATE"));
    }
}
