//! Accepts connections, few at a time and none for ever: a slow or hostile client costs one of a bounded number of places.

use std::{
    collections::HashMap,
    fmt, fs, io,
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
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use super::{
    gate::{Gate, Via},
    metrics::Metrics,
    permission::Permissions,
    routes::{self, Site},
    watch::{self as watching, Hub},
};
use fairway_access::{ClientKey, names_of};
use fairway_control::Control;

/// The listeners of the API.
pub struct Api {
    gate: Gate,
    /// What is answered on listeners and on the control socket. Made before anything is served, since that takes its time: who sees the
    /// server serve finds its control socket.
    listener: Router,
    socket: Router,
    /// True once the listeners are to end; also when the value is dropped.
    ending: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Api {
    /// No listener yet; what changes is followed from here on.
    pub fn new(control: &Control, metrics: Arc<Metrics>) -> Self {
        let ending = watch::channel(false).0;
        let hub = Arc::new(Hub::new());
        let follower = tokio::spawn(watching::follow(control.clone(), Arc::clone(&hub), ending.subscribe()));
        let gate = Gate::new(control, Permissions::of(&routes::table()));
        let intent_writes = Arc::default();
        let (control, under_way) = (control.clone(), Default::default());
        let site = Site { control, metrics, hub, gate, intent_writes, under_way, ending: ending.subscribe() };
        let (listener, socket) = routes::of_both(&site);
        Self { gate: site.gate, listener, socket, ending, tasks: vec![follower] }
    }

    /// Answers on this listener.
    pub fn show(&mut self, listener: TcpListener) {
        let http = Http { router: self.listener.clone(), gate: self.gate.clone(), open: Arc::default() };
        let end = self.ending.subscribe();
        self.tasks.push(tokio::spawn(async move {
            let accept = || async {
                let (stream, peer) = listener.accept().await?;
                let (http, local) = (http.clone(), stream.local_addr()?);
                // Here, and not by the task that answers: places go to those who came first.
                let place = http.place(peer);
                Ok(move |end| async move {
                    if let Some(_place) = place {
                        http.connection(stream, peer, local, end).await;
                    }
                })
            };
            serve(accept, HTTP_CONNECTIONS_MAX, end).await;
        }));
    }

    /// Answers, and takes commands, on this socket.
    pub fn command(&mut self, socket: UnixListener) {
        let (router, end) = (self.socket.clone(), self.ending.subscribe());
        self.tasks.push(tokio::spawn(async move {
            let accept = || async {
                let (stream, user) = local_peer(&socket).await?;
                let router = router.clone().layer(Extension(Via::Socket(user)));
                Ok(move |end| connection(stream, router, end))
            };
            serve(accept, SOCKET_CONNECTIONS_MAX, end).await;
        }));
    }

    /// Closes the listeners, lets requests under way end, at most a second.
    pub async fn stop(self) {
        self.ending.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(STOP_MAX, &mut task).await.is_err() {
                tracing::debug!("API request aborted at shutdown");
                task.abort();
            }
        }
    }
}

/// Makes the control socket: for root and this user only, in the place of one that a killed process left.
///
/// To be called with the data folder's lock held.
pub fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    // Bound beside and renamed, so that nobody ever finds a socket there that is open to others or not listened to.
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&beside)?;
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))?;
    fs::rename(&beside, path)?;
    Ok(listener)
}

/// The next connection of root or of this process' own user; others are closed without a word.
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

/// What is made of a connection that comes over the HTTP listener.
#[derive(Clone)]
struct Http {
    router: Router,
    gate: Gate,
    /// Connections that each client has open.
    open: Arc<Mutex<HashMap<ClientKey, usize>>>,
}

impl Http {
    /// A place for a connection of this client, unless it has all that one may have.
    fn place(&self, peer: SocketAddr) -> Option<Place> {
        let most = self.gate.access().limits.map_or(HTTP_CONNECTIONS_MAX, |limits| limits.connections);
        let place = Place::take(&self.open, peer.ip().into(), most);
        if place.is_none() {
            tracing::debug!(client = %peer.ip(), most, "API connection refused: client is at its limit");
        }
        place
    }

