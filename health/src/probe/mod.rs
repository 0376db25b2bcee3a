//! One probe: connects, sends the request, checks the response and returns the result.
//!
//! The timeout covers everything from the resolution of a name to the last byte read. Each probe is one new TCP connection,
//! closed by a reset so that neither side keeps it in TIME_WAIT. A probe reads at most [`READ_MAX`] bytes, whatever a target
//! sends. Schedule and evaluation of probes are elsewhere.

mod endpoint;
mod failure;
mod grpc;
mod http;
mod monitor_error;
mod monitors;
mod prepare;
pub(crate) mod resolve;
mod stream;
mod tls;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fairway_model::{Cause, ProbeAddress};
use tokio::time::{Instant, timeout_at};

use self::endpoint::Phase;
#[cfg(test)]
use self::endpoint::READ_MAX;
pub(crate) use self::{
    endpoint::ProbeEndpoint,
    failure::Failure,
    http::HttpProbe,
    monitors::PreparedMonitors,
    prepare::{PreparedMonitor, prepare_http},
    stream::connect,
    tls::{Tls, TlsConfigs},
};
pub use self::{monitor_error::MonitorError, prepare::check_monitor};
use crate::{
    fence::{Fence, NotAllowed},
    observer::Family,
};

/// The result of one probe, before the state of the probe host is taken into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The check passed.
    Pass,
    /// The check failed.
    Fail {
        /// The cause.
        cause: Cause,
        /// True if the target answered in any way, with a refusal or a status for example.
        reached: bool,
    },
    /// No route. A failure of the target only if the probe host reaches others.
    Unreachable(Family, Cause),
    /// The probe host could not run the probe.
    Inconclusive(Cause),
    /// This server may not connect to the target.
    NotAllowed(NotAllowed),
}

impl ProbeResult {
    /// Returns the precedence among the results of several addresses of one target. An address that could not be probed
    /// might have passed; one without a route may be of a family that the probe host does not have.
    const fn precedence(&self) -> u8 {
        match self {
            Self::Pass | Self::Unreachable(..) => 0,
            Self::Fail { .. } => 1,
            Self::Inconclusive(_) | Self::NotAllowed(_) => 2,
        }
    }
}

/// Runs one probe against `address`, if `fence` allows that.
pub(crate) async fn probe(monitor: Arc<PreparedMonitor>, address: ProbeAddress, fence: Arc<Fence>) -> ProbeResult {
    let deadline = Instant::now() + monitor.timeout;
    match address {
        ProbeAddress::Address(ip) => {
            probe_allowed(&monitor, SocketAddr::new(ip, monitor.port), None, &fence, deadline).await
        }
        ProbeAddress::OfHost(ip, host) => {
            let host = host.to_plain();
            Box::pin(probe_allowed(&monitor, SocketAddr::new(ip, monitor.port), Some(&host), &fence, deadline)).await
        }
        ProbeAddress::Socket(socket) => probe_allowed(&monitor, socket, None, &fence, deadline).await,
        ProbeAddress::Host(host, port) => Box::pin(probe_host(&monitor, (&host, port), &fence, deadline)).await,
    }
}

/// Probes an address if that is allowed. `host` is the name that was resolved to it.
async fn probe_allowed(
    monitor: &PreparedMonitor,
    address: SocketAddr,
    host: Option<&str>,
    fence: &Fence,
    deadline: Instant,
) -> ProbeResult {
    match fence.check(address, host, Some(&monitor.monitor)) {
        Ok(()) => probe_address(monitor, address, host, deadline, monitor.timeout).await,
        Err(denied) => ProbeResult::NotAllowed(denied),
    }
}

/// Probes the addresses of a host in order until one passes; each gets an equal part of the remaining time.
///
/// None is probed if one of them is not allowed: then the owner of the name is not to be trusted with the others.
async fn probe_host(
    monitor: &PreparedMonitor,
    (host, port): (&str, u16),
    fence: &Fence,
    deadline: Instant,
) -> ProbeResult {
    let timeout = monitor.timeout;
    let addresses = match timeout_at(deadline, resolve::addresses(&monitor.lookups, host, port)).await {
        Ok(Ok(addresses)) => addresses,
        // A resolver that fails is not evidence about a target: it fails for all of them.
        Ok(Err(cause)) => return ProbeResult::Inconclusive(cause),
        Err(_) => return ProbeResult::Inconclusive(Cause(format!("timeout after {timeout:?} resolving {host}"))),
    };
    let denied = addresses.iter().find_map(|address| fence.check(*address, Some(host), Some(&monitor.monitor)).err());
    if let Some(denied) = denied {
        return ProbeResult::NotAllowed(denied);
    }
    let mut worst: Option<ProbeResult> = None;
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / left;
        let result = probe_address(monitor, *address, Some(host), now + share, share).await;
        if result == ProbeResult::Pass {
            return result;
        }
        if worst.as_ref().is_none_or(|worst| result.precedence() > worst.precedence()) {
            worst = Some(result);
        }
    }
    worst.unwrap_or_else(|| ProbeResult::Inconclusive(Cause(format!("{host} has no address"))))
}

/// Probes one address until `deadline`. A timeout is reported as `timeout`.
async fn probe_address(
    monitor: &PreparedMonitor,
    address: SocketAddr,
    host: Option<&str>,
    deadline: Instant,
    timeout: Duration,
) -> ProbeResult {
    let mut phase = Phase::Connect;
    let endpoint = ProbeEndpoint { address, host };
    match timeout_at(deadline, prepare::run(monitor, endpoint, &mut phase)).await {
        Ok(Ok(())) => ProbeResult::Pass,
        Ok(Err(Failure::ProbeHost(cause))) => ProbeResult::Inconclusive(cause),
        Ok(Err(Failure::Target(cause))) => ProbeResult::Fail { cause, reached: true },
        Ok(Err(Failure::Silent(cause))) => ProbeResult::Fail { cause, reached: false },
        Ok(Err(Failure::Unreachable(cause))) => ProbeResult::Unreachable(Family::of(address.ip()), cause),
        Err(_) => ProbeResult::Fail {
            cause: Cause(format!("timeout after {timeout:?} {phase}")),
            reached: phase > Phase::Connect,
        },
    }
}

#[cfg(test)]
pub(crate) mod tests;
