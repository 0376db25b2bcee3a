//! Errors of the API: `application/problem+json` (RFC 9457), each with a way out.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::state_wire::Problem;
use crate::control::ControlError;

/// An error as an answer.
pub(super) fn problem(status: StatusCode, detail: impl Into<String>) -> Response {
    let title = status.canonical_reason().unwrap_or_default().to_owned();
    let body = Problem { title, status: status.as_u16(), detail: detail.into() };
    let text = serde_json::to_vec(&body).expect("texts and numbers have a JSON form");
    (status, [(header::CONTENT_TYPE, "application/problem+json")], text).into_response()
}

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
        ControlError::Stopped | ControlError::NotKept(_) | ControlError::TableNotKept(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    problem(status, error.to_string())
}
