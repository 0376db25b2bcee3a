//! Metrics of HTTP requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};
use fairway_model::Durations;

use super::{Metrics, Sheet};

/// Method, route as a template, and status of requests, with their times. Bounded: routes and methods are those of the server.
type Times = BTreeMap<(&'static str, Arc<str>, u16), Durations>;

/// Times of HTTP requests since the start.
#[derive(Debug, Default)]
pub(crate) struct RequestTimes(Mutex<Times>);

impl RequestTimes {
    /// Returns the times of all requests that have ended.
    pub(super) fn all(&self) -> Times {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts a request by its route, never by its path, which clients choose. A stream counts once its head is ready.
pub(crate) async fn timed(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = word(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).into();
    let response = next.run(request).await;
    let mut times = metrics.requests.0.lock().unwrap_or_else(PoisonError::into_inner);
    times.entry((method, route, response.status().as_u16())).or_default().note(begun.elapsed());
    response
}

/// Returns the method as a label. Clients may send any word as a method, so others are one.
fn word(method: &Method) -> &'static str {
    let known = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];
    known.into_iter().find(|known| method == *known).unwrap_or("other")
}

/// Writes the times of requests.
pub(super) fn write(sheet: &mut Sheet, times: Times) {
    let rows = times
        .into_iter()
        .map(|((method, route, code), took)| ([method.to_owned(), route.to_string(), code.to_string()], took));
    sheet.durations("fairway_http_request_duration_seconds", &["method", "route", "code"], rows);
}
