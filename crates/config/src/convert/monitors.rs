//! Monitors, and references to secrets.

use std::{sync::Arc, time::Duration};

use fairway_health::{MonitorError, check_monitor};
use fairway_model::{
    Check, GrpcCheck, HttpCheck, Monitor, MonitorName, Secret, SharedMap, StatusSet, Subject, TlsCheck,
};

use super::{Converter, KeysByType};
use crate::{
    bounds_wire::{Int, Text},
    tree::quoted,
    v1::{self, Method, MonitorType},
    values_wire::{As, Reference, Statuses},
};

/// Keys that are allowed for some types only.
const OWN: &KeysByType<MonitorType> = &[
    (MonitorType::Always, "always", &[]),
    (MonitorType::Tcp, "tcp", &["port"]),
    (MonitorType::Http, "http", &["port", "path", "method", "host", "headers", "status", "body", "responseHeader"]),
    (
        MonitorType::Https,
        "https",
        &["port", "path", "method", "host", "headers", "status", "body", "responseHeader", "tls"],
    ),
    (MonitorType::Grpc, "grpc", &["port", "service", "tls"]),
];

/// Returns the monitors by name.
pub(super) fn monitors(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1::Monitor>,
) -> SharedMap<MonitorName, Arc<Monitor>> {
    let mut monitors = SharedMap::new();
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format!("/monitors/{index}");
        let As(name) = wire.name.clone();
        reject_foreign_keys(converter, &pointer, &wire);
        let monitor = monitor(converter, &pointer, wire);
        if converter.declare(Subject::Monitor(name.clone()), index) {
            monitors.insert(name, Arc::new(monitor));
        }
    }
    monitors
}

/// Rejects keys of other types.
fn reject_foreign_keys(converter: &mut Converter<'_, '_>, pointer: &str, wire: &v1::Monitor) {
    let given = [
        ("body", wire.body.is_some()),
        ("headers", wire.headers.is_some()),
        ("host", wire.host.is_some()),
        ("method", wire.method.is_some()),
        ("path", wire.path.is_some()),
        ("port", wire.port.is_some()),
        ("responseHeader", wire.response_header.is_some()),
        ("service", wire.service.is_some()),
        ("status", wire.status.is_some()),
        ("tls", wire.tls.is_some()),
    ];
    converter.reject_foreign_keys(pointer, OWN, wire.kind, &given);
}

fn monitor(converter: &mut Converter<'_, '_>, pointer: &str, mut wire: v1::Monitor) -> Monitor {
    let count = |given: Option<Int<u8, 1, 255>>, default| given.map_or(default, |Int(count)| count);
    let (rise, fall) = (wire.rise, wire.fall);
    let bounds = Monitor::PERIOD_MIN..=Duration::from_secs(86_400);
    let default = Monitor::new(Check::Always);
    let period = converter.bounded(&format!("{pointer}/period"), wire.period.as_ref(), &bounds, default.period);
    let timeout = wire.timeout.as_ref().map_or_else(|| default.timeout.min(period), |As(timeout)| *timeout);
    let check = check(converter, pointer, &mut wire);
    let monitor = Monitor { check, period, timeout, rise: count(rise, default.rise), fall: count(fall, default.fall) };
    reject_unusable(converter, pointer, &monitor);
    monitor
}

fn check(converter: &mut Converter<'_, '_>, pointer: &str, wire: &mut v1::Monitor) -> Check {
    let tls = wire.tls.take().map(|wire| tls(converter, &format!("{pointer}/tls"), wire));
    match wire.kind {
        MonitorType::Always => Check::Always,
        MonitorType::Grpc => {
            let port = wire.port.map(|Int(port)| port).unwrap_or_else(|| {
                let what = "type grpc has no default port";
                converter.error(pointer, what, "add port");
                1
            });
            Check::Grpc(GrpcCheck { port, service: wire.service.take().unwrap_or_default(), tls })
        }
        MonitorType::Http => Check::Http(http(converter, pointer, wire, 80, None)),
        MonitorType::Https => Check::Http(http(converter, pointer, wire, 443, Some(tls.unwrap_or_default()))),
        MonitorType::Tcp => Check::Tcp { port: wire.port.map_or(443, |Int(port)| port) },
    }
}

