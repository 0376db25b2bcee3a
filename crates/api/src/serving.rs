//! Serves HTTP on a listener with bounded connections, time and bytes; the same for the API, its control socket, health and the webhook.
//!
//! `connections.rs` decides which connection a newcomer replaces. While every connection is busy, newcomers are served in a reserve, where
//! health probes and scrapes are answered and all else is refused with a problem, so that a client sees a reason and not a reset.

use std::{
    convert::Infallible,
    future, io,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    http::{Extensions, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    connections::{Connections, Mark, Overload, Slot, Slots},
    problem::problem,
};
use fairway_access::{ClientKey, ServerTls};

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) slots: Slots,
    /// Longest time for a further request to begin on an open connection; `None` closes each connection after one request.
    pub(crate) idle_max: Option<Duration>,
    /// Largest head of a request, and largest piece of a body that is read at once, in bytes.
    pub(crate) buffer_max: usize,
    /// Age at which a connection is shut down; with `idle_max`, gracefully, and it is closed after twice that.
    pub(crate) age_max: Duration,
    /// Status for a client that is at its own limit.
    pub(crate) client_overload: StatusCode,
}

/// A stream of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream that is ready for HTTP, and what its requests have to know about it. `None` if it was rejected.
pub(crate) type Opened = Option<(Box<dyn Stream>, Extensions)>;

/// A connection before its TLS handshake.
pub(crate) struct Accepted {
    pub(crate) client: ClientKey,
    /// Largest number of connections of this client.
    pub(crate) client_max: usize,
    /// Completes the handshake.
    pub(crate) open: Pin<Box<dyn Future<Output = Opened> + Send>>,
}

impl Accepted {
    pub(crate) fn new(client: IpAddr, client_max: usize, open: impl Future<Output = Opened> + Send + 'static) -> Self {
        Self { client: client.into(), client_max, open: Box::pin(open) }
    }
}

/// Completes a TLS handshake. A failed one is the client's error: nothing to log.
pub(crate) async fn handshake(tls: &ServerTls, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    TlsAcceptor::from(tls.config()).accept(stream).await.ok()
}

/// Serves connections until `ending` is true; then waits for the open ones.
pub(crate) async fn serve<A>(
    accept: impl Fn() -> A,
    bounds: &'static Bounds,
    router: Router,
    mut ending: watch::Receiver<bool>,
) where
    A: Future<Output = io::Result<Accepted>>,
{
    let connections = Connections::new(bounds.slots);
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = ending.wait_for(|ending| *ending) => break,
            accepted = accept() => accepted,
        };
        match accepted {
            // The slot is taken here and not by the connection's task, so that slots go to connections in the order of their arrival.
            Ok(Accepted { client, client_max, open }) => match connections.admit(client, client_max) {
                Some(slot) => {
                    tasks.spawn(connection(open, slot, bounds, router.clone(), ending.clone()));
                }
                None => tracing::debug!("HTTP connection closed: the reserve is busy"),
            },
            // No file descriptor is left, or the client has gone already. The listener itself still works.
            Err(error) => {
                tracing::debug!(%error, "API accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

/// Serves a connection until it ends, has to make space for another one, or is too slow.
async fn connection(
    open: Pin<Box<dyn Future<Output = Opened> + Send>>,
    slot: Slot,
    bounds: &'static Bounds,
    router: Router,
    ending: watch::Receiver<bool>,
) {
    let mark = slot.mark.clone();
    let begun = Instant::now();
    let first_head = async {
        tokio::time::sleep_until(begun + FIRST_HEAD_MAX).await;
        if mark.has_requested() {
            future::pending::<()>().await;
        }
    };
    let served = async {
        let Some((stream, extensions)) = open.await else { return };
        http(stream, extensions, &slot, bounds, router, ending).await;
    };
    tokio::select! {
        () = served => {}
        () = slot.replaced() => {}
        () = first_head => {}
    }
}

/// Serves the requests of a stream.
async fn http(
    stream: Box<dyn Stream>,
    extensions: Extensions,
    slot: &Slot,
    bounds: &Bounds,
    router: Router,
    mut ending: watch::Receiver<bool>,
) {
    let (mark, client_overload) = (slot.mark.clone(), bounds.client_overload);
    let refusal = slot.overload.map(|overload| match overload {
        Overload::Client => (client_overload, CLIENT_OVERLOAD),
        Overload::Listener => (StatusCode::SERVICE_UNAVAILABLE, LISTENER_OVERLOAD),
    });
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, mark, extensions) = (router.clone(), mark.clone(), extensions.clone());
        async move { Ok::<_, Infallible>(respond(request, extensions, router, mark, refusal).await) }
    });
    let keeps_alive = bounds.idle_max.filter(|_| refusal.is_none());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(bounds.buffer_max).keep_alive(keeps_alive.is_some());
    http.header_read_timeout(keeps_alive.unwrap_or(FIRST_HEAD_MAX));
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let must_end = async {
        match keeps_alive {
            // A dropped sender ends the connection too.
            Some(_) => drop(tokio::time::timeout(bounds.age_max, ending.wait_for(|ending| *ending)).await),
            // A shutdown breaks no call that is under way: see `webhook.rs`.
            None => tokio::time::sleep(bounds.age_max).await,
        }
    };
    tokio::select! {
        // Errors of a connection are the client's: nothing to log here.
        _ = &mut serving => return,
        () = must_end => {}
    }
    if keeps_alive.is_some() {
        serving.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(bounds.age_max, serving).await;
    }
}

