//! Lets the visitor play: `curl -X POST http://127.0.0.1:PORT/eu1/down`. Only passes on what is asked for.

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

/// What can be done to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It dies.
    Down,
    /// It says 503 to readiness and goes on serving.
    Drain,
    /// It serves and is ready.
    Up,
}

/// One wish of the visitor, to be answered with what was done or why not.
#[derive(Debug)]
pub(super) struct Wish {
    /// The cluster whose gateway is meant.
    pub(super) cluster: String,
    /// What to do to it.
    pub(super) deed: Deed,
    /// Where the answer goes.
    pub(super) reply: oneshot::Sender<Result<String, String>>,
}

/// The visitor's listener; dropping it closes it.
#[derive(Debug)]
pub(super) struct Remote {
    /// Where it listens.
    pub(super) at: SocketAddr,
    wishes: mpsc::Receiver<Wish>,
    task: JoinHandle<io::Result<()>>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Remote {
    /// Listens on any free port of 127.0.0.1.
    pub(super) async fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let at = listener.local_addr()?;
        let (sender, wishes) = mpsc::channel(8);
        let routes = Router::new().route("/", get(usage)).route("/{cluster}/{deed}", post(wish)).with_state(sender);
        let task = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { at, wishes, task })
    }

    /// The next wish; waits for ever if there is none. Safe to cancel.
    pub(super) async fn next(&mut self) -> Wish {
        match self.wishes.recv().await {
            Some(wish) => wish,
            None => std::future::pending().await, // only at the end: the listener lives as long as we do
        }
    }
}

async fn usage() -> &'static str {
    "POST /CLUSTER/down, /CLUSTER/drain or /CLUSTER/up, where CLUSTER is eu1, us1 or ap1\n"
}

async fn wish(
    State(wishes): State<mpsc::Sender<Wish>>,
    Path((cluster, deed)): Path<(String, String)>,
) -> (StatusCode, String) {
    let deed = match deed.as_str() {
        "down" => Deed::Down,
        "drain" => Deed::Drain,
        "up" => Deed::Up,
        _ => return (StatusCode::NOT_FOUND, format!("no {deed:?}; there are down, drain and up\n")),
    };
    let (reply, answer) = oneshot::channel();
    let sent = wishes.send(Wish { cluster, deed, reply }).await;
    match (sent, answer.await) {
        (Ok(()), Ok(Ok(done))) => (StatusCode::OK, format!("{done}\n")),
        (Ok(()), Ok(Err(why))) => (StatusCode::CONFLICT, format!("{why}\n")),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the demo is ending\n".to_owned()),
    }
}
