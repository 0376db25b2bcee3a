//! HTTP listener for commands of the user: `curl -X POST http://127.0.0.1:PORT/eu1/down`. It only passes them on.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// Action on a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GatewayAction {
    /// Stops it at once.
    Down,
    /// Makes it answer 503 to readiness probes, while it still serves.
    Drain,
    /// Makes it serve and be ready.
    Up,
}

/// A command of the user.
#[derive(Debug)]
pub(super) struct Command {
    /// Cluster of the gateway.
    pub(super) cluster: String,
    /// The action.
    pub(super) action: GatewayAction,
    /// Channel for the result: a text about what was done, or about the error.
    pub(super) reply: oneshot::Sender<Result<String, String>>,
}

/// Listener for commands. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Commands {
    /// Address of the listener.
    pub(super) address: SocketAddr,
    commands: mpsc::Receiver<Command>,
    task: JoinHandle<io::Result<()>>,
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Commands {
    /// Listens on a free port of 127.0.0.1.
    pub(super) async fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (sender, commands) = mpsc::channel(8);
        let routes =
            Router::new().route("/", get(usage)).route("/{cluster}/{action}", post(command)).with_state(sender);
        let task = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { address, commands, task })
    }

    /// Waits for the next command. Cancel-safe.
    pub(super) async fn next(&mut self) -> Command {
        match self.commands.recv().await {
            Some(command) => command,
            None => std::future::pending().await, // only if the listener failed; then no command can arrive
        }
    }
}

async fn usage() -> &'static str {
    "POST /CLUSTER/down, /CLUSTER/drain or /CLUSTER/up, where CLUSTER is eu1, us1 or ap1\n"
}

async fn command(
    State(commands): State<mpsc::Sender<Command>>,
    Path((cluster, action)): Path<(String, String)>,
) -> (StatusCode, String) {
    let action = match action.as_str() {
        "down" => GatewayAction::Down,
        "drain" => GatewayAction::Drain,
        "up" => GatewayAction::Up,
        _ => return (StatusCode::NOT_FOUND, format!("unknown action {action:?}; use down, drain or up\n")),
    };
    let (reply, result) = oneshot::channel();
    let sent = commands.send(Command { cluster, action, reply }).await;
    match (sent, result.await) {
        (Ok(()), Ok(Ok(done))) => (StatusCode::OK, format!("{done}\n")),
        (Ok(()), Ok(Err(error))) => (StatusCode::CONFLICT, format!("{error}\n")),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the demo is ending\n".to_owned()),
    }
}