fn http(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    wire: &mut v1::Monitor,
    port: u16,
    tls: Option<TlsCheck>,
) -> HttpCheck {
    let headers = wire.headers.take().unwrap_or_default();
    if let Some(name) = headers.keys().find(|name| name.eq_ignore_ascii_case("host")) {
        converter.error(
            format_args!("{pointer}/headers/{name}"),
            "the Host header has its own key",
            "write it as host",
        );
    }
    HttpCheck {
        port: wire.port.map_or(port, |Int(port)| port),
        path: wire.path.take().unwrap_or_else(|| "/".to_owned()),
        method: match wire.method {
            None | Some(Method::Get) => "GET".to_owned(),
            Some(Method::Head) => "HEAD".to_owned(),
        },
        host: wire.host.take().map(|Text(host)| host),
        headers: headers.into_iter().collect(),
        status: wire.status.take().map(|wire| statuses(converter, pointer, &wire)).unwrap_or_default(),
        body: wire.body.take().map(|Text(body)| body),
        response_header: wire.response_header.take().map(|wire| (wire.name.0, wire.contains.map(|Text(text)| text))),
        tls,
    }
}

fn statuses(converter: &mut Converter<'_, '_>, pointer: &str, wire: &Statuses) -> StatusSet {
    wire.text().parse().unwrap_or_else(|diagnostic: String| {
        let (what, hint) = diagnostic.split_once("; ").unwrap_or((&diagnostic, ""));
        converter.error(format_args!("{pointer}/status"), what, hint);
        StatusSet::default()
    })
}

pub(super) fn tls(converter: &mut Converter<'_, '_>, pointer: &str, wire: v1::Tls) -> TlsCheck {
    if wire.cert.is_some() != wire.key.is_some() {
        let missing = if wire.cert.is_some() { "key" } else { "cert" };
        converter.error(
            pointer,
            "cert and key must be given together",
            format!("add {missing}, or remove the other one"),
        );
    }
    if wire.verify == Some(false) {
        if wire.ca.is_some() {
            converter.error(format_args!("{pointer}/ca"), "ca has no effect if verify is false", "remove one of them");
        } else {
            let what = "the gateway's certificate is not verified, so anyone can impersonate it";
            converter.warn(format_args!("{pointer}/verify"), what, "give its ca, and remove verify");
        }
    }
    let ca = wire.ca.and_then(|wire| secret(converter, &format!("{pointer}/ca"), &wire));
    let cert = wire.cert.and_then(|wire| secret(converter, &format!("{pointer}/cert"), &wire));
    let key = wire.key.and_then(|wire| secret(converter, &format!("{pointer}/key"), &wire));
    TlsCheck {
        server_name: wire.server_name.map(|Text(name)| name),
        ca,
        client: cert.zip(key),
        verify: wire.verify.unwrap_or(true),
    }
}

/// Returns the secret of a reference; `None` after reporting an error. Errors never show the secret.
pub(super) fn secret(converter: &mut Converter<'_, '_>, pointer: &str, wire: &Reference) -> Option<Secret> {
    let file = match wire {
        Reference::Env(Text(name)) => return secret_variable(converter, pointer, name),
        Reference::File(Text(file)) => file,
    };
    let pointer = format!("{pointer}/file");
    let path = converter.path(&pointer, file);
    match converter.context.secret(&path) {
        Ok(secret) => Some(secret),
        Err(why) => {
            converter.error(&pointer, format!("{} {}", path.display(), why.what), why.hint);
            None
        }
    }
}

fn secret_variable(converter: &mut Converter<'_, '_>, pointer: &str, name: &str) -> Option<Secret> {
    let found = converter.context.variable(name);
    if found.is_none() {
        let what = format!("the environment variable {} is not set or empty", quoted(name));
        converter.error(format_args!("{pointer}/env"), what, "set it in the environment of fairway");
    }
    found.map(Secret::new)
}

/// Rejects a monitor that could not run: invalid headers, names, certificates and keys. Times and counts are left to
/// the rules across objects, which report all their errors together.
fn reject_unusable(converter: &mut Converter<'_, '_>, pointer: &str, monitor: &Monitor) {
    let Err(error) = check_monitor(monitor) else { return };
    let key = match &error {
        MonitorError::Count(_) | MonitorError::Period(_) | MonitorError::Timeout { .. } => return,
        MonitorError::Ca(_) => "/tls/ca",
        MonitorError::ClientCertificate(_) => "/tls/cert",
        MonitorError::ClientKey(_) => "/tls/key",
        MonitorError::Framing(_) | MonitorError::Header(_) => "/headers",
        MonitorError::Host(_) => "/host",
        MonitorError::HeadBody => "/body",
        MonitorError::Method(_) => "/method",
        MonitorError::Path(_) => "/path",
        MonitorError::Port => "/port",
        MonitorError::ServerName(_) => "/tls/serverName",
        _ => "/tls",
    };
    let text = error.to_string();
    let (what, hint) = text.split_once("; ").unwrap_or((&text, ""));
    converter.error(format_args!("{pointer}{key}"), what, hint);
}
