//! From a monitor to what its probes need, made once: parsed headers, TLS configuration.
//!
//! What cannot be prepared cannot be probed; [`check_monitor`] says so when a configuration is loaded.

use std::{sync::Arc, time::Duration};

use fairway_model::{Cause, Check, GrpcCheck, HttpCheck, Monitor, TlsCheck};
use hyper::{
    HeaderMap, Method, Uri,
    header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE, USER_AGENT},
    http::uri::{Authority, PathAndQuery},
};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::sync::Semaphore;

use super::{Phase, Place, READ_MAX, failure::Failure, grpc, http, stream, tls};

/// Why a monitor cannot be run. Says the field, what is wrong with it, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// Trust anchors that are none.
    #[error("ca: {0}; give at least one certificate in PEM")]
    Ca(String),
    /// A client certificate that is none.
    #[error("client certificate: {0}; give the certificate and its chain in PEM")]
    ClientCertificate(String),
    /// A client key that is none, or is another certificate's.
    #[error("client key: {0}; give the private key of the client certificate in PEM")]
    ClientKey(String),
    /// A count of zero.
    #[error("{0} is 0; write how many in a row it takes, at least 1")]
    Count(&'static str),
    /// A request header that cannot be sent.
    #[error("header {0:?} cannot be sent: a name is letters, digits and hyphens, a value is visible text")]
    Header(String),
    /// A request header that is not the monitor's to give.
    #[error("header {0:?} is the connection's own, a probe sends no body; take it out")]
    Framing(String),
    /// A Host header that is no host.
    #[error("host {0:?} is no host name; write it like shop.example or shop.example:8443")]
    Host(String),
    /// A body wanted where there is none.
    #[error("body: an answer to HEAD has none; write method GET, or leave body out")]
    HeadBody,
    /// A method that is not GET or HEAD.
    #[error("method {0:?} is not one of probes; write GET or HEAD")]
    Method(String),
    /// A request target that is none.
    #[error("path {0:?} is no request target; write it like /healthz/ready")]
    Path(String),
    /// A period below the shortest.
    #[error("period {0:?} is too short; write at least 50ms")]
    Period(Duration),
    /// Port 0.
    #[error("port is 0; write 1 to 65535")]
    Port,
    /// A name that no certificate can be valid for.
    #[error("server name {0:?} is no DNS name or address; write it like gateway.example")]
    ServerName(String),
    /// No trust anchors on this machine.
    #[error("no trust anchors on this machine ({0}); install its CA certificates, or give the monitor a ca")]
    SystemRoots(String),
    /// A timeout that is zero or longer than the period.
    #[error("timeout {timeout:?} does not fit the period {period:?}; write more than 0 and at most the period")]
    Timeout {
        /// The timeout.
        timeout: Duration,
        /// The period.
        period: Duration,
    },
    /// TLS that cannot be configured.
    #[error("tls: {0}")]
    Tls(String),
}

/// Tells whether a monitor can be run: its times, counts, headers, names, certificates and keys.
///
/// The system's trust anchors are not looked at, so that a configuration can be checked on another machine.
pub fn check_monitor(monitor: &Monitor) -> Result<(), MonitorError> {
    for (name, count) in [("rise", monitor.rise), ("fall", monitor.fall)] {
        if count == 0 {
            return Err(MonitorError::Count(name));
        }
    }
    if monitor.period < Monitor::PERIOD_MIN {
        return Err(MonitorError::Period(monitor.period));
    }
    if monitor.timeout.is_zero() || monitor.timeout > monitor.period {
        return Err(MonitorError::Timeout { timeout: monitor.timeout, period: monitor.period });
    }
    if monitor.check.port() == Some(0) {
        return Err(MonitorError::Port);
    }
    let no_roots = || Ok(Arc::new(RootCertStore::empty()));
    let configure = |tls: &TlsCheck, alpn: &[u8]| tls::config(tls, alpn, &no_roots).map(Arc::new);
    Work::new(&monitor.check, configure).map(|_| ())
}

/// A monitor, ready to probe with.
#[derive(Debug)]
pub(crate) struct Prepared {
    port: u16,
    timeout: Duration,
    work: Result<Work, MonitorError>,
    lookups: Arc<Semaphore>,
}

impl Prepared {
    /// Prepares a monitor. `configure` makes the TLS configuration of a check, for a protocol of ALPN.
    pub(super) fn new(
        monitor: &Monitor,
        lookups: Arc<Semaphore>,
        configure: impl FnMut(&TlsCheck, &[u8]) -> Result<Arc<ClientConfig>, MonitorError>,
    ) -> Self {
        Self {
            port: monitor.check.port().unwrap_or(0),
            timeout: monitor.timeout,
            work: Work::new(&monitor.check, configure),
            lookups,
        }
    }

    /// Returns true if the monitor can be run.
    pub(super) const fn is_sound(&self) -> bool {
        self.work.is_ok()
    }

    /// Returns true if no probe is needed to know the outcome.
    pub(crate) const fn is_always(&self) -> bool {
        matches!(self.work, Ok(Work::Always))
    }

    /// Port of the check, 0 if it has none.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Longest time of one probe.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Bound on lookups, shared by all monitors.
    pub(super) const fn lookups(&self) -> &Arc<Semaphore> {
        &self.lookups
    }
}

