//! An ingress gateway of the demo: something that serves traffic on an address of its own and says whether it is ready.
//!
//! Two kinds: small HTTP listeners in this process, and real Envoy processes (`envoy`). Both can die, drain and come back.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::{net::TcpListener, task::JoinHandle};

use super::envoy::Envoy;

/// Ports of every gateway; each has an address of its own, so that all share the numbers, as real clusters do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    /// Where clients' traffic goes.
    pub(super) data: u16,
    /// Where `/healthz/ready` answers.
    pub(super) ready: u16,
    /// Envoy's own metrics.
    pub(super) stats: u16,
    /// Envoy's administration.
    pub(super) admin: u16,
}

/// One gateway, alive or not.
#[derive(Debug)]
pub(super) struct Gateway {
    /// The cluster it stands for.
    pub(super) cluster: &'static str,
    /// Its address, which names are answered with.
    pub(super) address: Ipv4Addr,
    ports: Ports,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Own(Option<Own>),
    Envoy(Box<Envoy>),
}

/// Listeners in this process; dropping them closes both.
#[derive(Debug)]
struct Own {
    ready: Arc<AtomicBool>,
    listeners: [JoinHandle<io::Result<()>>; 2],
}

impl Drop for Own {
    fn drop(&mut self) {
        self.listeners.iter().for_each(JoinHandle::abort);
    }
}

impl Gateway {
    /// A gateway of our own, listening.
    pub(super) async fn own(cluster: &'static str, address: Ipv4Addr, ports: Ports) -> io::Result<Self> {
        let own = Own::start(cluster, address, ports).await?;
        Ok(Self { cluster, address, ports, kind: Kind::Own(Some(own)) })
    }

    /// A real Envoy, running; its files are in `folder`.
    pub(super) fn envoy(
        binary: &Path,
        folder: &Path,
        cluster: &'static str,
        address: Ipv4Addr,
        ports: Ports,
    ) -> anyhow::Result<Self> {
        let envoy = Envoy::start(binary.to_owned(), folder, cluster, address, ports)?;
        Ok(Self { cluster, address, ports, kind: Kind::Envoy(Box::new(envoy)) })
    }

    /// Waits until it says that it is ready.
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Own(_) => Ok(()), // ready since its listeners are bound
            Kind::Envoy(envoy) => envoy.ready().await,
        }
    }

    /// Dies at once: connections to it are refused from now on.
    pub(super) async fn down(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Own(own) => {
                if let Some(own) = own.take() {
                    own.end().await;
                }
                Ok(())
            }
            Kind::Envoy(envoy) => envoy.kill().await,
        }
    }

    /// Serves and is ready again, whatever was done to it.
    pub(super) async fn up(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Own(Some(own)) => own.ready.store(true, Ordering::Relaxed),
            Kind::Own(none) => *none = Some(Own::start(self.cluster, self.address, self.ports).await?),
            Kind::Envoy(envoy) => envoy.revive().await?,
        }
        Ok(())
    }

    /// Says 503 to the question whether it is ready, and goes on serving: a shutdown that is announced.
    pub(super) async fn drain(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Own(Some(own)) => own.ready.store(false, Ordering::Relaxed),
            Kind::Own(None) => anyhow::bail!("{} is down; take it up first", self.cluster),
            Kind::Envoy(envoy) => envoy.drain().await?,
        }
        Ok(())
    }
}

impl Own {
    async fn start(cluster: &'static str, address: Ipv4Addr, ports: Ports) -> io::Result<Self> {
        let ready = Arc::new(AtomicBool::new(true));
        let greeting = move || async move { closing(StatusCode::OK, format!("{cluster} ({address}) served this\n")) };
        let data = Router::new().fallback(greeting);
        let health = Router::new().route("/healthz/ready", get(readiness)).with_state(Arc::clone(&ready));
        let data = listen(SocketAddr::from((address, ports.data)), data).await?;
        match listen(SocketAddr::from((address, ports.ready)), health).await {
            Ok(health) => Ok(Self { ready, listeners: [data, health] }),
            Err(fault) => {
                data.abort();
                Err(fault)
            }
        }
    }

    /// Closes both listeners and waits until they are closed.
    async fn end(mut self) {
        for listener in &mut self.listeners {
            listener.abort();
            let _ = listener.await; // an aborted task always ends in an error
        }
    }
}

async fn listen(at: SocketAddr, routes: Router) -> io::Result<JoinHandle<io::Result<()>>> {
    let listener = TcpListener::bind(at).await.map_err(|e| io::Error::new(e.kind(), format!("{at}: {e}")))?;
    Ok(tokio::spawn(async move { axum::serve(listener, routes).await }))
}

async fn readiness(State(ready): State<Arc<AtomicBool>>) -> impl IntoResponse {
    match ready.load(Ordering::Relaxed) {
        true => closing(StatusCode::OK, String::new()),
        false => closing(StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned()),
    }
}

/// An answer after which the connection is closed: none outlives its gateway.
fn closing(status: StatusCode, body: String) -> impl IntoResponse {
    (status, [(header::CONNECTION, "close")], body)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    /// The status line and headers that the gateway answers, or the fault of connecting.
    async fn ask(port: u16, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    async fn gateway() -> (Gateway, Ports) {
        // A port that was free a moment ago may be taken: then another is tried.
        for _ in 0..20 {
            let free =
                [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
            let [data, ready] = free.map(|listener| listener.local_addr().unwrap().port());
            let ports = Ports { data, ready, stats: 0, admin: 0 };
            if let Ok(gateway) = Gateway::own("eu1", Ipv4Addr::LOCALHOST, ports).await {
                return (gateway, ports);
            }
        }
        panic!("no free ports");
    }

    #[tokio::test]
    async fn a_gateway_serves_and_is_ready() {
        let (_gateway, ports) = gateway().await;
        assert!(ask(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 200"));
        assert!(ask(ports.data, "/any").await.unwrap().ends_with("eu1 (127.0.0.1) served this\n"));
    }

    #[tokio::test]
    async fn a_draining_gateway_is_not_ready_and_still_serves() {
        let (mut gateway, ports) = gateway().await;
        gateway.drain().await.unwrap();
        assert!(ask(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 503"));
        assert!(ask(ports.data, "/").await.unwrap().starts_with("HTTP/1.1 200"));
        gateway.up().await.unwrap();
        assert!(ask(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_gateway_that_is_down_refuses_and_comes_back() {
        let (mut gateway, ports) = gateway().await;
        gateway.down().await.unwrap();
        for port in [ports.data, ports.ready] {
            assert_eq!(ask(port, "/").await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        }
        assert!(gateway.drain().await.is_err());
        gateway.up().await.unwrap();
        assert!(ask(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 200"));
    }
}
