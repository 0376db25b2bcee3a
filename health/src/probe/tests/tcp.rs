//! TCP, names, and what errors of the system mean.

use std::{io, time::Duration};

use fairway_model::{Cause, Check, ProbeAddress};
use tokio::io::AsyncReadExt;

use super::servers::*;
use crate::probe::{Failure, Finding};

#[tokio::test]
async fn an_open_port_passes_and_a_closed_one_refuses() {
    let at = silent().await;
    assert_eq!(run(Check::Tcp { port: at.port() }, at).await, Finding::Pass);
    let at = deaf().await;
    assert_eq!(run(Check::Tcp { port: at.port() }, at).await, fails("connection refused"));
}

#[tokio::test]
async fn a_socket_address_has_a_port_of_its_own() {
    let at = silent().await;
    let found = run_at(Check::Tcp { port: 1 }, ProbeAddress::Socket(at), Duration::from_secs(20)).await;
    assert_eq!(found, Finding::Pass);
}

#[tokio::test]
async fn a_probe_leaves_no_connection_behind() {
    let (seen, mut ends) = tokio::sync::mpsc::channel(1);
    let (at, _) = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            let _ = seen.send(stream.read(&mut [0]).await.map_err(|error| error.kind())).await;
        }
    })
    .await;
    assert_eq!(run(Check::Tcp { port: at.port() }, at).await, Finding::Pass);
    assert_eq!(ends.recv().await, Some(Err(io::ErrorKind::ConnectionReset)));
}

#[tokio::test]
async fn a_host_is_resolved_and_any_address_of_it_may_pass() {
    let at = silent().await;
    let host = ProbeAddress::Host("localhost".to_owned(), at.port());
    assert_eq!(run_at(Check::Tcp { port: 1 }, host, Duration::from_secs(20)).await, Finding::Pass);
    let at = deaf().await;
    let host = ProbeAddress::Host("localhost".to_owned(), at.port());
    let found = run_at(Check::Tcp { port: 1 }, host, Duration::from_secs(20)).await;
    assert_eq!(found, fails("connection refused"));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_no_evidence() {
    let host = ProbeAddress::Host("gateway.invalid".to_owned(), 80);
    let found = run_at(Check::Tcp { port: 1 }, host, Duration::from_secs(2)).await;
    assert!(matches!(&found, Finding::Unsure(cause) if cause.0.contains("gateway.invalid")), "{found:?}");
}

#[tokio::test]
async fn always_passes_without_a_connection() {
    let at = deaf().await;
    let probed = Finding::Pass;
    assert_ne!(run(Check::Tcp { port: at.port() }, at).await, probed);
    assert_eq!(run(Check::Always, at).await, probed);
}

#[test]
fn what_this_machine_lacks_is_not_the_targets_fault() {
    let own = [
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
    for number in own {
        let error = io::Error::from_raw_os_error(number);
        assert!(matches!(Failure::of(&error), Failure::Observer(_)), "{error}");
        // However deep it is wrapped.
        let wrapped = io::Error::other(io::Error::other(error));
        assert!(matches!(Failure::of(&wrapped), Failure::Observer(_)), "{wrapped}");
    }
}

#[test]
fn silence_refusal_and_missing_routes_are_told_apart() {
    let of = |number| Failure::of(&io::Error::from_raw_os_error(number));
    assert_eq!(of(libc::ECONNREFUSED), Failure::target("connection refused"));
    assert_eq!(of(libc::ECONNRESET), Failure::target("connection reset"));
    assert_eq!(of(libc::EPIPE), Failure::target("connection reset"));
    assert_eq!(of(libc::ETIMEDOUT), Failure::Silent(Cause::new("connection timed out")));
    assert_eq!(of(libc::EHOSTUNREACH), Failure::Silent(Cause::new("no route to the host")));
    assert_eq!(of(libc::ENETUNREACH), Failure::Unreachable(Cause::new("network unreachable")));
}

#[test]
fn a_plain_probe_is_small() {
    let target = fairway_model::Target {
        address: ProbeAddress::Address([192, 0, 2, 1].into()),
        monitor: fairway_model::Monitor::default().into(),
        label: fairway_model::MonitorName::new("m").unwrap(),
    };
    let work = crate::probe::Workshop::new().prepare(std::slice::from_ref(&target)).remove(0);
    // A thousand run at once; those over TLS and gRPC pay for themselves.
    let size = size_of_val(&crate::probe::probe(work, target.address));
    assert!(size <= 4_096, "{size} bytes");
}
