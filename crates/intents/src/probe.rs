//! How the members of an intent are probed: as it says, and else as protocol, TLS and the mesh's own settings hint.

use std::time::Duration;

use fairway_model::{
    Check, HttpCheck, Monitor, Name, StatusSet, TlsCheck,
    intent::{Compound, Inbound, ProbeHint, ProbeKind, Protocol, TlsMode},
};

/// The monitor of an inbound intent; none, where nothing is known to probe: then the zone's holds.
pub(super) fn of_inbound(inbound: &Inbound) -> Option<Monitor> {
    let probe = &inbound.gslb.probe;
    let port = probe.port.or(inbound.port);
    let kind = probe.kind.or_else(|| kind(inbound, probe))?;
    let check = check(kind, port, probe.path.as_deref(), &inbound.external_name)?;
    let traffic = &inbound.traffic;
    let mut monitor = timed(check, probe, traffic.sweep_interval);
    let hinted = traffic.consecutive_errors.map(|errors| u8::try_from(errors).unwrap_or(u8::MAX));
    monitor.fall = probe.fall.or(hinted).unwrap_or(monitor.fall);
    if let (None, Some(held)) = (probe.rise, traffic.base_ejection_time) {
        // Held down for that long: as many passes in a row as fit into it.
        let passes = held.as_millis().div_ceil(monitor.period.as_millis().max(1));
        monitor.rise = u8::try_from(passes).unwrap_or(u8::MAX).max(monitor.rise);
    }
    Some(monitor)
}

/// The monitor of a compound: what it says itself, over that of its first child.
pub(super) fn of_compound(compound: &Compound, child: Option<Monitor>) -> Option<Monitor> {
    let probe = &compound.gslb.probe;
    let own = probe.kind.or_else(|| probe.path.as_ref().map(|_| ProbeKind::Http));
    let port = probe.port.or_else(|| child.as_ref().and_then(|monitor| monitor.check.port()));
    let own = own.and_then(|kind| check(kind, port, probe.path.as_deref(), &compound.external_name));
    let monitor = match (own, child) {
        (Some(check), None) => Monitor::new(check),
        (Some(check), Some(child)) => Monitor { check, ..child },
        (None, child) => child?,
    };
    let timed = timed(monitor.check.clone(), probe, Some(monitor.period));
    Some(Monitor { rise: probe.rise.unwrap_or(monitor.rise), fall: probe.fall.unwrap_or(monitor.fall), ..timed })
}

/// What a probe does, where that is not said.
fn kind(inbound: &Inbound, probe: &ProbeHint) -> Option<ProbeKind> {
    // A path at a port of its own is the gateway's health page, in clear.
    if probe.path.is_some() && probe.port.is_some_and(|port| port != 443 && Some(port) != inbound.port) {
        return Some(ProbeKind::Http);
    }
    let mutual = matches!(inbound.tls_mode, TlsMode::Mutual | TlsMode::IstioMutual);
    match inbound.protocol {
        // Nothing of UDP tells whether it is served.
        Some(Protocol::Udp) => probe.port.map(|_| ProbeKind::Tcp),
        // The gateway wants a certificate that a probe does not show.
        _ if mutual => Some(ProbeKind::Tcp),
        Some(Protocol::Http) => Some(ProbeKind::Http),
        Some(Protocol::Https) => Some(ProbeKind::Https),
        // An HTTP/1.1 request says nothing there.
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
            // Without a path that was meant for it, whatever the application says is a sign of life, but for its own failing.
            status: if path.is_some() { StatusSet::default() } else { "200-499".parse().unwrap_or_default() },
            body: None,
            response_header: None,
            // Whether it serves is asked here, not who it is: its certificate may come from any authority.
            tls: https.then(|| TlsCheck { server_name: host(external_name), verify: false, ..TlsCheck::default() }),
        })),
    }
}

/// The name that the gateway routes by, where there is one.
fn host(external_name: &str) -> Option<String> {
    let name = external_name.trim_end_matches('.');
    let routed = name.contains('.') && name.parse::<std::net::IpAddr>().is_err();
    routed.then(|| name.parse::<Name>().ok()).flatten().filter(|name| !name.is_wildcard()).map(|_| name.to_owned())
}

fn timed(check: Check, probe: &ProbeHint, hinted: Option<Duration>) -> Monitor {
    let default = Monitor::new(check);
    let period = probe.period.or(hinted).unwrap_or(default.period).max(Monitor::PERIOD_MIN);
    Monitor {
        period,
        timeout: probe.timeout.unwrap_or(default.timeout).min(period),
        rise: probe.rise.unwrap_or(default.rise),
        ..default
    }
}
