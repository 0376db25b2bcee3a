//! Errors as responses: `application/problem+json` (RFC 9457), each with what to do about it.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

pub(crate) use fairway_api_types::problem_wire::{FieldError, Problem};
use fairway_control::ControlError;
use fairway_store::objects::{Kind, StoreError, idempotency::IdempotencyError};

/// The response to a request that failed. Boxed, since a response is far larger than most results that a handler returns.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Response>);

impl ApiError {
    /// Adds a header.
    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.0.headers_mut().insert(name, value.into());
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<ControlError> for ApiError {
    fn from(error: ControlError) -> Self {
        let status = match error {
            ControlError::NoSuchCluster(_)
            | ControlError::NoSuchOverride(_)
            | ControlError::NoSuchTable(_)
            | ControlError::NothingMatches { .. } => StatusCode::NOT_FOUND,
            ControlError::TableFaulty(_) => StatusCode::BAD_REQUEST,
            ControlError::KeyOfAnother => StatusCode::UNPROCESSABLE_ENTITY,
            ControlError::LoadRefused(_)
            | ControlError::NotConfirmed(_)
            | ControlError::RuleBroken(_)
            | ControlError::TooManyOverrides
            | ControlError::TableOfFile(_)
            | ControlError::TableRefused(_) => StatusCode::CONFLICT,
            ControlError::NoStore(_)
            | ControlError::Stopped
            | ControlError::NotKept(_)
            | ControlError::NotShared(_)
            | ControlError::TableNotKept(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        problem(status, error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Conflict { key, .. } if key.kind() == Kind::IdempotencyRecord => {
                problem(StatusCode::CONFLICT, HANDLED_ELSEWHERE)
            }
            StoreError::Conflict { .. } => problem(StatusCode::PRECONDITION_FAILED, error.to_string()),
            StoreError::Full(_) => problem(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
            StoreError::Refused(_) => problem(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
            StoreError::Compacted { .. }
            | StoreError::Damaged(_)
            | StoreError::Keys(_)
            | StoreError::Newer { .. }
            | StoreError::Unavailable(_) => {
                let error = Self::from(ControlError::NoStore(error.to_string()));
                error.header(header::RETRY_AFTER, HeaderValue::from_static("1"))
            }
        }
    }
}

impl From<IdempotencyError> for ApiError {
    fn from(error: IdempotencyError) -> Self {
        let status = match error {
            IdempotencyError::InProgress | IdempotencyError::Unreadable => StatusCode::CONFLICT,
            IdempotencyError::OtherRequest => StatusCode::UNPROCESSABLE_ENTITY,
            IdempotencyError::Store(error) => return error.into(),
            IdempotencyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        };
        problem(status, error.to_string())
    }
}

/// Returns an error with one sentence.
pub(crate) fn problem(status: StatusCode, detail: impl Into<String>) -> ApiError {
    with_errors(status, detail, vec![])
}

/// Returns the error of a request that is malformed: 400.
pub(crate) fn bad_request(detail: impl Into<String>) -> ApiError {
    problem(StatusCode::BAD_REQUEST, detail)
}

/// Returns the error of a path that no route has.
pub(crate) fn no_such_route(path: &str) -> ApiError {
    problem(StatusCode::NOT_FOUND, format!("there is no route at {path}; /openapi.json lists all"))
}

/// Returns an error for several fields of a body. The detail is the summary and the first ten of them.
pub(crate) fn invalid(status: StatusCode, summary: &str, errors: Vec<FieldError>) -> ApiError {
    let line = |error: &FieldError| match error.pointer.is_empty() {
        true => error.detail.clone(),
        false => format!("{}: {}", error.pointer, error.detail),
    };
    let first: Vec<String> = errors.iter().take(ERRORS_IN_DETAIL).map(line).collect();
    let more = errors.len().saturating_sub(ERRORS_IN_DETAIL);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    with_errors(status, format!("{summary}: {}{more}", first.join("; ")), errors)
}

/// Returns an error with a detail of its own, and with errors of fields.
pub(crate) fn with_errors(status: StatusCode, detail: impl Into<String>, errors: Vec<FieldError>) -> ApiError {
    let title = status.canonical_reason().unwrap_or_default().to_owned();
    let body = Problem { title, status: status.as_u16(), detail: detail.into(), errors };
    let text = serde_json::to_vec(&body).expect("texts and numbers have a JSON form");
    ApiError(Box::new((status, [(header::CONTENT_TYPE, "application/problem+json")], text).into_response()))
}

/// The response to a write over a limit of all declared objects, in the description of a route.
pub(crate) const OVER_LIMIT: (u16, &str) = (
    507,
    "A limit of all declared objects is reached: `detail` has the limit, its use and its key. Nothing was changed.",
);
/// Errors of fields that the detail names; `errors` has all.
const ERRORS_IN_DETAIL: usize = 10;
/// Two servers of a store handled requests with one key at the same time; this one was slower, and changed nothing.
const HANDLED_ELSEWHERE: &str = "another server has just handled a request with this Idempotency-Key; try again";
