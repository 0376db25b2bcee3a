//! `/v1/overrides`: temporary operator overrides of health.

use std::time::{Duration, SystemTime};

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use fairway_model::{Override, Timestamp};

use super::{
    problem::{problem, refusal},
    route::{IDEMPOTENCY_KEY, Route, Shape},
    routes::{Caller, Site},
};
use crate::once::Given;
use fairway_access::Verb;
use fairway_api_types::endpoints::{ADD_OVERRIDE, REMOVE_OVERRIDE};
use fairway_api_types::state_wire::{NewOverride, OverrideState};
use fairway_store::objects::Author;

/// The routes of overrides.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(ADD_OVERRIDE, "createOverride", "Create an override")
            .description("Returns once the override is in force and on disk.")
            .requires(Verb::Force)
            .headers(&[&IDEMPOTENCY_KEY])
            .body(Shape::input::<NewOverride>().json())
            .returns(201, "The override is in force and on disk.", Shape::output::<OverrideState>().json())
            .errors(&[
                (400, "The body is invalid."),
                (404, "There is no such cluster."),
                (409, "There are 256 overrides already."),
                (422, "The idempotency key was used with another request."),
            ])
            .handle(create),
        Route::new(REMOVE_OVERRIDE, "deleteOverride", "Delete an override")
            .description("Returns once the override is gone, also from the disk.")
            .requires(Verb::Force)
            .returns(200, "The override that was deleted.", Shape::output::<OverrideState>().json())
            .errors(&[(404, "There is no such override.")])
            .handle(delete),
    ]
}

async fn create(
    State(site): State<Site>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) => return problem(error.status(), format!("{}; the limit is 16 KiB", error.body_text())),
    };
    let by = Author::new(caller.map(|Extension(Caller(who))| who).unwrap_or_default(), "");
    let given = match Given::read(&headers, &by, &[&b"POST /v1/overrides"[..], &body]) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let new = match serde_json::from_slice::<NewOverride>(&body) {
        Ok(new) => new,
        Err(error) => return bad(format!("{error}; give scope, action, reason and forSecs as one JSON object")),
    };
    let new = match parse(&new, Timestamp::from(SystemTime::now())) {
        Ok(new) => new,
        Err(fault) => return bad(fault),
    };
    let added = match given {
        Some(given) => site.control.add_override_once(new, given.id()).await,
        None => site.control.add_override(new).await,
    };
    match added {
        Ok(state) => (StatusCode::CREATED, Json(state)).into_response(),
        Err(error) => refusal(&error),
    }
}

async fn delete(State(site): State<Site>, Path(id): Path<String>) -> Response {
    match site.control.remove_override(&id).await {
        Ok(state) => Json(state).into_response(),
        Err(error) => refusal(&error),
    }
}

fn bad(detail: String) -> Response {
    problem(StatusCode::BAD_REQUEST, detail)
}

/// Parses a body into the model; each error names its field.
fn parse(new: &NewOverride, now: Timestamp) -> Result<Override, String> {
    let scope = new.scope.parse().map_err(|error| format!("scope: {error}"))?;
    let forced = new.action.parse().map_err(|error| format!("action: {error}"))?;
    if new.for_secs == 0 {
        return Err("forSecs: 0 would end at once; give 1 to 2592000 (30 days)".to_owned());
    }
    let expires = now.plus(Duration::from_secs(new.for_secs));
    Override::new(scope, forced, &new.reason, expires, now).map_err(|error| error.to_string())
}
