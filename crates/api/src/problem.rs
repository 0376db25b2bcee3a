//! What of the daemon's errors is which problem of the API.

mod body;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};

pub(crate) use self::body::{Flaw, detailed, flawed, problem};
use fairway_control::ControlError;
use fairway_store::objects::StoreError;

/// A request that is refused, with its answer. In a box: an answer is far larger than what is mostly returned beside it.
#[derive(Debug)]
pub(super) struct Refusal(Box<Response>);

impl From<Response> for Refusal {
    fn from(answer: Response) -> Self {
        Self(Box::new(answer))
    }
}

impl From<Box<Response>> for Refusal {
    fn from(answer: Box<Response>) -> Self {
        Self(answer)
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

/// What kind of error a command's refusal is.
pub(super) fn refusal(error: &ControlError) -> Response {
    let status = match error {
        ControlError::NoSuchCluster(_) | ControlError::NoSuchOverride(_) | ControlError::NoSuchTable(_) => {
            StatusCode::NOT_FOUND
        }
        ControlError::TableFaulty(_) => StatusCode::BAD_REQUEST,
        ControlError::KeyOfAnother => StatusCode::UNPROCESSABLE_ENTITY,
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
