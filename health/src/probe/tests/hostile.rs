//! Hostile targets of https and gRPC probes: each probe ends in time, reads little, and reports the cause.
//!
//! Bytes are counted when a target writes them. Kernel buffers hold what a probe does not read, so [`WRITTEN_MAX`] is larger
//! than the limit of the probe.

mod grpc;
mod tls;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use fairway_model::{Check, HealthStatus, Monitor, MonitorName, ProbeAddress, Target};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
    time::Instant,
};
use tokio_rustls::TlsAcceptor;

use super::{
    authority::{Authority, https},
    servers::*,
};
use crate::{
    Checker, TargetState,
    probe::{ProbeResult, READ_MAX},
};

/// Largest number of bytes that a target can write in one probe: those read, and those in the kernel buffers of both sides.
/// The send buffer, otherwise some megabytes, is kept small.
const WRITTEN_MAX: u64 = READ_MAX as u64 + (1 << 20);
const SEND_BUFFER: u32 = 16 << 10;
/// The cause of a handshake that does not end.
const TIMEOUT: &str = "timeout after 300ms in TLS handshake";
/// The cause of a response over the limit.
const TOO_MUCH: &str = "response over 256 KiB";
/// Cause of the failure by more data than the client has room for (RFC 9113 section 6.9).
const FLOW_CONTROL: &str = "response violates HTTP/2: FLOW_CONTROL_ERROR";

/// A hostile target, with the number of bytes it wrote.
struct HostileTarget {
    at: SocketAddr,
    written: Arc<AtomicU64>,
}

impl HostileTarget {
    /// Waits for the first bytes of the client, then writes `head` and `again` without end; an empty `again` only waits.
    async fn raw(head: &[u8], again: &[u8]) -> Self {
        let (head, again): (Arc<[u8]>, Arc<[u8]>) = (head.into(), again.into());
        Self::start(move |mut stream| {
            let (head, again) = (Arc::clone(&head), Arc::clone(&again));
            async move { write_flood(&mut stream, &head, &again).await }
        })
        .await
    }

    /// Does the same over TLS.
    async fn over_tls(acceptor: TlsAcceptor, head: &[u8], again: &[u8]) -> Self {
        let (head, again): (Arc<[u8]>, Arc<[u8]>) = (head.into(), again.into());
        Self::start(move |stream| {
            let (acceptor, head, again) = (acceptor.clone(), Arc::clone(&head), Arc::clone(&again));
            async move {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    write_flood(&mut stream, &head, &again).await;
                }
            }
        })
        .await
    }

    async fn start<S, F>(serve_one: S) -> Self
    where
        S: Fn(CountingStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let written = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&written);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(SEND_BUFFER).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = socket.local_addr().unwrap();
        let listener = socket.listen(64).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_one(CountingStream { stream, written: Arc::clone(&counter) }));
            }
        });
        Self { at, written }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Asserts that a probe fails for this cause and reads little; for [`TIMEOUT`] its timeout is 300 ms.
    async fn fails(&self, check: Check, cause: &str) {
        let found = if cause == TIMEOUT { run_short(check, self.at).await } else { run(check, self.at).await };
        // Data that nobody takes in time exceeds the window before it exceeds the limit.
        let is_window = cause == TOO_MUCH && found == fails(FLOW_CONTROL);
        assert!(found == fails(cause) || is_window, "{cause}: {found:?}");
        assert!(self.written() < WRITTEN_MAX, "{cause}: {} bytes", self.written());
    }
}

/// Waits for the first bytes of the client, writes, and waits until the client closes.
async fn write_flood(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), head: &[u8], again: &[u8]) {
    let mut sink = vec![0; 4_096];
    let _ = stream.read(&mut sink).await;
    let mut written = stream.write_all(head).await;
    let again = again.repeat((64 * 1_024 / again.len().max(1)).max(1));
    while written.is_ok() && !again.is_empty() {
        written = stream.write_all(&again).await;
    }
    let _ = stream.flush().await;
    while matches!(stream.read(&mut sink).await, Ok(1..)) {}
}

/// A stream that counts what is written to it.
struct CountingStream {
    stream: TcpStream,
    written: Arc<AtomicU64>,
}

impl AsyncRead for CountingStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns a target with a period of 1 s, because floods are slow in a debug build.
fn target(check: Check) -> Target {
    let period = Duration::from_secs(1);
    let monitor = Monitor { period, timeout: period, rise: 1, fall: 2, ..Monitor::new(check) };
    let address = ProbeAddress::Address([127, 0, 0, 1].into());
    Target { address, monitor: Arc::new(monitor), label: MonitorName::new("m").unwrap() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hostile_targets_are_down_and_do_not_affect_others() {
    let own = Authority::new();
    let https_at = https(own.server(&own.certify("127.0.0.1"), false, b"http/1.1")).await;
    let mut hostile = Vec::new();
    for (head, again) in tls::FLOODS {
        let target = HostileTarget::raw(head, again).await;
        hostile.push((tls::check(&own, target.at), target));
    }
    for (head, again) in grpc::floods() {
        let target = HostileTarget::raw(&head, &again).await;
        hostile.push((grpc::check(target.at), target));
    }
    let good = [tls::passing(&own, https_at), grpc::check(grpc::good().await)];
    let checks = good.into_iter().chain(hostile.iter().map(|(check, _)| check.clone()));
    let (sender, _transitions) = mpsc::channel(1_000);
    let checker = Checker::start(1024, sender, Arc::default());
    checker.set_targets(checks.map(target).collect(), vec![]).await;
    let is_complete = |states: &[TargetState]| {
        let (good, hostile) = states.split_at(2);
        good.iter().all(|state| state.passes >= 4) && hostile.iter().all(|state| state.failures >= 2)
    };
    let begin = Instant::now();
    let mut states = checker.states().await;
    while !is_complete(&states) {
        assert!(begin.elapsed() < Duration::from_secs(120), "not all targets were evaluated: {states:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        states = checker.states().await;
    }
    for (index, state) in states.iter().enumerate() {
        let (status, failures) = if index < 2 { (HealthStatus::Up, 0) } else { (HealthStatus::Down, state.failures) };
        assert_eq!((state.status, state.failures, state.passes > 0), (status, failures, index < 2), "{state:?}");
        assert!(index < 2 || state.last_cause.as_ref().is_some_and(|cause| !cause.0.is_empty()), "{state:?}");
    }
    drop(checker);
    for ((_, target), state) in hostile.iter().zip(&states[2..]) {
        // One more probe may have run since.
        let probes = state.failures + state.inconclusive + 2;
        assert!(target.written() < probes * WRITTEN_MAX, "{probes} probes, {} bytes: {state:?}", target.written());
    }
}
