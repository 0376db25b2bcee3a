//! The table of routes, and the routers that are made of it.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, Request},
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::Response,
    routing::any,
};

use super::{
    contributions,
    gate::{Gate, Via, gate},
    intents, latency, load,
    metrics::Metrics,
    objects,
    openapi::Document,
    overrides, page,
    problem::problem,
    publishing,
    route::Route,
    server,
    traced::traced,
    watch::{self, Hub},
};
use crate::once::UnderWay;
use fairway_control::Control;

/// What the handlers use.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) control: Control,
    pub(super) metrics: Arc<Metrics>,
    /// Orders the writes of intents: see `intents`.
    pub(super) intent_writes: Arc<tokio::sync::RwLock<()>>,
    /// What lets requests through.
    pub(super) gate: Gate,
    /// Writes with a key that are under way.
    pub(super) under_way: UnderWay,
    /// What watchers pull from.
    pub(super) hub: Arc<Hub>,
    /// True once streams are to end, so that nobody waits for them.
    pub(super) ending: tokio::sync::watch::Receiver<bool>,
}

/// Who asks, as far as it is known: it stands in the history of what they change.
#[derive(Clone, Debug)]
pub(super) struct Caller(pub(super) String);

/// Every route of the server. Each row says what there is to know of it; its handler lies in the same file.
pub(super) fn table() -> Vec<Route> {
    [
        server::routes(),
        overrides::routes(),
        watch::routes(),
        load::routes(),
        latency::routes(),
        publishing::routes(),
        contributions::routes(),
        objects::routes(),
        intents::routes(),
        page::routes(),
    ]
    .concat()
}

/// The routers of the HTTP listener and of the control socket, which has the routes for this machine alone, too.
pub(super) fn of_both(site: &Site) -> (Router, Router) {
    let (local, shared): (Vec<_>, Vec<_>) = table().into_iter().partition(|route| route.is_local);
    let all = shared.iter().cloned().chain(local).collect();
    (router(shared, site), router(all, site))
}

fn router(routes: Vec<Route>, site: &Site) -> Router {
    let handled = routes.iter().filter_map(|route| Some((&route.path, route.handler()?)));
    let router = handled.fold(Router::new(), |router, (path, handler)| router.route(path, handler));
    let one_intent = || any(intents::answer_one).layer(DefaultBodyLimit::max(intents::BODY_MAX));
    router
        .route(INTENT_PATHS, one_intent())
        .route(INTENT_KEYS, one_intent())
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(site.gate.clone(), gate))
        .layer(middleware::from_fn(guard))
        .layer(middleware::from_fn_with_state(site.control.shared().traces.clone(), traced))
        .layer(Extension(Arc::new(Document::of(routes))))
        .with_state(site.clone())
}

/// Bounds the time of every request, and says of every answer that it is for now, is what it says it is, and is for nobody's frame.
async fn guard(request: Request, next: Next) -> Response {
    let is_tls = matches!(request.extensions().get(), Some(Via::Http { is_tls: true, .. }));
    let late = |_| problem(StatusCode::SERVICE_UNAVAILABLE, "no answer in time; fairway is busy, look at its log");
    let mut response = tokio::time::timeout(REQUEST_MAX, next.run(request)).await.unwrap_or_else(late);
    let headers = response.headers_mut();
    // The page's files say themselves how long they are good.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in GUARDS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

pub(super) async fn unknown(uri: Uri) -> Response {
    problem(StatusCode::NOT_FOUND, format!("there is no route at {}; /openapi.json lists all", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    problem(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not support {method}", uri.path()))
}

/// What a browser is told of every answer; the page's files say themselves what they may do.
const GUARDS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Longest time for one answer. A reload of a million names takes some seconds, and warms new targets up.
const REQUEST_MAX: Duration = Duration::from_secs(110);
/// Paths of ONAP and EMCO, and paths of intents by their keys. `intents` reads them, since they come in more spellings than the router can
/// tell apart; each has a row in the table all the same.
pub(super) const INTENT_PATHS: &str = "/v2/{*path}";
pub(super) const INTENT_KEYS: &str = "/v1/intents/{*key}";
