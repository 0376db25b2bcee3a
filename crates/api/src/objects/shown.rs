//! How an object looks to whoever asks: what it says, what the store knows of it, what has become of it; and why there is none.

use std::sync::Arc;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::super::{
    problem::{Refusal, problem},
    routes::Site,
};
use fairway_api_types::objects_wire::{Condition, Metadata, ObjectBody, ObjectStatus};
use fairway_control::{Configured, declared::section};
use fairway_store::objects::{Kind, Object};

/// What objects are held against: what is served, and the revision of the objects in it.
pub(super) fn standing(site: &Site) -> (Arc<Configured>, u64) {
    let shared = site.control.shared();
    (Arc::clone(&shared.serving.published().configured), *shared.served.borrow())
}

/// One object, with its ETag.
pub(super) fn answer(status: StatusCode, object: &Object, site: &Site) -> Response {
    let tag = HeaderValue::from_str(&format!("\"{}\"", object.revision)).expect("digits in quotes");
    let (configured, served) = standing(site);
    (status, [(header::ETAG, tag)], Json(shown(object, &configured, served))).into_response()
}

/// An object as it is shown.
pub(super) fn shown(object: &Object, configured: &Configured, served: u64) -> ObjectBody {
    ObjectBody {
        spec: serde_json::from_slice(&object.value).unwrap_or_default(),
        metadata: Some(metadata(object)),
        status: Some(ObjectStatus {
            observed_generation: object.generation,
            conditions: conditions(object, configured, served),
        }),
    }
}

/// What the store knows of an object.
pub(crate) fn metadata(object: &Object) -> Metadata {
    Metadata {
        revision: object.revision,
        generation: object.generation,
        created: format!("{:.3}", object.created),
        changed: format!("{:.3}", object.changed),
        changed_by: object.by.who.clone(),
        reason: object.by.why.clone(),
        applied: object.by.applied,
    }
}

fn conditions(object: &Object, configured: &Configured, served: u64) -> Vec<Condition> {
    let faults = configured.left_out.get(&object.key);
    let faults = faults.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    let overruled = configured.merged.conflicts.get(&object.key);
    let said = |kind: &str, holds: bool, reason: &str, message: Option<&String>| Condition {
        kind: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.cloned().unwrap_or_default(),
    };
    // Of a pool that is overruled the members count still.
    let is_heard = overruled.is_none() || object.key.kind() == Kind::Pool;
    let (is_served, why) = match served >= object.revision {
        _ if faults.is_some() => (false, "Rejected"),
        _ if !is_heard => (false, "Shadowed"),
        true => (true, "Served"),
        false => (false, "Pending"),
    };
    vec![
        said("Accepted", faults.is_none(), if faults.is_none() { "Valid" } else { "Invalid" }, faults.as_ref()),
        said("Conflict", overruled.is_some(), if overruled.is_some() { "Shadowed" } else { "NoConflict" }, overruled),
        said("Served", is_served, why, None),
    ]
}

/// Nothing has this name.
pub(super) fn unknown(kind: Kind, name: &str) -> Refusal {
    let section = section(kind).unwrap_or_default();
    let what = format!("{section}: there is no object {name}; objects of configuration files are in /v1/state");
    problem(StatusCode::NOT_FOUND, what).into()
}
