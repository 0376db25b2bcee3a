//! The span of each request: what was asked for by its route, and how it was answered.

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};

use fairway_providers::webhook_server::Call;
use fairway_telemetry::traces::Traces;

/// Does all that comes of a request within its span; costs nothing where traces are off.
pub(super) async fn traced(State(traces): State<Traces>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let Some(work) = traces.request(request.headers(), POLLED.contains(&path)) else { return next.run(request).await };
    // The query is left out: what stands there is the client's own.
    work.say("url.path", path.to_owned());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = work.around(next.run(request)).await;
    let called = || response.extensions().get::<Call>().and_then(|call| call.route());
    work.answered(&method, matched.as_ref().map(MatchedPath::as_str).or_else(called), response.status());
    response
}

/// What probes and scrapers ask all the time: no trace begins with it.
const POLLED: [&str; 3] = ["/healthz", "/metrics", "/readyz"];
