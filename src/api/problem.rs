//! Errors of the API: `application/problem+json` (RFC 9457), each with a way out.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

pub(super) use super::state_wire::Flaw;
use super::state_wire::Problem;
use crate::{control::ControlError, store::objects::StoreError};

/// An error as an answer.
pub(super) fn problem(status: StatusCode, detail: impl Into<String>) -> Response {
    let title = status.canonical_reason().unwrap_or_default().to_owned();
    told(status, &Problem { title, status: status.as_u16(), detail: detail.into(), errors: vec![] })
}

/// An error with everything that is wrong, each in its place.
pub(super) fn flawed(status: StatusCode, what: &str, errors: Vec<Flaw>) -> Response {
    let title = status.canonical_reason().unwrap_or_default().to_owned();
    let place = |flaw: &Flaw| {
        if flaw.pointer.is_empty() { flaw.detail.clone() } else { format!("{}: {}", flaw.pointer, flaw.detail) }
    };
    let first: Vec<String> = errors.iter().take(FLAWS_TOLD).map(place).collect();
    let more = errors.len().saturating_sub(FLAWS_TOLD);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let detail = format!("{what}: {}{more}", first.join("; "));
    told(status, &Problem { title, status: status.as_u16(), detail, errors })
}

fn told(status: StatusCode, body: &Problem) -> Response {
    let text = serde_json::to_vec(body).expect("texts and numbers have a JSON form");
    (status, [(header::CONTENT_TYPE, "application/problem+json")], text).into_response()
}

/// A request that is refused, with its answer. In a box: an answer is far larger than what is mostly returned beside it.
#[derive(Debug)]
pub(super) struct Refusal(Box<Response>);

impl From<Response> for Refusal {
    fn from(answer: Response) -> Self {
        Self(Box::new(answer))
    }
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Self {
        refusal(&error).into()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let status = match error {
            StoreError::Conflict { .. } => StatusCode::PRECONDITION_FAILED,
            StoreError::Refused(_) => StatusCode::PAYLOAD_TOO_LARGE,
            StoreError::Compacted { .. }
            | StoreError::Damaged(_)
            | StoreError::Newer { .. }
            | StoreError::Unavailable(_) => return ControlError::NoStore(error.to_string()).into(),
        };
        problem(status, error.to_string()).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// Flaws that the detail names; `errors` has all.
const FLAWS_TOLD: usize = 10;

/// What kind of error a command's refusal is.
pub(super) fn refusal(error: &ControlError) -> Response {
    let status = match error {
        ControlError::NoSuchCluster(_) | ControlError::NoSuchOverride(_) | ControlError::NoSuchTable(_) => {
            StatusCode::NOT_FOUND
        }
        ControlError::TableFaulty(_) => StatusCode::BAD_REQUEST,
        ControlError::LoadRefused(_)
        | ControlError::TooManyOverrides
        | ControlError::TableOfFile(_)
        | ControlError::TableRefused(_) => StatusCode::CONFLICT,
        ControlError::NoStore(_) | ControlError::Stopped | ControlError::NotKept(_) | ControlError::TableNotKept(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    problem(status, error.to_string())
}
