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
use fairway_api_types::objects_wire::{Condition, Metadata, ObjectBody, ObjectSource, ObjectStatus};
use fairway_control::Published;
use fairway_model::{ClusterName, PoolName};
use fairway_store::objects::{Key, Kind, Object};

/// Returns what is published about the configuration that is served, and the revision of the objects in it.
pub(crate) fn serving(state: &AppState) -> (Arc<Published>, u64) {
    let shared = state.control.shared();
    (shared.serving.published(), *shared.declarations.served.borrow())
}

/// Returns one object with its ETag.
pub(super) fn respond(status: StatusCode, object: &Object, state: &AppState) -> Response {
    let tag = HeaderValue::from_str(&format!("\"{}\"", object.revision)).expect("digits in quotes");
    let (published, served) = serving(state);
    (status, [(header::ETAG, tag)], Json(body(object, &published, served))).into_response()
}

/// Returns the response to a write: the object afterwards, or 204 after a deletion.
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
pub(crate) fn body(object: &Object, published: &Published, served: u64) -> ObjectBody {
    ObjectBody {
        spec: serde_json::from_slice(&object.value).unwrap_or_default(),
        metadata: Some(metadata(object)),
        status: Some(ObjectStatus {
            observed_generation: object.generation,
            conditions: conditions(object, published, served),
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
        source: ObjectSource::default(),
    }
}

fn conditions(object: &Object, published: &Published, served: u64) -> Vec<Condition> {
    let configured = &published.configured;
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
    let mut conditions = vec![
        Condition::new("Accepted", errors.is_none(), accepted, errors.unwrap_or_default()),
        Condition::new("Conflict", is_conflict, conflict_reason, conflict.cloned().unwrap_or_default()),
        Condition::new("Served", is_served, reason, String::new()),
    ];
    conditions.extend(denied(&object.key, published).map(target_not_allowed));
    conditions
}

/// Returns the first target of a cluster, a pool, or the pool of a name that this server may not connect to, with the reason.
fn denied<'a>(key: &Key, published: &'a Published) -> Option<&'a str> {
    let denied = &published.denied;
    match key.kind() {
        _ if denied.is_empty() => None,
        Kind::Cluster => denied.of_cluster(&ClusterName::new(key.name()).ok()?),
        Kind::Pool => denied.of_pool(&PoolName::new(key.name()).ok()?),
        Kind::Name => denied.of_pool(&published.configured.objects.name(&key.name().parse().ok()?)?.pool),
        _ => None,
    }
}

/// Returns the condition of an object with a target that this server may not connect to.
pub(crate) fn target_not_allowed(target: &str) -> Condition {
    Condition::new("TargetNotAllowed", true, "NotAllowed", not_allowed(target))
}

/// Returns the message about a target that this server may not connect to.
pub(crate) fn not_allowed(target: &str) -> String {
    format!(
        "{target}; it is not probed and not answered: use another address, or have the operator add it to the configuration files or to \
         health.networks.allow"
    )
}

/// Returns the error that no object has this name.
pub(super) fn not_found(kind: Kind, name: &str) -> ApiError {
    let section = section_of(kind);
    problem(StatusCode::NOT_FOUND, format!("{section}: there is no object {name}; GET /v1/{section} lists all"))
}

/// Returns the error that the API declares no object of this name.
pub(super) fn not_declared(kind: Kind, name: &str) -> ApiError {
    let section = section_of(kind);
    let detail = format!(
        "{section}: the API declares no object {name}; if it is served, GET /v1/{section}/{name} has its source"
    );
    problem(StatusCode::NOT_FOUND, detail)
}
