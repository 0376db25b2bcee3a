//! The listener of the webhook, for calls of ExternalDNS.
//!
//! ExternalDNS exits if a connection is refused or cut off. So this listener is the first to open and the last to close, each call has a
//! connection of its own, and a replacing process takes over the same socket. TLS and credentials are those of the configuration in use when
//! the connection is accepted.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{Extensions, StatusCode},
    middleware::{self, Next},
    response::Response,
};
use fairway_providers::webhook_server::{Calls, EndpointStore, Scope, WebhookError, router, scope_of_path, token_of};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::{
    connections::{Mark, Slots},
    serving::{Accepted, Bounds, Opened, Stream, handshake, serve},
    traced::traced,
};
use fairway_access::{ServerTls, Subject, subjects_of};
use fairway_config::WebhookSettings;
use fairway_control::contributed::ContributionLedger;
use fairway_telemetry::traces::Traces;
use fairway_transport::ComputeGuard;

/// The webhook of a daemon; without a listener by default.
#[derive(Default)]
pub struct Webhook {
    /// Contributions of its clients.
    pub ledger: Arc<ContributionLedger>,
    /// Counters of calls.
    pub calls: Arc<Calls>,
    /// Settings at the start, until the first configuration is in use. A reload may replace their private key.
    first: FirstSettings,
    /// True once the listener has to end; also when the sender is dropped.
    ending: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Webhook {
    /// Serves ExternalDNS on this listener.
    pub fn serve_calls(&mut self, listener: TcpListener, settings: &WebhookSettings, traces: &Traces) {
        let is_local = settings.listen.ip().to_canonical().is_loopback();
        *lock(&self.first) = Some(settings.clone());
        let (ledger, first) = (Arc::clone(&self.ledger), Arc::clone(&self.first));
        let access = CallAccess { ledger, first, is_tls: settings.tls.is_some() };
        let for_calls = access.clone();
        let ledger = Arc::clone(&self.ledger) as Arc<dyn EndpointStore>;
        let check = Arc::new(move |client: &Scope, request: &Request| for_calls.check(client, request));
        let router = router(ledger, Arc::clone(&self.calls), check, is_local);
        let router = router.layer(middleware::from_fn_with_state((access.clone(), traces.clone()), authenticate));
        let router = router.layer(middleware::from_fn(computing));
        let ending = self.ending.subscribe();
        self.tasks.spawn(async move {
            let accept = || async {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted::new(peer.ip(), CLIENT_MAX, open(stream, access.tls())))
            };
            serve(accept, &BOUNDS, router, ending).await;
        });
    }

    /// Drops the settings of the start: from now on those of the configuration in use count.
    pub fn drop_first_settings(&self) {
        *lock(&self.first) = None;
    }

    /// Closes the listener and waits up to five seconds for calls in progress.
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

/// Records if a call has the token or certificate that is required, for its connection and its trace; the router rejects calls that have not.
async fn authenticate(State((access, traces)): State<(CallAccess, Traces)>, request: Request, next: Next) -> Response {
    let is_authenticated = access.check(&scope_of_path(request.uri().path()), &request) == Ok(true);
    if let Some(mark) = request.extensions().get::<Mark>().filter(|_| is_authenticated) {
        mark.authenticated();
    }
    traced(&traces, request, is_authenticated, |request| next.run(request)).await
}

type FirstSettings = Arc<Mutex<Option<WebhookSettings>>>;

fn lock(first: &FirstSettings) -> MutexGuard<'_, Option<WebhookSettings>> {
    first.lock().unwrap_or_else(PoisonError::into_inner)
}

/// TLS and credentials of calls.
#[derive(Clone)]
struct CallAccess {
    ledger: Arc<ContributionLedger>,
    first: FirstSettings,
    /// True if the listener began with TLS.
    is_tls: bool,
}

impl CallAccess {
    /// Returns the settings in use. None if a reload removed the section; the listener itself is closed at the next start.
    fn settings(&self) -> Option<WebhookSettings> {
        let configured = self.ledger.configured();
        configured.map_or_else(|| lock(&self.first).clone(), |now| now.settings.webhook.clone())
    }

    /// Returns the TLS settings in use. None if a reload removed the section of a listener with TLS: its clients would send their tokens
    /// without encryption, so connections are closed.
    fn tls(&self) -> Option<Option<ServerTls>> {
        self.settings().map(|now| now.tls).or_else(|| (!self.is_tls).then_some(None))
    }

    /// Returns true if a call of a client is allowed.
    fn check(&self, client: &Scope, request: &Request) -> Result<bool, WebhookError> {
        let now = self.settings().ok_or_else(|| WebhookError::Busy(NOT_CONFIGURED.to_owned()))?;
        let owner = match client {
            Scope::Root => None,
            Scope::Owner(name) => Some(&**name),
        };
        let certificate = request.extensions().get::<ClientCertificate>().map_or(&[][..], |shown| &shown.0);
        Ok(now.accepts(owner, token_of(request.headers()).as_deref(), certificate))
    }
}

async fn open(stream: TcpStream, tls: Option<Option<ServerTls>>) -> Opened {
    let mut extensions = Extensions::new();
    let stream: Box<dyn Stream> = match tls? {
        None => Box::new(stream),
        Some(tls) => {
            let stream = handshake(&tls, stream).await?;
            let chain = stream.get_ref().1.peer_certificates();
            if let Some(certificate) = chain.and_then(|chain| chain.first()) {
                extensions.insert(ClientCertificate(subjects_of(certificate).into()));
            }
            Box::new(stream)
        }
    };
    Some((stream, extensions))
}

/// Subjects of the client's certificate, of an authority of `webhook.tls.clientCa`.
#[derive(Clone)]
struct ClientCertificate(Arc<[Subject]>);

const NOT_CONFIGURED: &str = "the configuration in use has no section webhook; add it again, or restart \
     fairway to close this address";
/// Bounds of the webhook.
const BOUNDS: Bounds = Bounds {
    slots: Slots { all: 256, reserve: 32 },
    // One call per connection: one that is kept open could be closed just when the client sends its next call, which would end the client.
    idle_max: None,
    buffer_max: 64 << 10,
    // ExternalDNS waits 15 s.
    age_max: Duration::from_secs(15),
    // ExternalDNS exits after every 4xx.
    client_overload: StatusCode::SERVICE_UNAVAILABLE,
};
/// Maximum number of connections of one client. Several clusters may share one address, and each calls about once a minute.
const CLIENT_MAX: usize = 32;
/// Longest wait for calls in progress at shutdown: a call takes at most 4.5 s.
const STOP_MAX: Duration = Duration::from_secs(5);
