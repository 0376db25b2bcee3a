//! The HTTP listener and the control socket.
//!
//! Connections, their time and their bytes are bounded, so that a slow or hostile client costs at most one slot of a fixed number.

use std::{
    collections::HashMap,
    fs, io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    auth::{Auth, Connection},
    metrics::Metrics,
    routes,
    state::AppState,
    watch::{self as events, Hub},
};
use fairway_access::{ClientKey, subjects_of};
use fairway_control::Control;

/// The listeners of the API.
#[derive(Debug)]
pub struct Api {
    auth: Auth,
    /// Routers of the HTTP listener and of the control socket. They are made before DNS is served, since that takes some time: once DNS
    /// is served, the control socket is there too.
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
            metrics,
            intent_writes: Arc::default(),
            requests: Default::default(),
            hub,
            ending: ending.subscribe(),
        };
        let (http, socket) = routes::routers(&state, &auth);
        Self { auth, http, socket, ending, tasks }
    }

    /// Serves the API on a TCP listener.
    pub fn serve_http(&mut self, listener: TcpListener) {
        let http = Http { router: self.http.clone(), auth: self.auth.clone(), open: Arc::default() };
        let ending = self.ending.subscribe();
        self.tasks.spawn(async move {
            let accept = || async {
                let (stream, peer) = listener.accept().await?;
                let (http, local) = (http.clone(), stream.local_addr()?);
                // Taken here and not by the connection's task, so that slots go to connections in the order of their arrival.
                let slot = http.slot(peer);
                Ok(move |ending| async move {
                    if let Some(_slot) = slot {
                        http.connection(stream, peer, local, ending).await;
                    }
                })
            };
            serve(accept, HTTP_CONNECTIONS_MAX, ending).await;
        });
    }

    /// Serves the API, with the local routes, on the control socket.
    pub fn serve_socket(&mut self, socket: UnixListener) {
        let (router, ending) = (self.socket.clone(), self.ending.subscribe());
        self.tasks.spawn(async move {
            let accept = || async {
                let (stream, user) = local_peer(&socket).await?;
                let router = router.clone().layer(Extension(Connection::Socket(user)));
                Ok(move |ending| connection(stream, router, ending))
            };
            serve(accept, SOCKET_CONNECTIONS_MAX, ending).await;
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

/// The HTTP listener, as a connection needs it.
#[derive(Clone)]
struct Http {
    router: Router,
    auth: Auth,
    /// Slots of each client with open connections: a reference for each connection.
    open: Arc<Mutex<HashMap<ClientKey, Arc<()>>>>,
}

impl Http {
    /// Returns a slot for a connection, which it holds to its end; none if the client has as many as `access.limits.connections` allows.
    fn slot(&self, peer: SocketAddr) -> Option<Arc<()>> {
        let most = self.auth.access().limits.map_or(HTTP_CONNECTIONS_MAX, |limits| limits.connections);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // One reference of each is that of the map.
        open.retain(|_, slots| Arc::strong_count(slots) > 1);
        let slots = open.entry(peer.ip().into()).or_default();
        if Arc::strong_count(slots) > most {
            tracing::debug!(client = %peer.ip(), most, "API connection refused: client is at its limit");
            return None;
        }
        Some(Arc::clone(slots))
    }

    /// Serves a connection to its end: over TLS if that is configured now, else in clear, which only loopback addresses allow.
    async fn connection(self, stream: TcpStream, peer: SocketAddr, local: SocketAddr, ending: watch::Receiver<bool>) {
        let access = self.auth.access();
        let is_local = local.ip().to_canonical().is_loopback();
        let over = |is_tls, certificate| Extension(Connection::Http { peer, is_local, is_tls, certificate });
        let Some(tls) = &access.tls else {
            if is_local {
                connection(stream, self.router.layer(over(false, [].into())), ending).await;
            }
            return;
        };
        // A failed handshake is the client's error: nothing to log here.
        let accepted = tokio::time::timeout(HEADER_MAX, TlsAcceptor::from(tls.config()).accept(stream)).await;
        let Ok(Ok(stream)) = accepted else { return };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let subjects = certificate.map(|certificate| subjects_of(certificate).into()).unwrap_or_default();
        connection(stream, self.router.layer(over(true, subjects)), ending).await;
    }
}

/// Accepts up to `most` connections at once until `ending` is true; then waits for the open ones. `accept` returns a connection as the
/// function that serves it.
pub(crate) async fn serve<A, C, T>(accept: impl Fn() -> A, most: usize, mut ending: watch::Receiver<bool>)
where
    A: Future<Output = io::Result<C>>,
    C: FnOnce(watch::Receiver<bool>) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, accept().await)
        };
        let (slot, accepted) = tokio::select! {
            _ = ending.wait_for(|ending| *ending) => break,
            next = next => next,
        };
        match accepted {
            Ok(serve_connection) => {
                let served = serve_connection(ending.clone());
                connections.spawn(async move {
                    served.await;
                    drop(slot);
                });
            }
            // No file descriptor is left, or the client has gone already. The listener itself still works.
            Err(error) => {
                tracing::debug!(%error, "API accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}

async fn connection<S>(stream: S, router: Router, mut ending: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_MAX).max_buf_size(BUFFER_MAX);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let must_end = async {
        // A dropped sender ends the connection too.
        let _ = tokio::time::timeout(CONNECTION_MAX, ending.wait_for(|ending| *ending)).await;
    };
    tokio::select! {
        // Errors of a connection are the client's: nothing to log here.
        _ = &mut serving => return,
        () = must_end => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(CONNECTION_MAX, serving).await;
}

/// Open connections of the HTTP listener; more wait in the kernel's queue.
const HTTP_CONNECTIONS_MAX: usize = 64;
/// Open connections of the control socket. It has slots of its own, so that a flood over HTTP does not lock an operator out.
const SOCKET_CONNECTIONS_MAX: usize = 16;
/// Longest time for the head of a request to arrive, counted from the end of the last response.
const HEADER_MAX: Duration = Duration::from_secs(10);
/// Largest head of a request, in bytes.
const BUFFER_MAX: usize = 16 << 10;
/// Age at which a connection is shut down gracefully; it is closed after twice that. Longer than a request may take (110 s).
const CONNECTION_MAX: Duration = Duration::from_secs(120);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for requests in progress at shutdown.
const STOP_MAX: Duration = Duration::from_secs(1);
