//! The trace span of each request.

use axum::{
    extract::{MatchedPath, Request},
    response::Response,
};

use crate::serving::PROBED;
use fairway_providers::webhook_server::Call;
use fairway_telemetry::traces::Traces;

/// Handles a request within a span of its own. Does nothing more if traces are off, for the paths that probes request all the time, or if the
/// caller has not authenticated: it could fill the queue of spans.
pub(crate) async fn traced<F: Future<Output = Response>>(
    traces: &Traces,
    request: Request,
    is_authenticated: bool,
    handle: impl FnOnce(Request) -> F,
) -> Response {
    let path = request.uri().path();
    let work = if is_authenticated { traces.request(request.headers(), PROBED.contains(&path)) } else { None };
    let Some(work) = work else { return handle(request).await };
    // Without the query: it may hold data that is not for a trace collector.
    work.say("url.path", path.to_owned());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = work.around(handle(request)).await;
    let webhook_call = || response.extensions().get::<Call>().and_then(|call| call.route());
    work.answered(&method, matched.as_ref().map(MatchedPath::as_str).or_else(webhook_call), response.status());
    response
}
