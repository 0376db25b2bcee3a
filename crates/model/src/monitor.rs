//! What is checked, how often, and when it counts.

use std::{
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};

use crate::MonitorName;

/// What to check and how often. Two equal monitors are one: their name is not part of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Monitor {
    /// What one probe does.
    pub check: Check,
    /// From one probe's due time to the next, before ±10 % jitter; default 10 s, at least 50 ms.
    pub period: Duration,
    /// A probe that takes longer fails; default 4 s, at most the period.
    pub timeout: Duration,
    /// Passes in a row that turn a target up; default 3.
    pub rise: u8,
    /// Failures in a row that turn a target down; default 3. The retries after a first failure follow at once.
    pub fall: u8,
}

impl Monitor {
    /// Shortest period accepted.
    pub const PERIOD_MIN: Duration = Duration::from_millis(50);

    /// A monitor with the default times and counts (10 s, 4 s, 3, 3).
    pub const fn new(check: Check) -> Self {
        Self { check, period: Duration::from_secs(10), timeout: Duration::from_secs(4), rise: 3, fall: 3 }
    }
}

impl Default for Monitor {
    /// What a member has that no monitor was declared for: TCP connect to port 443.
    fn default() -> Self {
        Self::new(Check::Tcp { port: 443 })
    }
}

/// What one probe does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// Always passes: no probe is sent.
    Always,
    /// grpc.health.v1 `Check` must say SERVING.
    Grpc(GrpcCheck),
    /// An HTTP/1.1 request, in clear or over TLS.
    Http(HttpCheck),
    /// A TCP connection must open.
    Tcp {
        /// Port to connect to.
        port: u16,
    },
}

impl Check {
    /// The port a probe goes to, if the check has one.
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::Always => None,
            Self::Grpc(grpc) => Some(grpc.port),
            Self::Http(http) => Some(http.port),
            Self::Tcp { port } => Some(*port),
        }
    }
}

/// An HTTP check. Redirects are not followed: a 3xx is an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpCheck {
    /// Port to connect to.
    pub port: u16,
    /// Request target, beginning with `/`.
    pub path: String,
    /// `GET` or `HEAD`.
    pub method: String,
    /// Host header; default the address probed.
    pub host: Option<String>,
    /// Further request headers, name and value.
    pub headers: Vec<(String, String)>,
    /// Statuses that pass; default 200-399.
    pub status: StatusSet,
    /// Text that the first 64 KiB of the body must contain.
    pub body: Option<String>,
    /// A response header that must be there, and, if given, contain this text.
    pub response_header: Option<(String, Option<String>)>,
    /// TLS; none for plain HTTP.
    pub tls: Option<TlsCheck>,
}

/// A gRPC health check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrpcCheck {
    /// Port to connect to.
    pub port: u16,
    /// `service` of the request; empty asks for the server as a whole.
    pub service: String,
    /// TLS; none for plain HTTP/2.
    pub tls: Option<TlsCheck>,
}

/// TLS of a probe. PEM texts are contents, not paths: they were read where they were declared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsCheck {
    /// Name sent (SNI) and verified; default the Host header or the address probed.
    pub server_name: Option<String>,
    /// Trust anchors (PEM); default the system's.
    pub ca: Option<Secret>,
    /// Client certificate chain and key (PEM).
    pub client: Option<(Secret, Secret)>,
    /// Whether the certificate is verified; default yes.
    pub verify: bool,
}

impl Default for TlsCheck {
    fn default() -> Self {
        Self { server_name: None, ca: None, client: None, verify: true }
    }
}

/// A text that logs and debug output never show, and whose memory is overwritten when its last copy is dropped.
///
/// Copies share one allocation. Comparison is for configurations, not for authentication: it stops at the first
/// difference, so its time depends on the text.
#[derive(Clone)]
pub struct Secret(Arc<SecretString>);

impl Secret {
    /// Wraps the text.
    pub fn new(text: impl Into<SecretString>) -> Self {
        Self(Arc::new(text.into()))
    }

    /// Returns the text itself, for its one use.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expose().hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// A set of HTTP statuses, as inclusive ranges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// Whether the status is in the set.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|&(low, high)| (low..=high).contains(&status))
    }
}

impl Default for StatusSet {
    /// 200 to 399, as load balancers' health monitors take by default.
    fn default() -> Self {
        Self(vec![(200, 399)])
    }
}

impl FromStr for StatusSet {
    type Err = String;

    /// Parses `200-299,301,4xx`.
    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is no set of HTTP statuses; write it like \"200-299,401\" or \"2xx\"");
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
        text.split(',').map(one).collect::<Option<Vec<_>>>().map(Self).ok_or_else(fault)
    }
}

/// Where a probe goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeAddress {
    /// An address of a cluster; the port is the check's.
    Address(IpAddr),
    /// An address and port of its own (`probe: 192.0.2.1:15021`).
    Socket(SocketAddr),
    /// A host name and port, resolved at each probe (`probe: gw.internal:15021`).
    Host(String, u16),
}

impl FromStr for ProbeAddress {
    type Err = String;

    /// Parses `HOST:PORT`; an IPv6 address stands in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(Self::Socket(socket));
        }
        let fault = || format!("{text:?} is not HOST:PORT; write it like gw.internal:15021 or [2001:db8::1]:15021");
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let port = port.parse::<u16>().map_err(|_| fault())?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let valid = !host.is_empty() && host.len() <= 253 && host.bytes().all(plain) && port != 0;
        if valid { Ok(Self::Host(host.to_owned(), port)) } else { Err(fault()) }
    }
}

impl fmt::Display for ProbeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Socket(socket) => write!(f, "{socket}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// An address with its monitor: what is probed, and what a health word speaks of.
///
/// Equal address and equal monitor are one target, whoever uses it and whatever the monitor is called.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where the probe goes.
    pub address: ProbeAddress,
    /// What it does there.
    pub monitor: Arc<Monitor>,
    /// One of the monitor's names, for people; not part of the identity.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_sets_take_numbers_ranges_and_classes() {
        let set: StatusSet = "200-204, 401,5xx".parse().unwrap();
        assert!([200, 204, 401, 500, 599].iter().all(|s| set.contains(*s)));
        assert!([199, 205, 400, 402].iter().all(|s| !set.contains(*s)));
        assert!("9xx".parse::<StatusSet>().is_err() && "300-200".parse::<StatusSet>().is_err());
    }

    #[test]
    fn probe_addresses_take_hosts_and_bracketed_addresses() {
        assert_eq!("[2001:db8::1]:80".parse::<ProbeAddress>().unwrap().to_string(), "[2001:db8::1]:80");
        assert_eq!("gw.internal:15021".parse(), Ok(ProbeAddress::Host("gw.internal".into(), 15021)));
        assert!("gw.internal".parse::<ProbeAddress>().is_err() && "a b:1".parse::<ProbeAddress>().is_err());
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let tls = TlsCheck { ca: Some(Secret::new("PRIVATE")), ..TlsCheck::default() };
        assert!(!format!("{tls:?}").contains("PRIVATE"));
    }
}