    /// Answers on a connection to its end: over TLS as it is configured now, or in clear to this machine alone.
    async fn connection(self, stream: TcpStream, peer: SocketAddr, local: SocketAddr, end: watch::Receiver<bool>) {
        let access = self.gate.access();
        let is_local = local.ip().to_canonical().is_loopback();
        let via = |is_tls, certificate| Extension(Via::Http { peer, is_local, is_tls, certificate });
        let Some(tls) = &access.tls else {
            if is_local {
                connection(stream, self.router.layer(via(false, [].into())), end).await;
            }
            return;
        };
        // What a client does wrong is the client's matter.
        let accepted = tokio::time::timeout(HEADER_MAX, TlsAcceptor::from(tls.config()).accept(stream)).await;
        let Ok(Ok(stream)) = accepted else { return };
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let names = shown.map(|own| names_of(own).into()).unwrap_or_default();
        connection(stream, self.router.layer(via(true, names)), end).await;
    }
}

/// The place of one connection among those of its client.
struct Place {
    open: Arc<Mutex<HashMap<ClientKey, usize>>>,
    client: ClientKey,
}

impl Place {
    /// One more, unless the client has so many already.
    fn take(open: &Arc<Mutex<HashMap<ClientKey, usize>>>, client: ClientKey, most: usize) -> Option<Self> {
        let mut counts = open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(client).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Self { open: Arc::clone(open), client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let left = counts.get(&self.client).map_or(0, |count| count - 1);
        if left == 0 {
            counts.remove(&self.client);
        } else {
            counts.insert(self.client, left);
        }
    }
}

/// Accepts connections, each with what answers on it, until told to end; then lets the open ones finish what they began.
pub(super) async fn serve<A, C, T>(accept: impl Fn() -> A, most: usize, mut end: watch::Receiver<bool>)
where
    A: Future<Output = io::Result<C>>,
    C: FnOnce(watch::Receiver<bool>) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, accept().await)
        };
        let (place, accepted) = tokio::select! {
            _ = end.wait_for(|end| *end) => break,
            next = next => next,
        };
        match accepted {
            Ok(answer) => {
                let answered = answer(end.clone());
                connections.spawn(async move {
                    answered.await;
                    drop(place);
                });
            }
            // Out of descriptors, or a connection that was gone at once: the listener itself is sound.
            Err(error) => {
                tracing::debug!(%error, "API accept failed");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}

async fn connection<S>(stream: S, router: Router, mut end: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_MAX).max_buf_size(BUFFER_MAX);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let wind_down = async {
        // Whichever comes first; an end that can no longer be told is an end.
        let _ = tokio::time::timeout(CONNECTION_MAX, end.wait_for(|end| *end)).await;
    };
    tokio::select! {
        // What a client does wrong is the client's matter.
        _ = &mut serving => return,
        () = wind_down => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(CONNECTION_MAX, serving).await;
}

/// Connections open at once on the HTTP listener; more wait in the kernel's queue.
const HTTP_CONNECTIONS_MAX: usize = 64;
/// Connections open at once on the control socket: its own, so that a flood of HTTP does not keep an operator out.
const SOCKET_CONNECTIONS_MAX: usize = 16;
/// Longest time for a request's head to arrive, also from one request to the next.
const HEADER_MAX: Duration = Duration::from_secs(10);
/// Most octets of a request's head.
const BUFFER_MAX: usize = 16 << 10;
/// A connection is asked to end after this long, and cut off after twice as long: longer than any request may take.
const CONNECTION_MAX: Duration = Duration::from_secs(120);
/// Rest after a failed accept.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// Longest wait for requests under way at the end.
const STOP_MAX: Duration = Duration::from_secs(1);