/// Passes a request to the router, unless it is refused, and records the state of the connection.
async fn respond(
    request: Request<Incoming>,
    extensions: Extensions,
    router: Router,
    mark: Mark,
    refusal: Option<(StatusCode, &'static str)>,
) -> Response {
    mark.requested();
    let (mut head, body) = request.into_parts();
    if let Some((status, why)) = refusal.filter(|_| !PROBED.contains(&head.uri.path())) {
        return problem(status, why).header(header::RETRY_AFTER, 1_u64).into_response();
    }
    head.extensions.extend(extensions);
    head.extensions.insert(mark.clone());
    let arrived = Ended { mark: mark.clone(), what: Arrival::Request };
    let body = Body::new(Observed::new(Body::new(body), arrived));
    let response = TowerToHyperService::new(router).call(Request::from_parts(head, body)).await;
    let Ok(response) = response;
    mark.answered(false);
    let sent = Ended { mark, what: Arrival::Response };
    response.map(|body| Body::new(Observed::new(body, sent)))
}

/// Kind of a body that has come to its end.
#[derive(Debug)]
enum Arrival {
    Request,
    Response,
}

/// Records on drop that a body has come to its end.
#[derive(Debug)]
struct Ended {
    mark: Mark,
    what: Arrival,
}

impl Drop for Ended {
    fn drop(&mut self) {
        match self.what {
            Arrival::Request => self.mark.busy(),
            Arrival::Response => self.mark.answered(true),
        }
    }
}

/// A body whose end is recorded.
struct Observed {
    body: Body,
    ended: Option<Ended>,
}

impl Observed {
    fn new(body: Body, ended: Ended) -> Self {
        // hyper does not poll a body without bytes.
        let ended = Some(ended).filter(|_| !body.is_end_stream());
        Self { body, ended }
    }
}

impl HttpBody for Observed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.ended = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Paths that have slots of their own: those of probes and scrapers. The response is as at any other time.
pub(crate) const PROBED: [&str; 4] = ["/healthz", "/livez", "/metrics", "/readyz"];

/// Longest time for the TLS handshake and the head of the first request together.
const FIRST_HEAD_MAX: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const CLIENT_OVERLOAD: &str = "all connections of this client are busy; use fewer at once, or try again later";
const LISTENER_OVERLOAD: &str = "all connections of the server are busy; try again later";
