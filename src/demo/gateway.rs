//! An ingress gateway of the demo: serves traffic on an address of its own, and answers readiness probes.
//!
//! There are two kinds: HTTP listeners in this process, and real Envoy processes (`envoy`).

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
use tokio::{net::TcpListener, task::JoinSet};

use super::envoy::Envoy;

/// Ports of a gateway. All gateways use the same ones on different addresses, as real clusters do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    /// Port for traffic of clients.
    pub(super) data: u16,
    /// Port for `/healthz/ready`.
    pub(super) ready: u16,
    /// Port for Envoy's metrics.
    pub(super) stats: u16,
    /// Port for Envoy's administration.
    pub(super) admin: u16,
}

/// Action on a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(super) enum GatewayAction {
    /// Stops it at once: it refuses connections.
    Down,
    /// Makes it answer 503 to readiness probes, while it still serves: an announced shutdown.
    Drain,
    /// Makes it serve and be ready, from any state.
    Up,
}

/// A gateway, running or not.
#[derive(Debug)]
pub(super) struct Gateway {
    /// Its cluster.
    pub(super) cluster: &'static str,
    /// Its address, which is in the answers.
    pub(super) address: Ipv4Addr,
    ports: Ports,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// `None` while it is down.
    InProcess(Option<Listeners>),
    Envoy(Box<Envoy>),
}

/// Listeners in this process. Dropping them closes both.
#[derive(Debug)]
struct Listeners {
    is_ready: Arc<AtomicBool>,
    tasks: JoinSet<io::Result<()>>,
}

impl Gateway {
    /// Starts a gateway in this process.
    pub(super) async fn in_process(cluster: &'static str, address: Ipv4Addr, ports: Ports) -> io::Result<Self> {
        let listeners = Listeners::start(cluster, address, ports).await?;
        Ok(Self { cluster, address, ports, kind: Kind::InProcess(Some(listeners)) })
    }

    /// Starts an Envoy with its files in `folder`.
    pub(super) fn envoy(folder: &Path, cluster: &'static str, address: Ipv4Addr, ports: Ports) -> anyhow::Result<Self> {
        let envoy = Envoy::start(folder, cluster, address, ports)?;
        Ok(Self { cluster, address, ports, kind: Kind::Envoy(Box::new(envoy)) })
    }

    /// Waits until the gateway is ready.
    pub(super) async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::InProcess(_) => Ok(()), // ready once its listeners are bound
            Kind::Envoy(envoy) => envoy.ready().await,
        }
    }

    /// Performs an action. Returns when it is complete.
    pub(super) async fn act(&mut self, action: GatewayAction) -> anyhow::Result<()> {
        let listeners = match &mut self.kind {
            Kind::InProcess(listeners) => listeners,
            Kind::Envoy(envoy) => return envoy.act(action).await,
        };
        match (listeners.as_mut(), action) {
            (None, GatewayAction::Down) => {}
            (None, GatewayAction::Drain) => anyhow::bail!("{} is down; bring it up first", self.cluster),
            (None, GatewayAction::Up) => {
                *listeners = Some(Listeners::start(self.cluster, self.address, self.ports).await?);
            }
            (Some(running), GatewayAction::Down) => {
                running.tasks.shutdown().await;
                *listeners = None;
            }
            (Some(running), GatewayAction::Drain) => running.is_ready.store(false, Ordering::Relaxed),
            (Some(running), GatewayAction::Up) => running.is_ready.store(true, Ordering::Relaxed),
        }
        Ok(())
    }
}

impl Listeners {
    async fn start(cluster: &'static str, address: Ipv4Addr, ports: Ports) -> io::Result<Self> {
        let is_ready = Arc::new(AtomicBool::new(true));
        let greeting = move || async move { closing(StatusCode::OK, format!("{cluster} ({address}) served this\n")) };
        let data = Router::new().fallback(greeting);
        let health = Router::new().route("/healthz/ready", get(readiness)).with_state(Arc::clone(&is_ready));
        let mut tasks = JoinSet::new();
        for (port, routes) in [(ports.data, data), (ports.ready, health)] {
            let at = SocketAddr::from((address, port));
            let listener =
                TcpListener::bind(at).await.map_err(|error| io::Error::new(error.kind(), format!("{at}: {error}")))?;
            tasks.spawn(async move { axum::serve(listener, routes).await });
        }
        Ok(Self { is_ready, tasks })
    }
}

async fn readiness(State(ready): State<Arc<AtomicBool>>) -> impl IntoResponse {
    if ready.load(Ordering::Relaxed) {
        closing(StatusCode::OK, String::new())
    } else {
        closing(StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned())
    }
}

/// Returns a response that closes the connection, so that no connection outlives its gateway.
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

    /// Sends a request. Returns the whole response, or the error of the connection.
    async fn request(port: u16, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    async fn gateway() -> (Gateway, Ports) {
        // Another process may take a port between the search and its use. Then other ports are tried.
        for _ in 0..20 {
            let free =
                [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
            let [data, ready] = free.map(|listener| listener.local_addr().unwrap().port());
            let ports = Ports { data, ready, stats: 0, admin: 0 };
            if let Ok(gateway) = Gateway::in_process("eu1", Ipv4Addr::LOCALHOST, ports).await {
                return (gateway, ports);
            }
        }
        panic!("no free ports");
    }

    #[tokio::test]
    async fn started_gateway_serves_and_is_ready() {
        let (_gateway, ports) = gateway().await;
        assert!(request(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 200"));
        assert!(request(ports.data, "/any").await.unwrap().ends_with("eu1 (127.0.0.1) served this\n"));
    }

    #[tokio::test]
    async fn draining_gateway_serves_but_is_not_ready() {
        let (mut gateway, ports) = gateway().await;
        gateway.act(GatewayAction::Drain).await.unwrap();
        assert!(request(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 503"));
        assert!(request(ports.data, "/").await.unwrap().starts_with("HTTP/1.1 200"));
        gateway.act(GatewayAction::Up).await.unwrap();
        assert!(request(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn stopped_gateway_refuses_connections_until_it_is_started() {
        let (mut gateway, ports) = gateway().await;
        gateway.act(GatewayAction::Down).await.unwrap();
        for port in [ports.data, ports.ready] {
            assert_eq!(request(port, "/").await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        }
        assert!(gateway.act(GatewayAction::Drain).await.is_err());
        gateway.act(GatewayAction::Up).await.unwrap();
        assert!(request(ports.ready, "/healthz/ready").await.unwrap().starts_with("HTTP/1.1 200"));
    }
}
