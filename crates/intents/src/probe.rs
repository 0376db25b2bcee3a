//! Derives the monitor of an intent: from its probe settings, or else from protocol, TLS and the settings of the mesh.

use std::time::Duration;

use fairway_model::{
    Check, HttpCheck, Monitor, Name, StatusSet, TlsCheck,
    intent::{Compound, Inbound, ProbeHint, ProbeKind, Protocol, TlsMode},
};

/// The monitor of an intent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IntentMonitor {
    pub(super) monitor: Monitor,
    /// True if the intent does not say how it is probed: its port is that of the service in the mesh, and the monitors of the platform's
    /// team come first.
    pub(super) is_fallback: bool,
}

/// Returns true if an intent says what to probe.
const fn is_explicit(probe: &ProbeHint) -> bool {
    probe.kind.is_some() || probe.port.is_some() || probe.path.is_some()
}

/// Returns the monitor of an inbound intent; `None` if there is nothing to probe.
pub(super) fn of_inbound(inbound: &Inbound) -> Option<IntentMonitor> {
    let probe = &inbound.gslb.probe;
    let port = probe.port.or(inbound.port);
    let kind = probe.kind.or_else(|| kind(inbound, probe))?;
    let check = check(kind, port, probe.path.as_deref(), &inbound.external_name)?;
    let traffic = &inbound.traffic;
    let mut monitor = timed(check, probe, traffic.sweep_interval);
    let from_mesh = traffic.consecutive_errors.map(|errors| u8::try_from(errors).unwrap_or(u8::MAX));
    monitor.fall = probe.fall.or(from_mesh).unwrap_or(monitor.fall);
    if let (None, Some(ejected)) = (probe.rise, traffic.base_ejection_time) {
        // The mesh ejects an instance for this time: as many passes in a row as fit into it.
        let passes = ejected.as_millis().div_ceil(monitor.period.as_millis().max(1));
        monitor.rise = u8::try_from(passes).unwrap_or(u8::MAX).max(monitor.rise);
    }
    Some(IntentMonitor { monitor, is_fallback: !is_explicit(probe) })
}

/// Returns the monitor of a compound: its own settings, or else those of its first child.
pub(super) fn of_compound(compound: &Compound, child: Option<IntentMonitor>) -> Option<IntentMonitor> {
    let probe = &compound.gslb.probe;
    let is_fallback = !is_explicit(probe) && child.as_ref().is_none_or(|child| child.is_fallback);
    let child = child.map(|child| child.monitor);
    let own = probe.kind.or_else(|| probe.path.as_ref().map(|_| ProbeKind::Http));
    let port = probe.port.or_else(|| child.as_ref().and_then(|monitor| monitor.check.port()));
    let own = own.and_then(|kind| check(kind, port, probe.path.as_deref(), &compound.external_name));
    let monitor = match (own, child) {
        (Some(check), None) => Monitor::new(check),
        (Some(check), Some(child)) => Monitor { check, ..child },
        (None, child) => child?,
    };
    let timed = timed(monitor.check.clone(), probe, Some(monitor.period));
    let (rise, fall) = (probe.rise.unwrap_or(monitor.rise), probe.fall.unwrap_or(monitor.fall));
    Some(IntentMonitor { monitor: Monitor { rise, fall, ..timed }, is_fallback })
}

/// Returns the kind of probe for an intent that does not state one.
fn kind(inbound: &Inbound, probe: &ProbeHint) -> Option<ProbeKind> {
    // A path on a port of its own is the health page of the gateway, without TLS.
    if probe.path.is_some() && probe.port.is_some_and(|port| port != 443 && Some(port) != inbound.port) {
        return Some(ProbeKind::Http);
    }
    let mutual = matches!(inbound.tls_mode, TlsMode::Mutual | TlsMode::IstioMutual);
    match inbound.protocol {
        // A UDP probe without a known protocol gets no response.
        Some(Protocol::Udp) => probe.port.map(|_| ProbeKind::Tcp),
        // The gateway requires a client certificate, which probes do not have.
        _ if mutual => Some(ProbeKind::Tcp),
        Some(Protocol::Http) => Some(ProbeKind::Http),
        Some(Protocol::Https) => Some(ProbeKind::Https),
        // An HTTP/1.1 request is no test of these protocols.
        Some(Protocol::Grpc | Protocol::Http2 | Protocol::Tcp) | None => {
            probe.port.or(inbound.port).map(|_| ProbeKind::Tcp)
        }
    }
}

fn check(kind: ProbeKind, port: Option<u16>, path: Option<&str>, external_name: &str) -> Option<Check> {
    let https = kind == ProbeKind::Https;
    match kind {
        ProbeKind::Grpc => {
            Some(Check::Grpc(fairway_model::GrpcCheck { port: port?, service: String::new(), tls: None }))
        }
        ProbeKind::Tcp => Some(Check::Tcp { port: port.unwrap_or(443) }),
        ProbeKind::Http | ProbeKind::Https => Some(Check::Http(HttpCheck {
            port: port.unwrap_or(if https { 443 } else { 80 }),
            path: path.unwrap_or("/").to_owned(),
            method: "GET".to_owned(),
            host: host(external_name),
            headers: Vec::new(),
            // Without a path for probes, every response but a server error shows that the application runs.
            status: if path.is_some() { StatusSet::default() } else { "200-499".parse().unwrap_or_default() },
            body: None,
            response_header: None,
            // The probe tests availability, not identity: the certificate may come from any authority.
            tls: https.then(|| TlsCheck { server_name: host(external_name), verify: false, ..TlsCheck::default() }),
        })),
    }
}

/// Returns the name that the gateway routes by, if there is one.
fn host(external_name: &str) -> Option<String> {
    let name = external_name.trim_end_matches('.');
    let routed = name.contains('.') && name.parse::<std::net::IpAddr>().is_err();
    routed.then(|| name.parse::<Name>().ok()).flatten().filter(|name| !name.is_wildcard()).map(|_| name.to_owned())
}

fn timed(check: Check, probe: &ProbeHint, hinted: Option<Duration>) -> Monitor {
    let default = Monitor::new(check);
    let hinted = hinted.map(|hinted| hinted.max(*crate::gslb::PERIODS.start()));
    let period = probe.period.or(hinted).unwrap_or(default.period);
    Monitor {
        period,
        timeout: probe.timeout.unwrap_or(default.timeout).min(period),
        rise: probe.rise.unwrap_or(default.rise),
        ..default
    }
}
