//! HTTP listener for commands of the user: `curl -X POST http://127.0.0.1:PORT/eu1/down`. It performs and prints them.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::SystemTime,
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use tokio::{net::TcpListener, sync::Mutex, task::JoinSet};

use super::{
    format,
    gateway::{Gateway, GatewayAction},
    playground::find,
};
use crate::cli::{Out, Tone};

/// Everything that a command needs.
#[derive(Clone)]
pub(super) struct CommandContext {
    /// The gateways.
    pub(super) gateways: Arc<Mutex<Vec<Gateway>>>,
    /// Output.
    pub(super) out: Out,
    /// Start of the demo, from which the printed times count.
    pub(super) start: SystemTime,
}

/// Listener for commands. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Commands {
    /// Address of the listener.
    pub(super) address: SocketAddr,
    _task: JoinSet<io::Result<()>>,
}

impl Commands {
    /// Listens on port 8055 of 127.0.0.1, as the manual has it, else on any free port.
    pub(super) async fn listen(context: CommandContext) -> io::Result<Self> {
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, 8_055)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
        };
        let address = listener.local_addr()?;
        let routes =
            Router::new().route("/", get(usage)).route("/{cluster}/{action}", post(command)).with_state(context);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { address, _task: task })
    }
}

async fn usage() -> &'static str {
    "POST /CLUSTER/down, /CLUSTER/drain or /CLUSTER/up, where CLUSTER is eu1, us1 or ap1\n"
}

async fn command(
    State(CommandContext { gateways, out, start }): State<CommandContext>,
    Path((cluster, action)): Path<(String, String)>,
) -> (StatusCode, String) {
    let Ok(action) = action.parse() else {
        return (StatusCode::NOT_FOUND, format!("unknown action {action:?}; use down, drain or up\n"));
    };
    let verb = match action {
        GatewayAction::Down => "goes down",
        GatewayAction::Drain => "drains: it answers 503 to readiness",
        GatewayAction::Up => "comes up",
    };
    let done = async { find(&mut gateways.lock().await, &cluster)?.act(action).await };
    if let Err(error) = done.await {
        return (StatusCode::CONFLICT, format!("{error:#}\n"));
    }
    let content = [(Tone::Strong, format!("{cluster} ")), (Tone::Plain, verb.to_owned())];
    let when = format::clock(start.elapsed().unwrap_or_default());
    // The reader of the output may be gone, which is no failure of the command.
    let _ = out.line(&format::event(out.palette, &when, "gateway", &content));
    (StatusCode::OK, format!("{cluster} {verb}\n"))
}
