//! State that the handlers share, and the data that they extract from requests.

use std::{convert::Infallible, fmt, sync::Arc};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, Request, rejection::QueryRejection},
    http::request::Parts,
};
use tokio::sync::{RwLock, watch};

use crate::{
    metrics::Metrics,
    problem::{ApiError, bad_request, problem},
    watch::Hub,
};
use fairway_api_types::state_wire::Body;
use fairway_control::Control;
use fairway_store::objects::idempotency::RequestsInProgress;

/// State of the handlers.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) control: Control,
    pub(crate) metrics: Arc<Metrics>,
    /// Orders writes of intents: see `intents/handler.rs`.
    pub(crate) intent_writes: Arc<RwLock<()>>,
    /// Requests with an idempotency key that are being handled.
    pub(crate) requests: RequestsInProgress,
    /// Events for `GET /v1/watch`.
    pub(crate) hub: Arc<Hub>,
    /// True once streams have to end, so that the shutdown need not wait for them.
    pub(crate) ending: watch::Receiver<bool>,
}

/// Mark on the response to a dry run, from the code that made no change. A parameter of the request would also hide a write that ignores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DryRun;

/// Identity of the caller, for the history of what it changes. Empty on routes that are open to all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Address that a request came from, or `control socket`, as the audit log has it. Empty on routes that are open to all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remote(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Remote {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// True if the caller has the verb `operate` in all projects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operates(pub(crate) bool);

impl<S: Send + Sync> FromRequestParts<S> for Operates {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or_default())
    }
}

/// The query of a request; 400 if it is invalid.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T, S: Send + Sync> FromRequestParts<S> for Parameters<T>
where
    Query<T>: FromRequestParts<S, Rejection = QueryRejection>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(parameters)| Self(parameters)).map_err(|error| bad_request(error.body_text()))
    }
}

/// The body of a request; 413 if it is larger than its route allows.
#[derive(Debug)]
pub(crate) struct RequestBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RequestBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let limit = request.extensions().get::<BodyLimit>().copied();
        Bytes::from_request(request, state).await.map(Self).map_err(|error| {
            let limit = limit.map(|limit| format!("; the limit is {limit}")).unwrap_or_default();
            problem(error.status(), format!("{}{limit}", error.body_text()))
        })
    }
}

impl RequestBody {
    /// Parses the body as JSON; 400 with a hint if it is not of this type.
    pub(crate) fn json<T: Body>(&self, hint: &str) -> Result<T, ApiError> {
        serde_json::from_slice(&self.0).map_err(|error| bad_request(format!("{error}; {hint}")))
    }
}

/// Largest body of a route, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyLimit(pub(crate) usize);

impl fmt::Display for BodyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> 10 {
            kib @ 0..1024 => write!(f, "{kib} KiB"),
            kib => write!(f, "{} MiB", kib >> 10),
        }
    }
}

/// Checks a text for the history or the log: one line of at most 1,024 bytes, as the store takes it. `name` is that of the field.
pub(crate) fn check_line(name: &str, text: &str) -> Result<(), String> {
    match text.len() > LINE_MAX || text.chars().any(char::is_control) {
        true => Err(format!("{name}: give one line of at most {LINE_MAX} bytes")),
        false => Ok(()),
    }
}

/// Longest reason of a change, in bytes (`AUTHOR_MAX` of the store).
const LINE_MAX: usize = 1_024;
