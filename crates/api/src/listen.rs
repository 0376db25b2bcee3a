//! The HTTP listener, the listener for health probes and the control socket.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    http::{Extensions, StatusCode},
};
use tokio::{
    io::DuplexStream,
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{Mutex, mpsc, watch},
    task::JoinSet,
};

use crate::{
    auth::{Auth, Connection},
    connections::Slots,
    health,
    metrics::Metrics,
    routes,
    serving::{Accepted, Bounds, Opened, Stream, handshake, serve},
    state::AppState,
    watch::{self as events, Hub},
};
use fairway_access::subjects_of;
use fairway_config::HealthListenerSettings;
use fairway_control::Control;

/// The listeners of the API.
pub struct Api {
    auth: Auth,
    control: Control,
    metrics: Arc<Metrics>,
    /// Routers of the HTTP listener and of the control socket. They are built before DNS is served, since that takes time, so that the
    /// control socket is available as soon as DNS is.
    http: Router,
    socket: Router,
    /// True once the listeners have to end; also when the sender is dropped.
    ending: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Api {
    /// Creates the API without a listener, and begins to collect events for watchers.
    pub fn new(control: &Control, metrics: Arc<Metrics>) -> Self {
        let ending = watch::channel(false).0;
        let hub = Arc::new(Hub::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(events::collect(control.clone(), Arc::clone(&hub), ending.subscribe()));
        let auth = Auth::new(control, routes::table());
        let state = AppState {
            control: control.clone(),
            metrics: Arc::clone(&metrics),
            intent_writes: Arc::default(),
            requests: Default::default(),
            hub,
            ending: ending.subscribe(),
        };
        let (http, socket) = routes::routers(&state, &auth);
        Self { auth, control: control.clone(), metrics, http, socket, ending, tasks }
    }

    /// Serves the API on a TCP listener.
    pub fn serve_http(&mut self, listener: TcpListener) {
        let (router, auth, ending) = (self.http.clone(), self.auth.clone(), self.ending.subscribe());
        self.tasks.spawn(async move {
            let accept = || async {
                let (stream, peer) = listener.accept().await?;
                let local = stream.local_addr()?;
                let client_max = auth.access().limits.map_or(HTTP_CLIENT_MAX, |limits| limits.connections);
                Ok(Accepted::new(peer.ip(), client_max, open(auth.clone(), stream, peer, local)))
            };
            serve(accept, &HTTP_BOUNDS, router, ending).await;
        });
    }

    /// Serves the API on streams within this process, as if they came from this machine in clear text. For the fuzz targets.
    pub fn serve_streams(&mut self, streams: mpsc::Receiver<DuplexStream>) {
        let (router, ending) = (self.http.clone(), self.ending.subscribe());
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.tasks.spawn(async move {
            let streams = Mutex::new(streams);
            let accept = || async {
                let Some(stream) = streams.lock().await.recv().await else { return std::future::pending().await };
                let over = Connection::Http { peer, is_local: true, is_tls: false, certificate: [].into() };
                Ok(Accepted::new(peer.ip(), HTTP_CLIENT_MAX, async { opened(stream, over) }))
            };
            serve(accept, &HTTP_BOUNDS, router, ending).await;
        });
    }

    /// Serves health probes, and metrics if that is configured.
    pub fn serve_health(&mut self, listener: TcpListener, settings: HealthListenerSettings) {
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let router = health::router(&self.control, &self.metrics, settings.metrics, is_loopback);
        let ending = self.ending.subscribe();
        self.tasks.spawn(async move {
            let accept = || async {
                loop {
                    let (stream, peer) = listener.accept().await?;
                    // Refused before it takes a slot.
                    if settings.admits(peer.ip()) {
                        let open = async { Some((Box::new(stream) as Box<dyn Stream>, Extensions::new())) };
                        return Ok(Accepted::new(peer.ip(), HEALTH_CLIENT_MAX, open));
                    }
                    tracing::debug!(client = %peer.ip(), "health listener: client is not in listen.health.networks");
                }
            };
            serve(accept, &HEALTH_BOUNDS, router, ending).await;
        });
    }

    /// Serves the API, with the local routes, on the control socket.
    pub fn serve_socket(&mut self, socket: UnixListener) {
        let (router, ending) = (self.socket.clone(), self.ending.subscribe());
        self.tasks.spawn(async move {
            let accept = || async {
                let (stream, user) = local_peer(&socket).await?;
                let open = async move { opened(stream, Connection::Socket(user)) };
                Ok(Accepted::new(IpAddr::V4(Ipv4Addr::LOCALHOST), SOCKET_BOUNDS.slots.all, open))
            };
            serve(accept, &SOCKET_BOUNDS, router, ending).await;
        });
    }

    /// Closes the listeners and waits up to a second for requests in progress.
    pub async fn stop(mut self) {
        self.ending.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_MAX, ended).await.is_err() {
            // They are aborted with the set.
            tracing::debug!("API request aborted at shutdown");
        }
    }
}

/// Creates the control socket, which only root and this user can open. Replaces one that a killed process left.
///
/// The caller holds the lock of the data folder.
pub fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    // Bound under another name and then renamed: a socket under the final name is never open to others or without a listener.
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

/// Returns the next connection of root or of the user of this process; closes those of other users.
async fn local_peer(listener: &UnixListener) -> io::Result<(UnixStream, u32)> {
    loop {
        let (stream, _) = listener.accept().await?;
        let uid = stream.peer_cred()?.uid();
        if uid == 0 || uid == rustix::process::geteuid().as_raw() {
            return Ok((stream, uid));
        }
        tracing::warn!(uid, "control socket: user rejected");
    }
}

/// Opens a connection of the HTTP listener: over TLS if that is configured now, else in clear text, which is allowed on loopback addresses
/// only.
async fn open(auth: Auth, stream: TcpStream, peer: SocketAddr, local: SocketAddr) -> Opened {
    let access = auth.access();
    let is_local = local.ip().to_canonical().is_loopback();
    let over = |is_tls, certificate| Connection::Http { peer, is_local, is_tls, certificate };
    let Some(tls) = &access.tls else {
        return is_local.then(|| opened(stream, over(false, [].into())))?;
    };
    let stream = handshake(tls, stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let subjects = certificate.map(|certificate| subjects_of(certificate).into()).unwrap_or_default();
    opened(stream, over(true, subjects))
}

fn opened(stream: impl Stream + 'static, connection: Connection) -> Opened {
    let mut extensions = Extensions::new();
    extensions.insert(connection);
    Some((Box::new(stream), extensions))
}

/// Bounds of the HTTP listener.
const HTTP_BOUNDS: Bounds = Bounds {
    slots: Slots { all: 256, reserve: 32 },
    // Counted from the end of the last response.
    idle_max: Some(Duration::from_secs(10)),
    buffer_max: 16 << 10,
    // Longer than a request may take (110 s).
    age_max: Duration::from_secs(120),
    client_overload: StatusCode::TOO_MANY_REQUESTS,
};
/// Maximum number of connections of one client without `access.limits`: then all clients are on this machine, and have few addresses.
const HTTP_CLIENT_MAX: usize = 64;
/// Bounds of the control socket. It has slots of its own, so that a flood over HTTP does not lock an operator out.
const SOCKET_BOUNDS: Bounds = Bounds { slots: Slots { all: 16, reserve: 4 }, ..HTTP_BOUNDS };
/// Bounds of the listener for health probes. No request has a body.
const HEALTH_BOUNDS: Bounds = Bounds {
    slots: Slots { all: 64, reserve: 8 },
    buffer_max: 8 << 10,
    age_max: Duration::from_secs(30),
    ..HTTP_BOUNDS
};
/// Maximum number of connections of one client of the listener for health probes.
const HEALTH_CLIENT_MAX: usize = 16;
/// Longest wait for requests in progress at shutdown.
const STOP_MAX: Duration = Duration::from_secs(1);
