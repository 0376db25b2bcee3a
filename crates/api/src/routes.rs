//! The table of routes, and the routers that are built from it. Nothing else in this crate but `listen.rs` uses this file.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::any,
};

use crate::{
    auth::{Auth, Connection, authorize},
    contributions, history, intents, latency, load,
    metrics::timed,
    objects,
    openapi::Document,
    overrides, page,
    problem::{ApiError, no_such_route, problem},
    publishing,
    route::{INTENT_KEYS, INTENT_PATHS, Route, limited},
    server,
    state::{AppState, BodyLimit},
    watch,
};

/// Returns every route of the server. Handlers are in the same file as their rows.
pub(crate) fn table() -> Vec<Route> {
    [
        server::routes(),
        overrides::routes(),
        watch::routes(),
        history::routes(),
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

/// Returns the routers of the HTTP listener and of the control socket. The control socket has the local routes too.
pub(crate) fn routers(state: &AppState, auth: &Auth) -> (Router, Router) {
    let (local, shared): (Vec<_>, Vec<_>) = table().into_iter().partition(|route| route.is_local);
    let all = shared.iter().cloned().chain(local).collect();
    (router(shared, state, auth), router(all, state, auth))
}

fn router(routes: Vec<Route>, state: &AppState, auth: &Auth) -> Router {
    let mut router = Router::new();
    for (route, handler) in routes.iter().filter_map(|route| Some((route, route.handler()?))) {
        router = router.route(&route.path, handler);
    }
    let one_intent = || limited(any(intents::one), BodyLimit(intents::BODY_MAX));
    router
        .route(INTENT_PATHS, one_intent())
        .route(INTENT_KEYS, one_intent())
        .fallback(async |uri: Uri| no_such_route(uri.path()))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(auth.clone(), authorize))
        .layer(middleware::from_fn(guard))
        .layer(middleware::from_fn_with_state(Arc::clone(&state.metrics), timed))
        .layer(Extension(Arc::new(Document::of(routes))))
        .with_state(state.clone())
}

/// Bounds the time of every request, and adds the headers that every response has.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let is_tls = matches!(request.extensions().get(), Some(Connection::Http { is_tls: true, .. }));
    let mut response = match tokio::time::timeout(REQUEST_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "no answer in time; fairway is busy, look at its log")
            .into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in RESPONSE_HEADERS {
        // Files of the page have values of their own for some.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    problem(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not support {method}", uri.path()))
}

/// Headers that keep browsers from caching, framing or misreading a response.
const RESPONSE_HEADERS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Longest time for one response. A reload of a million names takes some seconds, and waits for the first probes of new targets.
const REQUEST_MAX: Duration = Duration::from_secs(110);
