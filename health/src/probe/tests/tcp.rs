//! Tests of TCP, names, and errors of the system.

use std::{io, time::Duration};

use fairway_model::{Cause, Check, ProbeAddress};
use tokio::io::AsyncReadExt;

use super::servers::*;
use crate::probe::{Failure, ProbeResult};

#[tokio::test]
async fn open_port_passes_and_closed_port_fails() {
    let at = silent().await;
    assert_eq!(run(Check::Tcp { port: at.port() }, at).await, ProbeResult::Pass);
    let at = closed_port();
    assert_eq!(run(Check::Tcp { port: at.port() }, at).await, fails("connection refused"));
}

#[tokio::test]
async fn socket_address_overrides_the_port() {
    let at = silent().await;
    let found = run_at(Check::Tcp { port: 1 }, ProbeAddress::Socket(at), Duration::from_secs(20)).await;
    assert_eq!(found, ProbeResult::Pass);
}

#[tokio::test]
async fn probe_closes_its_connection_by_a_reset() {
    let (seen, mut ends) = tokio::sync::mpsc::channel(1);
    let (at, _) = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            let _ = seen.send(stream.read(&mut [0]).await.map_err(|error| error.kind())).await;
        }
    })
    .await;
    assert_eq!(run(Check::Tcp { port: at.port() }, at).await, ProbeResult::Pass);
    assert_eq!(ends.recv().await, Some(Err(io::ErrorKind::ConnectionReset)));
}

#[tokio::test]
async fn host_passes_if_any_of_its_addresses_does() {
    let at = silent().await;
    let host = ProbeAddress::Host("localhost".to_owned(), at.port());
    assert_eq!(run_at(Check::Tcp { port: 1 }, host, Duration::from_secs(20)).await, ProbeResult::Pass);
    let at = closed_port();
    let host = ProbeAddress::Host("localhost".to_owned(), at.port());
    let found = run_at(Check::Tcp { port: 1 }, host, Duration::from_secs(20)).await;
    assert_eq!(found, fails("connection refused"));
}

#[tokio::test]
async fn unresolved_name_is_inconclusive() {
    let host = ProbeAddress::Host("gateway.invalid".to_owned(), 80);
    let found = run_at(Check::Tcp { port: 1 }, host, Duration::from_secs(2)).await;
    assert!(matches!(&found, ProbeResult::Inconclusive(cause) if cause.0.contains("gateway.invalid")), "{found:?}");
}

#[tokio::test]
async fn always_passes_without_a_connection() {
    let at = closed_port();
    assert_ne!(run(Check::Tcp { port: at.port() }, at).await, ProbeResult::Pass);
    assert_eq!(run(Check::Always, at).await, ProbeResult::Pass);
}

#[test]
fn error_of_the_probe_host_is_not_a_failure_of_the_target() {
    let errors = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOBUFS,
        libc::ENOMEM,
        libc::EADDRNOTAVAIL,
        libc::EADDRINUSE,
        libc::ENETDOWN,
        libc::EPERM,
        libc::EACCES,
        libc::EAFNOSUPPORT,
    ];
    for number in errors {
        let error = io::Error::from_raw_os_error(number);
        assert!(matches!(Failure::of(&error), Failure::ProbeHost(_)), "{error}");
        // At any depth of wrapping.
        let wrapped = io::Error::other(io::Error::other(error));
        assert!(matches!(Failure::of(&wrapped), Failure::ProbeHost(_)), "{wrapped}");
    }
}

#[test]
fn socket_errors_are_classified() {
    let of = |number| Failure::of(&io::Error::from_raw_os_error(number));
    assert_eq!(of(libc::ECONNREFUSED), Failure::target("connection refused"));
    assert_eq!(of(libc::ECONNRESET), Failure::target("connection reset"));
    assert_eq!(of(libc::EPIPE), Failure::target("connection reset"));
    assert_eq!(of(libc::ETIMEDOUT), Failure::Silent(Cause::new("connection timed out")));
    assert_eq!(of(libc::EHOSTUNREACH), Failure::Silent(Cause::new("no route to the host")));
    assert_eq!(of(libc::ENETUNREACH), Failure::Unreachable(Cause::new("network unreachable")));
}

#[test]
fn future_of_a_plain_probe_is_small() {
    let target = fairway_model::Target {
        address: ProbeAddress::Address([192, 0, 2, 1].into()),
        monitor: fairway_model::Monitor::default().into(),
        label: fairway_model::MonitorName::new("m").unwrap(),
    };
    let monitor = crate::probe::PreparedMonitors::new().prepare(std::slice::from_ref(&target)).remove(0);
    // A thousand run at once; those with TLS and gRPC allocate on their own.
    let size = size_of_val(&crate::probe::probe(monitor, target.address, std::sync::Arc::default()));
    assert!(size <= 4_096, "{size} bytes");
}
