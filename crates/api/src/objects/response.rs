//! Objects as responses: content, metadata of the store, and status conditions.

use std::sync::Arc;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::kinds::{path, section_of};
use crate::{
    problem::{ApiError, problem},
    state::AppState,
};
use fairway_api_types::objects_wire::{Condition, Metadata, ObjectBody, ObjectStatus};
use fairway_control::Configured;
use fairway_store::objects::{Kind, Object};

/// Returns the configuration that is served, and the revision of the objects in it.
pub(crate) fn serving(state: &AppState) -> (Arc<Configured>, u64) {
    let shared = state.control.shared();
    (Arc::clone(&shared.serving.published().configured), *shared.declarations.served.borrow())
}

/// Returns one object with its ETag.
pub(super) fn respond(status: StatusCode, object: &Object, state: &AppState) -> Response {
    let tag = HeaderValue::from_str(&format!("\"{}\"", object.revision)).expect("digits in quotes");
    let (configured, served) = serving(state);
    (status, [(header::ETAG, tag)], Json(body(object, &configured, served))).into_response()
}

/// Returns the response to a write: the object that it left, or 204 after a deletion.
pub(super) fn written(state: &AppState, object: Option<Object>, is_new: bool) -> Response {
    match (object, is_new) {
        (None, _) => StatusCode::NO_CONTENT.into_response(),
        (Some(object), false) => respond(StatusCode::OK, &object, state),
        (Some(object), true) => {
            let location = format!("{}/{}", path(object.key.kind()), object.key.name());
            let location = HeaderValue::from_str(&location).expect("keys are printable ASCII");
            let mut response = respond(StatusCode::CREATED, &object, state);
            response.headers_mut().insert(header::LOCATION, location);
            response
        }
    }
}

/// Returns the body of an object.
pub(crate) fn body(object: &Object, configured: &Configured, served: u64) -> ObjectBody {
    ObjectBody {
        spec: serde_json::from_slice(&object.value).unwrap_or_default(),
        metadata: Some(metadata(object)),
        status: Some(ObjectStatus {
            observed_generation: object.generation,
            conditions: conditions(object, configured, served),
        }),
    }
}

/// Returns the metadata of an object.
pub(crate) fn metadata(object: &Object) -> Metadata {
    Metadata {
        revision: object.revision,
        generation: object.generation,
        created: format!("{:.3}", object.created),
        changed: format!("{:.3}", object.changed),
        changed_by: object.by.identity.clone(),
        reason: object.by.reason.clone(),
        applied: object.by.applied,
    }
}

fn conditions(object: &Object, configured: &Configured, served: u64) -> Vec<Condition> {
    let errors = configured.not_served.get(&object.key);
    let errors = errors.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    let conflict = configured.merged.conflicts.get(&object.key);
    // The members of a shadowed pool are merged with those of the pool that shadows it, so it is still used.
    let is_shadowed = conflict.is_some() && object.key.kind() != Kind::Pool;
    let (is_served, reason) = match served >= object.revision {
        _ if errors.is_some() => (false, "Rejected"),
        _ if is_shadowed => (false, "Shadowed"),
        true => (true, "Served"),
        false => (false, "Pending"),
    };
    let accepted = if errors.is_none() { "Valid" } else { "Invalid" };
    let conflict_reason = if conflict.is_some() { "Shadowed" } else { "NoConflict" };
    let is_conflict = conflict.is_some();
    vec![
        Condition::new("Accepted", errors.is_none(), accepted, errors.unwrap_or_default()),
        Condition::new("Conflict", is_conflict, conflict_reason, conflict.cloned().unwrap_or_default()),
        Condition::new("Served", is_served, reason, String::new()),
    ]
}

/// Returns the error that no object has this name.
pub(super) fn not_found(kind: Kind, name: &str) -> ApiError {
    let detail =
        format!("{}: there is no object {name}; objects of configuration files are in /v1/state", section_of(kind));
    problem(StatusCode::NOT_FOUND, detail)
}
