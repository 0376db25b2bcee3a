//! Accepts connections, few at a time and none for ever: a slow or hostile client costs one of a bounded number of places.

use std::{fmt, fs, io, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
};

use super::{
    routes::{self, Caller, Site},
    watch::{self as watching, Hub},
};
use crate::{control::Control, observe::metrics::Metrics};

/// The listeners of the API.
pub(crate) struct Api {
    site: Site,
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
    pub(crate) fn new(control: &Control, metrics: Arc<Metrics>) -> Self {
        let ending = watch::channel(false).0;
        let hub = Arc::new(Hub::new());
        let follower = tokio::spawn(watching::follow(control.clone(), Arc::clone(&hub), ending.subscribe()));
        let site = Site { control: control.clone(), metrics, hub, ending: ending.subscribe() };
        Self { site, ending, tasks: vec![follower] }
    }

    /// Shows on this listener.
    pub(crate) fn show(&mut self, listener: TcpListener) {
        let (router, end) = (routes::reads(&self.site), self.ending.subscribe());
        self.tasks.push(tokio::spawn(async move {
            let accept = || async { Ok((listener.accept().await?.0, router.clone())) };
            serve(accept, HTTP_CONNECTIONS_MAX, end).await;
        }));
    }

    /// Shows and takes commands on this socket.
    pub(crate) fn command(&mut self, socket: UnixListener) {
        let (router, end) = (routes::all(&self.site), self.ending.subscribe());
        self.tasks.push(tokio::spawn(async move {
            let accept = || async {
                let (stream, caller) = local_peer(&socket).await?;
                Ok((stream, router.clone().layer(Extension(caller))))
            };
            serve(accept, SOCKET_CONNECTIONS_MAX, end).await;
        }));
    }

    /// Closes the listeners, lets requests under way end, at most a second.
    pub(crate) async fn stop(self) {
        self.ending.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(STOP_MAX, &mut task).await.is_err() {
                tracing::debug!("an API request was cut off at the end");
                task.abort();
            }
        }
    }
}

/// Makes the control socket: for root and this user only, in the place of one that a killed process left.
///
/// To be called with the data folder's lock held.
pub(crate) fn bind_socket(path: &Path) -> io::Result<UnixListener> {
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
async fn local_peer(listener: &UnixListener) -> io::Result<(UnixStream, Caller)> {
    loop {
        let (stream, _) = listener.accept().await?;
        let uid = stream.peer_cred()?.uid();
        if uid == 0 || uid == rustix::process::geteuid().as_raw() {
            return Ok((stream, Caller(format!("local user {uid}"))));
        }
        tracing::warn!(uid, "control socket: a foreign user was turned away");
    }
}

/// Accepts connections with what answers on them until told to end, then lets the open ones finish what they began.
async fn serve<S, F>(accept: impl Fn() -> F, most: usize, mut end: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<(S, Router)>>,
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
            Ok((stream, router)) => {
                let end = end.clone();
                connections.spawn(async move {
                    connection(stream, router, end).await;
                    drop(place);
                });
            }
            // Out of descriptors, or a connection that was gone at once: the listener itself is sound.
            Err(error) => {
                tracing::debug!(%error, "API: a connection could not be taken");
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