/// Runs the check at `place` and keeps `phase` at how far it came.
pub(super) async fn run(prepared: &Prepared, place: Place<'_>, phase: &mut Phase) -> Result<(), Failure> {
    let work = prepared.work.as_ref().map_err(|error| Failure::Observer(Cause(error.to_string())))?;
    if matches!(work, Work::Always) {
        return Ok(());
    }
    let stream = stream::connect(place.address, READ_MAX).await?;
    *phase = Phase::Tls;
    match work {
        Work::Always | Work::Tcp => Ok(()),
        Work::Http(plan, None) => plan.run(stream, place, phase).await,
        // In boxes: a probe in clear, of which there are thousands, does not carry the room for these.
        Work::Http(plan, Some(tls)) => {
            let stream = Box::pin(tls.connect(stream, place)).await?;
            Box::pin(plan.run(stream, place, phase)).await
        }
        Work::Grpc(plan, None) => Box::pin(plan.run(stream, place, phase)).await,
        Work::Grpc(plan, Some(tls)) => {
            let stream = Box::pin(tls.connect(stream, place)).await?;
            Box::pin(plan.run(stream, place, phase)).await
        }
    }
}

/// What a probe does.
#[derive(Debug)]
enum Work {
    Always,
    Tcp,
    Http(Box<http::Plan>, Option<tls::Tls>),
    Grpc(grpc::Plan, Option<tls::Tls>),
}

/// Returns the request of an HTTP check and its TLS, for whoever reads an answer by himself.
pub(super) fn http_work(
    check: &HttpCheck,
    configure: &mut Configure<'_>,
) -> Result<(http::Plan, Option<tls::Tls>), MonitorError> {
    let tls = check.tls.as_ref().map(|tls| with_name(tls, check.host.as_deref(), b"http/1.1", configure));
    Ok((http_plan(check)?, tls.transpose()?))
}

/// Makes the TLS configuration of a check, for a protocol of ALPN.
pub(super) type Configure<'a> = dyn FnMut(&TlsCheck, &[u8]) -> Result<Arc<ClientConfig>, MonitorError> + 'a;

impl Work {
    fn new(
        check: &Check,
        mut configure: impl FnMut(&TlsCheck, &[u8]) -> Result<Arc<ClientConfig>, MonitorError>,
    ) -> Result<Self, MonitorError> {
        match check {
            Check::Always => Ok(Self::Always),
            Check::Tcp { .. } => Ok(Self::Tcp),
            Check::Http(check) => {
                let (plan, tls) = http_work(check, &mut configure)?;
                Ok(Self::Http(Box::new(plan), tls))
            }
            Check::Grpc(check) => {
                let tls = check.tls.as_ref().map(|tls| with_name(tls, None, b"h2", &mut configure)).transpose()?;
                Ok(Self::Grpc(grpc_plan(check), tls))
            }
        }
    }
}

fn with_name(
    tls: &TlsCheck,
    host: Option<&str>,
    alpn: &[u8],
    configure: &mut Configure<'_>,
) -> Result<tls::Tls, MonitorError> {
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let host = host.as_ref().map(|authority| authority.host().trim_matches(['[', ']']));
    let name = tls.server_name.as_deref().or(host);
    let name = name
        .map(|name| ServerName::try_from(name.to_owned()).map_err(|_| MonitorError::ServerName(name.to_owned())))
        .transpose()?;
    Ok(tls::Tls { config: configure(tls, alpn)?, name })
}

fn grpc_plan(check: &GrpcCheck) -> grpc::Plan {
    let scheme = if check.tls.is_some() { "https" } else { "http" };
    let authority = check.tls.as_ref().and_then(|tls| tls.server_name.clone());
    grpc::Plan { service: check.service.clone(), scheme, authority }
}

fn http_plan(check: &HttpCheck) -> Result<http::Plan, MonitorError> {
    let method = match check.method.as_str() {
        "GET" => Method::GET,
        "HEAD" if check.body.is_some() => return Err(MonitorError::HeadBody),
        "HEAD" => Method::HEAD,
        other => return Err(MonitorError::Method(other.to_owned())),
    };
    let no_path = || MonitorError::Path(check.path.clone());
    let target: PathAndQuery = check.path.parse().map_err(|_| no_path())?;
    if !check.path.starts_with('/') || check.path.contains('#') {
        return Err(no_path());
    }
    let response_header = match &check.response_header {
        None => None,
        Some((name, text)) => Some((header_name(name)?, text.clone())),
    };
    Ok(http::Plan {
        method,
        target: Uri::from(target),
        headers: headers(check)?,
        default_port: if check.tls.is_some() { 443 } else { 80 },
        status: check.status.clone(),
        body: check.body.clone(),
        response_header,
    })
}

/// Returns the headers of a request. What the monitor says of a header holds; the rest is added.
fn headers(check: &HttpCheck) -> Result<HeaderMap, MonitorError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &check.headers {
        let value = HeaderValue::from_str(value).map_err(|_| MonitorError::Header(name.clone()))?;
        let key = header_name(name)?;
        if [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE].contains(&key) {
            return Err(MonitorError::Framing(name.clone()));
        }
        headers.append(key, value);
    }
    if let Some(host) = &check.host {
        let no_host = || MonitorError::Host(host.clone());
        let authority: Authority = host.parse().map_err(|_| no_host())?;
        if authority.host().is_empty() || host.contains('@') {
            return Err(no_host());
        }
        headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| no_host())?);
    }
    // One request a connection: a target that hangs up by itself saves both sides the reset.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!(
        "fairway/",
        env!("CARGO_PKG_VERSION"),
        " (health probe)"
    )));
    Ok(headers)
}

fn header_name(name: &str) -> Result<HeaderName, MonitorError> {
    name.parse().map_err(|_| MonitorError::Header(name.to_owned()))
}
