//! Servers on loopback for tests; they end with the runtime of the test.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairway_model::{Cause, Check, HttpCheck, Monitor, MonitorName, ProbeAddress, Target};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

use crate::probe::{PreparedMonitors, ProbeResult, probe};

/// Starts a server that passes each connection to `serve`; returns its address and the number of connections.
pub(crate) async fn serve<S, F>(serve: S) -> (SocketAddr, Arc<AtomicUsize>)
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream));
        }
    });
    (address, count)
}

/// Starts a server that returns the same bytes to each request and waits until the client closes.
pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> SocketAddr {
    let answer: Arc<[u8]> = answer.into().into();
    serve(move |mut stream| {
        let answer = Arc::clone(&answer);
        async move {
            request(&mut stream).await;
            let _ = stream.write_all(&answer).await;
            let _ = stream.read(&mut [0]).await;
        }
    })
    .await
    .0
}

/// Starts a server that writes `start` and then `again` without end.
pub(crate) async fn streaming(start: &'static str, again: &'static str) -> SocketAddr {
    serve(move |mut stream| async move {
        request(&mut stream).await;
        let mut next = stream.write_all(start.as_bytes()).await;
        let again = again.repeat(64 * 1024 / again.len());
        while next.is_ok() {
            next = stream.write_all(again.as_bytes()).await;
        }
    })
    .await
    .0
}

/// Starts a server that accepts connections and sends nothing.
pub(crate) async fn silent() -> SocketAddr {
    serve(|mut stream| async move {
        let mut sink = [0; 1024];
        while matches!(stream.read(&mut sink).await, Ok(1..)) {}
    })
    .await
    .0
}

/// Returns an address without a listener. Its port stays bound, so that no parallel test gets it.
pub(crate) fn closed_port() -> SocketAddr {
    let socket = Box::leak(Box::new(TcpSocket::new_v4().unwrap()));
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.local_addr().unwrap()
}

/// Returns the header of a request, as text.
pub(crate) async fn request(stream: &mut TcpStream) -> String {
    let mut seen = vec![];
    let mut buffer = [0; 4096];
    while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => seen.extend_from_slice(&buffer[..length]),
        }
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Returns the check `GET /healthz/ready`.
pub(super) fn http(at: SocketAddr) -> HttpCheck {
    HttpCheck::get(at.port(), "/healthz/ready")
}

/// Probes a loopback address with a timeout of 20 s.
pub(super) async fn run(check: Check, at: SocketAddr) -> ProbeResult {
    run_at(check, ProbeAddress::Address(at.ip()), Duration::from_secs(20)).await
}

/// Probes a loopback address that does not answer, with a timeout of 300 ms.
pub(super) async fn run_short(check: Check, at: SocketAddr) -> ProbeResult {
    run_at(check, ProbeAddress::Address(at.ip()), Duration::from_millis(300)).await
}

pub(super) async fn run_at(check: Check, address: ProbeAddress, timeout: Duration) -> ProbeResult {
    let settings = Arc::new(Monitor { timeout, period: timeout, ..Monitor::new(check) });
    let target = Target { address, monitor: settings, label: MonitorName::new("m").unwrap() };
    let monitor = PreparedMonitors::new().prepare(std::slice::from_ref(&target)).remove(0);
    probe(monitor, target.address, Arc::default()).await
}

/// Returns a failure of a target that was reached.
pub(super) fn fails(cause: &str) -> ProbeResult {
    ProbeResult::Fail { cause: Cause::new(cause), reached: true }
}
