//! Tests of monitors that are invalid, and of prepared monitors.

use std::{sync::Arc, time::Duration};

use fairway_model::{Check, GrpcCheck, HttpCheck, Monitor, MonitorName, ProbeAddress, Secret, Target, TlsCheck};

use super::{authority::Authority, servers::http};
use crate::{MonitorError, check_monitor, probe::PreparedMonitors};

fn plain() -> HttpCheck {
    http("127.0.0.1:80".parse().unwrap())
}

fn http_error(change: impl FnOnce(&mut HttpCheck)) -> Option<String> {
    let mut check = plain();
    change(&mut check);
    check_monitor(&Monitor::new(Check::Http(check))).err().map(|error| error.to_string())
}

fn tls_error(tls: TlsCheck) -> Option<MonitorError> {
    let over_http = check_monitor(&Monitor::new(Check::Http(HttpCheck { tls: Some(tls.clone()), ..plain() })));
    let over_grpc = GrpcCheck { port: 1, service: String::new(), tls: Some(tls) };
    assert_eq!(over_http, check_monitor(&Monitor::new(Check::Grpc(over_grpc))));
    over_http.err()
}

#[test]
fn usual_monitors_are_valid() {
    assert_eq!(http_error(|_| {}), None);
    assert_eq!(check_monitor(&Monitor::default()), Ok(()));
    assert_eq!(check_monitor(&Monitor::new(Check::Always)), Ok(()));
    assert_eq!(tls_error(TlsCheck::default()), None);
}

#[test]
fn invalid_request_is_rejected_with_its_reason() {
    let expect = |found: Option<String>, text: &str| {
        let found = found.unwrap_or_else(|| panic!("{text:?} was expected"));
        assert!(found.contains(text), "{found:?} lacks {text:?}");
    };
    expect(http_error(|check| check.path = "healthz".to_owned()), "path \"healthz\" is not a request target");
    expect(http_error(|check| check.path = String::new()), "path \"\"");
    expect(http_error(|check| check.path = "/a b".to_owned()), "path \"/a b\"");
    expect(http_error(|check| check.path = "/a#b".to_owned()), "path \"/a#b\"");
    expect(http_error(|check| check.path = "/a\r\nx: y".to_owned()), "path");
    expect(http_error(|check| check.method = "POST".to_owned()), "write GET or HEAD");
    expect(http_error(|check| check.host = Some("a b".to_owned())), "host \"a b\" is not a host name");
    expect(http_error(|check| check.host = Some("me@shop.example".to_owned())), "is not a host name");
    expect(http_error(|check| check.headers.push(("a:".to_owned(), Secret::new("")))), "header \"a:\" cannot be sent");
    expect(
        http_error(|check| check.headers.push(("a".to_owned(), Secret::new("x\r\ny")))),
        "header \"a\" cannot be sent",
    );
    let framing = |check: &mut HttpCheck| check.headers.push(("Content-Length".to_owned(), Secret::new("5")));
    expect(http_error(framing), "header \"Content-Length\" is set by the probe");
    expect(http_error(|check| check.response_header = Some(("ä".to_owned(), None))), "header \"ä\"");
    let head = |check: &mut HttpCheck| (check.method, check.body) = ("HEAD".to_owned(), Some("ok".to_owned()));
    expect(http_error(head), "a response to HEAD has no body");
    expect(http_error(|check| check.port = 0), "port is 0");
}

#[test]
fn invalid_times_and_counts_are_rejected() {
    let with = |change: fn(&mut Monitor)| {
        let mut monitor = Monitor::default();
        change(&mut monitor);
        check_monitor(&monitor).unwrap_err()
    };
    assert_eq!(with(|monitor| monitor.rise = 0), MonitorError::Count("rise"));
    assert_eq!(with(|monitor| monitor.fall = 0), MonitorError::Count("fall"));
    assert_eq!(
        with(|monitor| monitor.period = Duration::from_millis(49)).to_string(),
        "period 49ms is too short; give at least 50ms"
    );
    assert!(matches!(with(|monitor| monitor.timeout = Duration::ZERO), MonitorError::Timeout { .. }));
    assert!(matches!(with(|monitor| monitor.timeout = monitor.period * 2), MonitorError::Timeout { .. }));
}

#[test]
fn invalid_certificates_keys_and_names_are_rejected() {
    let own = Authority::new();
    let (certificate, key) = own.certify("a.example");
    let (_, other_key) = own.certify("b.example");
    let none = Secret::new("none");
    let tls = TlsCheck::default();
    let client = |chain: &Secret, key: &Secret| {
        tls_error(TlsCheck { client: Some((chain.clone(), key.clone())), ..TlsCheck::default() })
    };
    assert_eq!(client(&certificate, &key), None);
    assert!(matches!(client(&certificate, &none), Some(MonitorError::ClientKey(_))));
    assert!(matches!(client(&none, &key), Some(MonitorError::ClientCertificate(_))));
    assert!(matches!(client(&certificate, &other_key), Some(MonitorError::ClientKey(_))));
    assert_eq!(tls_error(TlsCheck { ca: Some(own.pem()), ..tls.clone() }), None);
    let no_ca = TlsCheck { ca: Some(none), ..tls.clone() };
    assert!(matches!(tls_error(no_ca.clone()), Some(MonitorError::Ca(_))));
    assert!(matches!(tls_error(TlsCheck { verify: false, ..no_ca }), Some(MonitorError::Ca(_))));
    let named = |name: &str| tls_error(TlsCheck { server_name: Some(name.to_owned()), ..TlsCheck::default() });
    assert_eq!(named("gateway.example"), None);
    assert_eq!(named("192.0.2.1"), None);
    assert_eq!(named("a b"), Some(MonitorError::ServerName("a b".to_owned())));
}

#[test]
fn errors_do_not_contain_a_key() {
    let own = Authority::new();
    let (certificate, _) = own.certify("a.example");
    let broken = "-----BEGIN PRIVATE KEY-----\nVERYSECRET\n-----END PRIVATE KEY-----\n";
    let client = Some((certificate, Secret::new(broken)));
    let error = tls_error(TlsCheck { client, ..TlsCheck::default() }).unwrap();
    assert!(!format!("{error} {error:?}").contains("VERYSECRET"));
}

#[test]
fn equal_monitors_share_one_preparation_across_changes() {
    let target = |port: u16| Target {
        address: ProbeAddress::Address([192, 0, 2, 1].into()),
        monitor: Arc::new(Monitor::new(Check::Tcp { port })),
        label: MonitorName::new("m").unwrap(),
    };
    let mut monitors = PreparedMonitors::new();
    let before = monitors.prepare(&[target(80), target(80), target(81)]);
    assert!(Arc::ptr_eq(&before[0], &before[1]) && !Arc::ptr_eq(&before[0], &before[2]));
    let after = monitors.prepare(&[target(80)]);
    assert!(Arc::ptr_eq(&before[0], &after[0]));
    assert!(monitors.find(&target(81).monitor).is_none(), "unused monitors are dropped");
}
