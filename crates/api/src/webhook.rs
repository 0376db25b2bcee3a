//! The listeners of the webhook: the one that ExternalDNS speaks to, and the one of health and metrics beside it.
//!
//! The client ends its process for good where a connection is refused or cut off. So the listener is the first thing that opens and
//! the last that closes, each call has a connection of its own, and a replacing process answers on the same socket. TLS and the token
//! are those of the configuration in force when a connection comes.

use std::{fmt, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use fairway_providers::webhook_server::{Calls, Ledger, Refused, router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use super::{listen::serve, metrics::Metrics, traced::traced};
use fairway_access::{ServerTls, TokenHash};
use fairway_config::WebhookSettings;
use fairway_control::{Control, contributed::ContributionLedger};
use fairway_telemetry::traces::Traces;
use fairway_transport::ComputeGuard;

/// The webhook of a daemon.
pub struct Webhook {
    ledger: Arc<ContributionLedger>,
    calls: Arc<Calls>,
    /// True once the listeners are to end; also when the value is dropped.
    ending: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Default for Webhook {
    /// Returns a webhook without a listener.
    fn default() -> Self {
        Self { ledger: Arc::default(), calls: Arc::default(), ending: watch::channel(false).0, tasks: vec![] }
    }
}

impl Webhook {
    /// What it keeps, and what was called.
    pub fn parts(&self) -> (Arc<ContributionLedger>, Arc<Calls>) {
        (Arc::clone(&self.ledger), Arc::clone(&self.calls))
    }

    /// Answers ExternalDNS on this listener.
    pub fn answer(&mut self, listener: TcpListener, settings: &WebhookSettings, traces: &Traces) {
        let is_local = settings.listen.ip().to_canonical().is_loopback();
        let terms = Terms { ledger: Arc::clone(&self.ledger), first: Arc::new(settings.clone()) };
        let asked = terms.clone();
        let ledger = Arc::clone(&self.ledger) as Arc<dyn Ledger>;
        let bearer = Arc::new(move |shown: Option<&str>| asked.hear(shown));
        let router = router(ledger, Arc::clone(&self.calls), bearer, is_local);
        let router = router.layer(middleware::from_fn_with_state(traces.clone(), traced));
        self.accept(listener, router, move || terms.tls());
    }

    /// Shows health and metrics on this listener.
    pub fn show(&mut self, listener: TcpListener, control: &Control, metrics: Arc<Metrics>) {
        self.accept(listener, health(control, metrics), || None);
    }

    fn accept(
        &mut self,
        listener: TcpListener,
        router: Router,
        tls: impl Fn() -> Option<ServerTls> + Send + Sync + 'static,
    ) {
        let router = router.layer(middleware::from_fn(answered_beside));
        let end = self.ending.subscribe();
        self.tasks.push(tokio::spawn(async move {
            let accept = || async {
                let (stream, _) = listener.accept().await?;
                let (router, tls) = (router.clone(), tls());
                Ok(move |end| call(stream, tls, router, end))
            };
            serve(accept, CONNECTIONS_MAX, end).await;
        }));
    }

    /// Closes the listeners once the calls under way have ended.
    pub async fn stop(self) {
        self.ending.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(STOP_MAX, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

/// Has threads stand by at the DNS sockets meanwhile: the records of a call may be tens of thousands.
async fn answered_beside(request: Request, next: Next) -> Response {
    let _computing = ComputeGuard::begin();
    next.run(request).await
}

/// How calls are taken: as the configuration in force says, and before there is one, as that of the start does.
#[derive(Clone)]
struct Terms {
    ledger: Arc<ContributionLedger>,
    first: Arc<WebhookSettings>,
}

impl Terms {
    /// None where the section was taken out, which closes the listener at the next start.
    fn now(&self) -> Option<WebhookSettings> {
        let configured = self.ledger.configured();
        configured.map_or_else(|| Some(WebhookSettings::clone(&self.first)), |now| now.settings.webhook.clone())
    }

    fn tls(&self) -> Option<ServerTls> {
        self.now().map_or_else(|| self.first.tls.clone(), |now| now.tls)
    }

    fn hear(&self, shown: Option<&str>) -> Result<bool, Refused> {
        let now = self.now().ok_or_else(|| Refused::Busy(NOT_ANY_MORE.to_owned()))?;
        Ok(now.token.is_none_or(|hash| shown.is_some_and(|shown| TokenHash::of(shown) == hash)))
    }
}

/// Health and metrics, for probes and scrapers that reach no more than this.
fn health(control: &Control, metrics: Arc<Metrics>) -> Router {
    let (running, gathered) = (control.clone(), control.clone());
    let healthz = move || async move {
        match running.is_running() {
            true => (StatusCode::OK, "ok\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "the control task has ended; restart fairway\n"),
        }
    };
    let metrics = move || async move {
        match metrics.gather(&gathered).await {
            Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        }
    };
    Router::new().route("/healthz", get(healthz)).route("/metrics", get(metrics))
}

async fn call(stream: TcpStream, tls: Option<ServerTls>, router: Router, _: watch::Receiver<bool>) {
    // What a client does wrong is the client's matter.
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

/// One request and its answer: a connection that is kept could be closed at the very moment that the client takes it up again.
async fn one_call<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, router: Router) {
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEADER_MAX).max_buf_size(BUFFER_MAX);
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = tokio::time::timeout(CONNECTION_MAX, serving).await;
}

const NOT_ANY_MORE: &str = "the configuration in force has no webhook any more; give it the section again, or restart \
     fairway to close this address";
/// Connections open at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// Longest time for a request's head to arrive.
const HEADER_MAX: Duration = Duration::from_secs(5);
/// Most octets of a request's head, and of a piece of its body.
const BUFFER_MAX: usize = 64 << 10;
/// Longest time for a call and for its answer to be taken: the client waits 15 s.
const CONNECTION_MAX: Duration = Duration::from_secs(15);
/// Longest wait for calls under way at the end: they end by themselves.
const STOP_MAX: Duration = Duration::from_secs(5);
