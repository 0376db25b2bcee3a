//! Converts a monitor to what its probes need: request headers and TLS configuration, created once.
//!
//! A monitor that cannot be converted cannot be probed; [`check_monitor`] reports that when a configuration is loaded.

use std::{sync::Arc, time::Duration};

use fairway_model::{Cause, Check, GrpcCheck, HttpCheck, Monitor, TlsCheck};
use hyper::{
    HeaderMap, Method, Uri,
    header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE, USER_AGENT},
    http::uri::{Authority, PathAndQuery},
};
use rustls::pki_types::ServerName;
use tokio::sync::Semaphore;

use super::{
    ProbeResult,
    endpoint::{Phase, ProbeEndpoint, READ_MAX},
    failure::Failure,
    grpc::GrpcProbe,
    http::HttpProbe,
    monitor_error::MonitorError,
    stream,
    tls::{Tls, TlsConfigs},
};

/// Returns an error if the times, counts, headers, names, certificates or keys of a monitor are invalid.
///
/// The system's trust anchors are not read, so that a configuration can be checked on another machine.
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
    PreparedCheck::new(&monitor.check, &mut TlsConfigs::without_system_roots()).map(|_| ())
}

/// A monitor that is ready for probes.
#[derive(Debug)]
pub(crate) struct PreparedMonitor {
    /// The monitor itself.
    pub(super) monitor: Arc<Monitor>,
    /// Port of the check; 0 if it has none.
    pub(super) port: u16,
    /// Longest duration of one probe.
    pub(crate) timeout: Duration,
    check: Result<PreparedCheck, MonitorError>,
    /// Limit of concurrent look-ups, which all monitors share.
    pub(super) lookups: Arc<Semaphore>,
}

impl PreparedMonitor {
    /// Prepares a monitor. If that fails, each of its probes reports the error.
    pub(super) fn new(monitor: &Arc<Monitor>, lookups: Arc<Semaphore>, configs: &mut TlsConfigs) -> Self {
        Self {
            monitor: Arc::clone(monitor),
            port: monitor.check.port().unwrap_or(0),
            timeout: monitor.timeout,
            check: PreparedCheck::new(&monitor.check, configs),
            lookups,
        }
    }

    /// Returns true if probes can run.
    pub(super) const fn is_valid(&self) -> bool {
        self.check.is_ok()
    }

    /// Returns the result of a check that needs no probe.
    pub(crate) fn fixed(&self) -> Option<ProbeResult> {
        match self.check {
            Ok(PreparedCheck::Always) => Some(ProbeResult::Pass),
            Ok(PreparedCheck::Never) => {
                Some(ProbeResult::Fail { cause: Cause::new("no ready endpoint"), reached: true })
            }
            _ => None,
        }
    }
}

/// Runs the check at an endpoint and keeps `phase` up to date.
pub(super) async fn run(
    monitor: &PreparedMonitor,
    endpoint: ProbeEndpoint<'_>,
    phase: &mut Phase,
) -> Result<(), Failure> {
    let check = monitor.check.as_ref().map_err(|error| Failure::ProbeHost(Cause(error.to_string())))?;
    if matches!(check, PreparedCheck::Always | PreparedCheck::Never) {
        return Ok(());
    }
    let stream = stream::connect(endpoint.address, READ_MAX).await?;
    *phase = Phase::Tls;
    match check {
        PreparedCheck::Always | PreparedCheck::Never | PreparedCheck::Tcp => Ok(()),
        PreparedCheck::Http(probe, None) => probe.run(stream, endpoint, phase).await,
        // Boxed, so that the thousands of probes without TLS do not reserve memory for these futures.
        PreparedCheck::Http(probe, Some(tls)) => {
            let stream = Box::pin(tls.connect(stream, endpoint)).await?;
            Box::pin(probe.run(stream, endpoint, phase)).await
        }
        PreparedCheck::Grpc(probe, None) => Box::pin(probe.run(stream, endpoint, phase)).await,
        PreparedCheck::Grpc(probe, Some(tls)) => {
            let stream = Box::pin(tls.connect(stream, endpoint)).await?;
            Box::pin(probe.run(stream, endpoint, phase)).await
        }
    }
}

