//! The trace span of each request.

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};

use fairway_providers::webhook_server::Call;
use fairway_telemetry::traces::Traces;

/// Handles a request within a span of its own; does nothing more if traces are off.
pub(crate) async fn traced(State(traces): State<Traces>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let Some(work) = traces.request(request.headers(), POLLED.contains(&path)) else { return next.run(request).await };
    // Without the query: it may hold data that is not for a trace collector.
    work.say("url.path", path.to_owned());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = work.around(next.run(request)).await;
    let webhook_call = || response.extensions().get::<Call>().and_then(|call| call.route());
    work.answered(&method, matched.as_ref().map(MatchedPath::as_str).or_else(webhook_call), response.status());
    response
}

/// Paths that probes and scrapers request all the time: they start no trace.
const POLLED: [&str; 3] = ["/healthz", "/metrics", "/readyz"];
