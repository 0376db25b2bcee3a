//! `/v1/overrides`: temporary operator overrides of health.

use std::time::{Duration, SystemTime};

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
};
use fairway_model::{Override, Timestamp};

use crate::{
    idempotency,
    problem::{ApiError, bad_request},
    render::override_state,
    route::{IDEMPOTENCY_KEY, Route, Shape},
    state::{AppState, Caller, RequestBody},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{ADD_OVERRIDE, REMOVE_OVERRIDE};
use fairway_api_types::state_wire::{NewOverride, OverrideState};

/// The routes of overrides.
pub(crate) fn routes() -> Vec<Route> {
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
                (409, "The maximum of 256 overrides is reached."),
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
    State(state): State<AppState>,
    Caller(caller): Caller,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<(StatusCode, Json<OverrideState>), ApiError> {
    let request = idempotency::identify(&headers, &caller, &[&b"POST /v1/overrides"[..], &body.0])?;
    let new = body.json::<NewOverride>("give scope, action, reason and forSecs as one JSON object")?;
    let new = parse(&new, Timestamp::from(SystemTime::now())).map_err(bad_request)?;
    let added = state.control.add_override(new, request.map(|request| request.id())).await?;
    Ok((StatusCode::CREATED, Json(override_state(&added))))
}

async fn delete(State(state): State<AppState>, Path(id): Path<String>) -> Result<Json<OverrideState>, ApiError> {
    Ok(Json(override_state(&state.control.remove_override(&id).await?)))
}

/// Parses a body into the model; an error names its field.
fn parse(new: &NewOverride, now: Timestamp) -> Result<Override, String> {
    let scope = new.scope.parse().map_err(|error| format!("scope: {error}"))?;
    let action = new.action.parse().map_err(|error| format!("action: {error}"))?;
    if new.for_secs == 0 {
        return Err("forSecs: 0 would end at once; give 1 to 2592000 (30 days)".to_owned());
    }
    let expires = now.plus(Duration::from_secs(new.for_secs));
    Override::new(scope, action, &new.reason, expires, now).map_err(|error| error.to_string())
}