/// A check with parsed headers and TLS configuration.
#[derive(Debug)]
enum PreparedCheck {
    Always,
    Never,
    Tcp,
    Http(Box<HttpProbe>, Option<Tls>),
    Grpc(GrpcProbe, Option<Tls>),
}

impl PreparedCheck {
    fn new(check: &Check, configs: &mut TlsConfigs) -> Result<Self, MonitorError> {
        match check {
            Check::Always => Ok(Self::Always),
            Check::Never => Ok(Self::Never),
            Check::Tcp { .. } => Ok(Self::Tcp),
            Check::Http(check) => {
                let (probe, tls) = prepare_http(check, configs)?;
                Ok(Self::Http(Box::new(probe), tls))
            }
            Check::Grpc(check) => {
                let tls = check.tls.as_ref().map(|tls| prepare_tls(tls, None, b"h2", configs)).transpose()?;
                Ok(Self::Grpc(grpc_probe(check), tls))
            }
        }
    }
}

/// Prepares request and TLS of an HTTP check.
pub(crate) fn prepare_http(
    check: &HttpCheck,
    configs: &mut TlsConfigs,
) -> Result<(HttpProbe, Option<Tls>), MonitorError> {
    let tls = check.tls.as_ref().map(|tls| prepare_tls(tls, check.host.as_deref(), b"http/1.1", configs));
    Ok((http_probe(check)?, tls.transpose()?))
}

/// Prepares TLS with a server name: the declared one, else that of the Host header.
fn prepare_tls(
    tls: &TlsCheck,
    host: Option<&str>,
    alpn: &'static [u8],
    configs: &mut TlsConfigs,
) -> Result<Tls, MonitorError> {
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let host = host.as_ref().map(|authority| authority.host().trim_matches(['[', ']']));
    let name = tls
        .server_name
        .as_deref()
        .or(host)
        .map(|name| ServerName::try_from(name.to_owned()).map_err(|_| MonitorError::ServerName(name.to_owned())))
        .transpose()?;
    Ok(Tls { config: configs.get(tls, alpn)?, name })
}

fn grpc_probe(check: &GrpcCheck) -> GrpcProbe {
    let scheme = if check.tls.is_some() { "https" } else { "http" };
    let authority = check.tls.as_ref().and_then(|tls| tls.server_name.clone());
    GrpcProbe { service: check.service.clone(), scheme, authority }
}

fn http_probe(check: &HttpCheck) -> Result<HttpProbe, MonitorError> {
    let method = match check.method.as_str() {
        "GET" => Method::GET,
        "HEAD" if check.body.is_some() => return Err(MonitorError::HeadBody),
        "HEAD" => Method::HEAD,
        other => return Err(MonitorError::Method(other.to_owned())),
    };
    let invalid_path = || MonitorError::Path(check.path.clone());
    let target: PathAndQuery = check.path.parse().map_err(|_| invalid_path())?;
    if !check.path.starts_with('/') || check.path.contains('#') {
        return Err(invalid_path());
    }
    let response_header = match &check.response_header {
        None => None,
        Some((name, text)) => Some((header_name(name)?, text.clone())),
    };
    Ok(HttpProbe {
        method,
        target: Uri::from(target),
        headers: headers(check)?,
        default_port: if check.tls.is_some() { 443 } else { 80 },
        status: check.status.clone(),
        body: check.body.clone(),
        response_header,
    })
}

/// Returns the headers of a request. Headers of the monitor take precedence over the default ones.
fn headers(check: &HttpCheck) -> Result<HeaderMap, MonitorError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &check.headers {
        let value = HeaderValue::from_str(value.expose()).map_err(|_| MonitorError::Header(name.clone()))?;
        let key = header_name(name)?;
        if [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE].contains(&key) {
            return Err(MonitorError::Framing(name.clone()));
        }
        headers.append(key, value);
    }
    if let Some(host) = &check.host {
        let invalid_host = || MonitorError::Host(host.clone());
        let authority: Authority = host.parse().map_err(|_| invalid_host())?;
        if authority.host().is_empty() || host.contains('@') {
            return Err(invalid_host());
        }
        headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| invalid_host())?);
    }
    // One request per connection. A target that then closes the connection itself saves both sides the reset.
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
