//! The listeners of the webhook: one for calls of ExternalDNS, one for its health and metrics.
//!
//! ExternalDNS exits if a connection is refused or cut off. So this listener is the first to open and the last to close, each call has a
//! connection of its own, and a replacing process takes over the same socket. TLS and token are those of the configuration in use when
//! the connection is accepted.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use fairway_providers::webhook_server::{Calls, EndpointStore, WebhookError, router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{listen::serve, metrics::Metrics, traced::traced};
use fairway_access::{ServerTls, TokenHash};
use fairway_config::WebhookSettings;
use fairway_control::{Control, contributed::ContributionLedger};
use fairway_telemetry::traces::Traces;
use fairway_transport::ComputeGuard;

/// The webhook of a daemon; without a listener by default.
#[derive(Debug, Default)]
pub struct Webhook {
    /// Contributions of its clients.
    pub ledger: Arc<ContributionLedger>,
    /// Counters of calls.
    pub calls: Arc<Calls>,
    /// True once the listeners have to end; also when the sender is dropped.
    ending: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Webhook {
    /// Serves ExternalDNS on this listener.
    pub fn serve_calls(&mut self, listener: TcpListener, settings: &WebhookSettings, traces: &Traces) {
        let is_local = settings.listen.ip().to_canonical().is_loopback();
        let access = CallAccess { ledger: Arc::clone(&self.ledger), first: Arc::new(settings.clone()) };
        let for_calls = access.clone();
        let ledger = Arc::clone(&self.ledger) as Arc<dyn EndpointStore>;
        let check = Arc::new(move |token: Option<&str>| for_calls.check(token));
        let router = router(ledger, Arc::clone(&self.calls), check, is_local);
        let router = router.layer(middleware::from_fn_with_state(traces.clone(), traced));
        self.accept(listener, router, move || access.tls());
    }

    /// Serves health and metrics on this listener.
    pub fn serve_metrics(&mut self, listener: TcpListener, control: &Control, metrics: Arc<Metrics>) {
        self.accept(listener, health(control, metrics), || None);
    }

    fn accept(
        &mut self,
        listener: TcpListener,
        router: Router,
        tls: impl Fn() -> Option<ServerTls> + Send + Sync + 'static,
    ) {
        let router = router.layer(middleware::from_fn(computing));
        let ending = self.ending.subscribe();
        self.tasks.spawn(async move {
            let accept = || async {
                let (stream, _) = listener.accept().await?;
                let (router, tls) = (router.clone(), tls());
                Ok(move |_| call(stream, tls, router))
            };
            serve(accept, CONNECTIONS_MAX, ending).await;
        });
    }

    /// Closes the listeners and waits up to five seconds for calls in progress.
    pub async fn stop(mut self) {
        self.ending.send_replace(true);
        // Calls that remain are aborted with the set.
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(STOP_MAX, ended).await;
    }
}

/// Activates spare workers of the DNS sockets during a call, which may have tens of thousands of records.
async fn computing(request: Request, next: Next) -> Response {
    let _computing = ComputeGuard::begin();
    next.run(request).await
}

/// TLS and token of calls.
#[derive(Clone)]
struct CallAccess {
    ledger: Arc<ContributionLedger>,
    /// Settings at the start: used until the first configuration is loaded.
    first: Arc<WebhookSettings>,
}

impl CallAccess {
    /// Returns the settings in use. None if a reload removed the section; the listener itself is closed at the next start.
    fn settings(&self) -> Option<WebhookSettings> {
        let configured = self.ledger.configured();
        configured.map_or_else(|| Some(WebhookSettings::clone(&self.first)), |now| now.settings.webhook.clone())
    }

    fn tls(&self) -> Option<ServerTls> {
        self.settings().map_or_else(|| self.first.tls.clone(), |now| now.tls)
    }

    /// Returns true if a call with this token is allowed.
    fn check(&self, token: Option<&str>) -> Result<bool, WebhookError> {
        let now = self.settings().ok_or_else(|| WebhookError::Busy(NOT_CONFIGURED.to_owned()))?;
        Ok(now.token.is_none_or(|hash| token.is_some_and(|token| TokenHash::of(token) == hash)))
    }
}

/// Returns the router of health and metrics.
fn health(control: &Control, metrics: Arc<Metrics>) -> Router {
    let (for_health, for_metrics) = (control.clone(), control.clone());
    let healthz = move || async move {
        match for_health.is_running() {
            true => (StatusCode::OK, "ok\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "the control task has ended; restart fairway\n"),
        }
    };
    let metrics = move || async move {
        match metrics.gather(&for_metrics).await {
            Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        }
    };
    Router::new().route("/healthz", get(healthz)).route("/metrics", get(metrics))
}

async fn call(stream: TcpStream, tls: Option<ServerTls>, router: Router) {
    // A failed handshake is the client's error: nothing to log here.
    match tls {
        None => one_call(stream, router).await,
        Some(tls) => {
            let accepted = tokio::time::timeout(HEADER_MAX, TlsAcceptor::from(tls.config()).accept(stream)).await;
            if let Ok(Ok(stream)) = accepted {
                one_call(stream, router).await;
            }
        }
    }
}

/// Serves one request. A connection that is kept open could be closed just when the client sends its next call, which would end the client.
async fn one_call<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, router: Router) {
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEADER_MAX).max_buf_size(BUFFER_MAX);
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = tokio::time::timeout(CONNECTION_MAX, serving).await;
}

const NOT_CONFIGURED: &str = "the configuration in use has no section webhook; add it again, or restart \
     fairway to close this address";
/// Open connections; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// Longest time for the head of a request to arrive.
const HEADER_MAX: Duration = Duration::from_secs(5);
/// Largest head of a request, and largest piece of a body that is read at once, in bytes.
const BUFFER_MAX: usize = 64 << 10;
/// Longest time of a call: ExternalDNS waits 15 s.
const CONNECTION_MAX: Duration = Duration::from_secs(15);
/// Longest wait for calls in progress at shutdown: a call takes at most 4.5 s.
const STOP_MAX: Duration = Duration::from_secs(5);
