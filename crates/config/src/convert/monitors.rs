//! Monitors, and references to secrets.

use std::{
    fmt::{Arguments, Display},
    sync::Arc,
    time::Duration,
};

use fairway_health::{MonitorError, check_monitor};
use fairway_model::{Check, GrpcCheck, HttpCheck, Monitor, MonitorName, Secret, TlsCheck};

use super::{Converter, KeysByType};
use crate::{
    bounds_wire::Plain,
    tree::quoted,
    v1::{self, Method, MonitorType},
    values_wire::Reference,
    words::Words,
};

/// Keys that are allowed for some types only.
const OWN: &KeysByType<MonitorType> = &[
    (MonitorType::Always, &[]),
    (MonitorType::Tcp, &["port"]),
    (MonitorType::Http, &["port", "path", "method", "host", "headers", "status", "body", "responseHeader"]),
    (MonitorType::Https, &["port", "path", "method", "host", "headers", "status", "body", "responseHeader", "tls"]),
    (MonitorType::Grpc, &["port", "service", "tls"]),
];

/// Converts a monitor.
pub(super) fn monitor(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    mut wire: v1::Monitor,
) -> (MonitorName, Arc<Monitor>) {
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
    converter.reject_foreign_keys(pointer, OWN, &wire.kind.0, &given);
    let default = Monitor::new(Check::Always);
    let bounds = Monitor::PERIOD_MIN..=Duration::from_secs(86_400);
    let period = converter.bounded(format_args!("{pointer}/period"), wire.period, bounds, default.period);
    let monitor = Monitor {
        check: check(converter, pointer, &mut wire),
        period,
        timeout: wire.timeout.plain().unwrap_or_else(|| default.timeout.min(period)),
        rise: wire.rise.plain().unwrap_or(default.rise),
        fall: wire.fall.plain().unwrap_or(default.fall),
    };
    // Times and counts are left to the rules across objects, which report all their errors together.
    if let Err(error) = check_monitor(&monitor)
        && let Some(key) = key_of(&error)
    {
        converter.reject(format_args!("{pointer}{key}"), error.to_string());
    }
    (wire.name.0, Arc::new(monitor))
}

fn check(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: &mut v1::Monitor) -> Check {
    let tls = wire.tls.take().map(|wire| tls(converter, format_args!("{pointer}/tls"), wire));
    let port = wire.port.plain();
    match wire.kind.0 {
        MonitorType::Always => Check::Always,
        MonitorType::Grpc => {
            if port.is_none() {
                converter.error(pointer, "type grpc has no default port", "add port");
            }
            Check::Grpc(GrpcCheck { port: port.unwrap_or(1), service: wire.service.take().unwrap_or_default(), tls })
        }
        MonitorType::Http => Check::Http(http(converter, pointer, wire, port.unwrap_or(80), None)),
        MonitorType::Https => {
            Check::Http(http(converter, pointer, wire, port.unwrap_or(443), Some(tls.unwrap_or_default())))
        }
        MonitorType::Tcp => Check::Tcp { port: port.unwrap_or(443) },
    }
}

fn http(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    wire: &mut v1::Monitor,
    port: u16,
    tls: Option<TlsCheck>,
) -> HttpCheck {
    let headers = wire.headers.take().unwrap_or_default();
    if let Some(name) = headers.keys().find(|name| name.eq_ignore_ascii_case("host")) {
        let what = "the Host header has its own key";
        converter.error(format_args!("{pointer}/headers/{name}"), what, "write it as host");
    }
    HttpCheck {
        port,
        path: wire.path.take().unwrap_or_else(|| "/".to_owned()),
        method: wire.method.plain().unwrap_or(Method::Get).word().to_owned(),
        host: wire.host.take().plain(),
        headers: headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect(),
        status: wire.status.take().map(|wire| wire.set()).unwrap_or_default(),
        body: wire.body.take().plain(),
        response_header: wire.response_header.take().map(|wire| (wire.name.0, wire.contains.plain())),
        tls,
    }
}

/// Converts the TLS settings of a probe or a load source.
pub(super) fn tls(converter: &mut Converter<'_, '_>, pointer: Arguments<'_>, wire: v1::Tls) -> TlsCheck {
    if wire.cert.is_some() != wire.key.is_some() {
        let missing = if wire.cert.is_some() { "key" } else { "cert" };
        let hint = format!("add {missing}, or remove the other one");
        converter.error(pointer, "cert and key must be given together", hint);
    }
    if wire.verify == Some(false) {
        if wire.ca.is_some() {
            converter.error(format_args!("{pointer}/ca"), "ca has no effect if verify is false", "remove one of them");
        } else {
            let what = "the gateway's certificate is not verified, so anyone can impersonate it";
            converter.warn(format_args!("{pointer}/verify"), what, "give its ca, and remove verify");
        }
    }
    let mut read =
        |key: &str, wire: &Option<Reference>| secret(converter, format_args!("{pointer}/{key}"), wire.as_ref()?);
    let (ca, cert, key) = (read("ca", &wire.ca), read("cert", &wire.cert), read("key", &wire.key));
    TlsCheck { server_name: wire.server_name.plain(), ca, client: cert.zip(key), verify: wire.verify.unwrap_or(true) }
}

/// Returns the secret of a reference; `None` after reporting an error. Errors never show the secret.
pub(super) fn secret(converter: &mut Converter<'_, '_>, pointer: impl Display, wire: &Reference) -> Option<Secret> {
    match wire {
        Reference::Env(name) => {
            let found = converter.context.variable(name);
            if found.is_none() {
                let what = format!("the environment variable {} is not set or empty", quoted(name));
                converter.error(format_args!("{pointer}/env"), what, "set it in the environment of fairway");
            }
            found.map(Secret::new)
        }
        Reference::File(file) => {
            let pointer = format!("{pointer}/file");
            let path = converter.path(&pointer, file);
            let read = converter.context.secret(&path);
            read.map_err(|why| converter.reject(&pointer, why.about(&path))).ok()
        }
    }
}

/// Returns the secret of an optional reference; `None` after reporting an error.
pub(super) fn secret_if_given(
    converter: &mut Converter<'_, '_>,
    pointer: impl Display,
    wire: Option<&Reference>,
) -> Option<Option<Secret>> {
    match wire {
        Some(wire) => secret(converter, pointer, wire).map(Some),
        None => Some(None),
    }
}

/// Returns the key, as a pointer in the object, that an error is about; `None` for times and counts.
pub(super) fn key_of(error: &MonitorError) -> Option<&'static str> {
    Some(match error {
        MonitorError::Count(_) | MonitorError::Period(_) | MonitorError::Timeout { .. } => return None,
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
    })
}
