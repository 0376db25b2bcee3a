//! One probe: connect, ask, look at the answer, tell what it showed.
//!
//! The timeout covers everything, from the resolution of a name to the last byte looked at; each probe is one new TCP
//! connection, closed by a reset so that neither side keeps it in TIME_WAIT. Whatever a target sends, a probe reads at
//! most [`READ_MAX`] bytes of it. When probes run, and what follows from them, is not known here. `get` is the same way to a
//! target for those who want its whole answer.

mod failure;
pub(crate) mod get;
mod grpc;
mod http;
mod prepare;
mod resolve;
mod stream;
mod tls;
mod workshop;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use fairway_model::{Cause, ProbeAddress};
use tokio::time::{Instant, timeout_at};

use self::failure::Failure;
pub use self::prepare::{MonitorError, check_monitor};
pub(crate) use self::{prepare::Prepared, workshop::Workshop};
use crate::observer::Family;

/// Most bytes read from one target in one probe, TLS included: 16 KiB of header, 64 KiB of body, a certificate chain,
/// and room for framing.
const READ_MAX: usize = 256 * 1024;

/// What one probe showed, before the observer's own state is weighed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The check passed.
    Pass,
    /// The check failed.
    Fail {
        /// Why.
        cause: Cause,
        /// True if the target was heard at all: a refusal or a status, not a silence.
        reached: bool,
    },
    /// No route: the target's fault only if this machine reaches others.
    Unreachable(Family, Cause),
    /// The observer could not probe.
    Unsure(Cause),
}

impl Finding {
    /// Which of several findings on one target tells: an address that could not be probed might have passed, one
    /// without a route may be of a family this machine does not have.
    const fn doubt(&self) -> u8 {
        match self {
            Self::Pass | Self::Unreachable(..) => 0,
            Self::Fail { .. } => 1,
            Self::Unsure(_) => 2,
        }
    }
}

/// Runs one probe of `work` against `address`.
pub(crate) async fn probe(work: Arc<Prepared>, address: ProbeAddress) -> Finding {
    let timeout = work.timeout();
    let deadline = Instant::now() + timeout;
    match address {
        ProbeAddress::Address(ip) => attempt(&work, SocketAddr::new(ip, work.port()), None, deadline, timeout).await,
        ProbeAddress::Socket(socket) => attempt(&work, socket, None, deadline, timeout).await,
        ProbeAddress::Host(host, port) => Box::pin(any_of(&work, &host, port, deadline)).await,
    }
}

/// Tries the addresses of a host in order; each gets an even part of the time that is left. One pass is a pass.
async fn any_of(work: &Prepared, host: &str, port: u16, deadline: Instant) -> Finding {
    let timeout = work.timeout();
    let addresses = match timeout_at(deadline, resolve::addresses(work.lookups(), host, port)).await {
        Ok(Ok(addresses)) => addresses,
        // A resolver that fails says nothing of the target, and fails for all of them at once.
        Ok(Err(cause)) => return Finding::Unsure(cause),
        Err(_) => return Finding::Unsure(Cause(format!("timeout after {timeout:?} resolving {host}"))),
    };
    let mut worst: Option<Finding> = None;
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / left;
        let finding = attempt(work, *address, Some(host), now + share, share).await;
        if finding == Finding::Pass {
            return finding;
        }
        if worst.as_ref().is_none_or(|worst| finding.doubt() > worst.doubt()) {
            worst = Some(finding);
        }
    }
    worst.unwrap_or_else(|| Finding::Unsure(Cause(format!("{host} has no address"))))
}

/// Probes one address until `deadline`; `timeout` is what a cause says of it.
async fn attempt(
    work: &Prepared,
    address: SocketAddr,
    host: Option<&str>,
    deadline: Instant,
    timeout: Duration,
) -> Finding {
    let mut phase = Phase::Connect;
    let place = Place { address, host };
    match timeout_at(deadline, prepare::run(work, place, &mut phase)).await {
        Ok(Ok(())) => Finding::Pass,
        Ok(Err(Failure::Observer(cause))) => Finding::Unsure(cause),
        Ok(Err(Failure::Target(cause))) => Finding::Fail { cause, reached: true },
        Ok(Err(Failure::Silent(cause))) => Finding::Fail { cause, reached: false },
        Ok(Err(Failure::Unreachable(cause))) => Finding::Unreachable(Family::of(address.ip()), cause),
        Err(_) => Finding::Fail {
            cause: Cause(format!("timeout after {timeout:?} {phase}")),
            reached: phase > Phase::Connect,
        },
    }
}

/// Where a probe goes: an address, and the name it was found by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    address: SocketAddr,
    host: Option<&'a str>,
}

impl Place<'_> {
    /// What a request says of it: host and port, the port left out where it is the scheme's own (RFC 9110, 4.2.3).
    fn authority(&self, default_port: u16) -> String {
        let port = self.address.port();
        match (self.host, port == default_port) {
            (Some(host), true) => host.to_owned(),
            (Some(host), false) => format!("{host}:{port}"),
            (None, true) if self.address.is_ipv6() => format!("[{}]", self.address.ip()),
            (None, true) => self.address.ip().to_string(),
            (None, false) => self.address.to_string(),
        }
    }
}

/// How far a probe came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    /// The TCP handshake.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The request is out, or on its way.
    Response,
    /// The header was fine, the body is looked at.
    Body,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Tls => "in TLS handshake",
            Self::Response => "waiting for the response",
            Self::Body => "reading the body",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
