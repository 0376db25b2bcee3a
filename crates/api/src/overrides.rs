//! `/v1/overrides`: temporary operator overrides of health and of load control.

use std::time::{Duration, SystemTime};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use fairway_model::{Override, OverrideKind, OverrideOrigin, Timestamp};

use crate::{
    idempotency,
    problem::{ApiError, bad_request},
    render::{OFF, override_state, texts},
    route::{IDEMPOTENCY_KEY, Route, Shape},
    state::{AppState, Caller, DryRun, Parameters, Remote, RequestBody},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{ADD_OVERRIDE, Endpoint, LIST_OVERRIDES, REMOVE_OVERRIDE};
use fairway_api_types::overrides_wire::{NewOverride, OverrideEffect, OverrideList, OverrideParameters, OverrideState};
use fairway_control::ControlError;
use fairway_control::overrides::{ActiveOverride, AddedOverride, OverrideRequest};

/// The routes of overrides.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(LIST_OVERRIDES, "listOverrides", "List the overrides")
            .description("Who added each, when and from where, and which one takes precedence where several match.")
            .requires(Verb::Observe)
            .returns(200, "The active overrides.", Shape::output::<OverrideList>().json())
            .handle(list),
        Route::new(ADD_OVERRIDE, "createOverride", "Create an override")
            .description(
                "With `scope` and `action` it sets the health of clusters; with `pools` and `load` it pins pools to their declared weights. Returns once the override is in \
                 force, and on disk or in the store that several servers share. One that leaves names without a healthy member requires `confirm=true`; \
                 `dryRun=true` returns the effect.",
            )
            .requires(Verb::Override)
            .query::<OverrideParameters>()
            .headers(&[&IDEMPOTENCY_KEY])
            .body(Shape::input::<NewOverride>().json())
            .returns(200, "With `dryRun`: the override without an id, and its effect.", Shape::output::<OverrideState>().json())
            .returns(201, "The override is in force, and on disk or in the store.", Shape::output::<OverrideState>().json())
            .errors(&[
                (400, "The body is invalid."),
                (404, "The scope matches no address of any cluster, or the pattern no pool with the step `load`."),
                (
                    409,
                    "The override would leave names without a healthy member and is not confirmed, it would break a rule of the \
                     configuration, or the maximum of 256 overrides is reached.",
                ),
                (422, "The idempotency key was used with another request."),
            ])
            .handle(create),
        Route::new(Endpoint::get("/v1/overrides/{id}"), "getOverride", "Get an override")
            .requires(Verb::Observe)
            .returns(200, "The override.", Shape::output::<OverrideState>().json())
            .errors(&[(404, "There is no such override.")])
            .handle(get),
        Route::new(REMOVE_OVERRIDE, "deleteOverride", "Delete an override")
            .description("Returns once the override is gone, also from the disk or the store.")
            .requires(Verb::Override)
            .returns(200, "The override that was deleted.", Shape::output::<OverrideState>().json())
            .errors(&[(404, "There is no such override.")])
            .handle(delete),
    ]
}

async fn list(State(state): State<AppState>) -> Json<OverrideList> {
    let published = state.control.shared().serving.published();
    let active = ActiveOverride::all(&published.overrides, &published.configured);
    let now = Timestamp::from(SystemTime::now()).to_string();
    Json(OverrideList { now, items: active.iter().map(override_state).collect() })
}

async fn get(State(state): State<AppState>, Path(id): Path<String>) -> Result<Json<OverrideState>, ApiError> {
    let published = state.control.shared().serving.published();
    let active = ActiveOverride::all(&published.overrides, &published.configured);
    let found = active.iter().find(|active| active.id.as_deref() == Some(&*id)).map(override_state);
    Ok(Json(found.ok_or(ControlError::NoSuchOverride(id))?))
}

async fn create(
    State(state): State<AppState>,
    (Caller(caller), Remote(from)): (Caller, Remote),
    Parameters(OverrideParameters { confirm, dry_run, local }): Parameters<OverrideParameters>,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let request = idempotency::identify(&headers, &caller, &[&b"POST /v1/overrides"[..], &body.0])?;
    let new =
        body.json::<NewOverride>("give scope and action (or pools and load), reason and forSecs as one JSON object")?;
    let now = Timestamp::from(SystemTime::now());
    let spec = parse(&new, now).map_err(bad_request)?;
    let request = OverrideRequest {
        spec: spec.with_origin(OverrideOrigin { by: Some(caller), at: Some(now), from }),
        id: request.map(|request| request.id()),
        is_confirmed: confirm,
        is_dry_run: dry_run,
        is_local: local,
    };
    let AddedOverride { active, effect } = state.control.add_override(request).await?;
    let effect = OverrideEffect { names_without_healthy_member: effect.names, first_names: texts(&effect.first) };
    let body = Json(OverrideState { effect: Some(effect), ..override_state(&active) });
    Ok(if dry_run { (Extension(DryRun), body).into_response() } else { (StatusCode::CREATED, body).into_response() })
}

async fn delete(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Path(id): Path<String>,
) -> Result<Json<OverrideState>, ApiError> {
    Ok(Json(override_state(&state.control.remove_override(&id, &caller).await?)))
}

/// Parses a body into the model; an error names its field.
fn parse(new: &NewOverride, now: Timestamp) -> Result<Override, String> {
    let kind = kind(new)?;
    if new.for_secs == 0 {
        return Err("forSecs: 0 would end at once; give 1 to 2592000 (30 days)".to_owned());
    }
    let expires = now.plus(Duration::from_secs(new.for_secs));
    Override::new(kind, &new.reason, expires, now).map_err(|error| error.to_string())
}

/// Parses the fields of a body that say what the override does: `scope` and `action`, or `pools` and `load`.
fn kind(new: &NewOverride) -> Result<OverrideKind, String> {
    let NewOverride { scope, action, pools, load, .. } = new;
    match [scope, action, pools, load].map(|field| !field.is_empty()) {
        [_, _, false, false] => Ok(OverrideKind::Health {
            scope: scope.parse().map_err(|error| format!("scope: {error}"))?,
            action: action.parse().map_err(|error| format!("action: {error}"))?,
        }),
        [false, false, ..] if load != OFF => Err(format!("load: {load:?} is not known; give off")),
        [false, false, ..] => {
            Ok(OverrideKind::LoadOff { pools: pools.parse().map_err(|error| format!("pools: {error}"))? })
        }
        _ => Err("an override has scope and action, or pools and load; give one pair of them".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(scope: &str, action: &str, pools: &str, load: &str) -> String {
        let [scope, action, pools, load] = [scope, action, pools, load].map(str::to_owned);
        kind(&NewOverride { scope, action, pools, load, ..NewOverride::default() })
            .map_or_else(|error| error, |kind| kind.to_string())
    }

    #[test]
    fn body_sets_health_of_clusters_or_load_control_of_pools() {
        assert_eq!(parsed("eu*", "drain", "", ""), "drain eu*");
        assert_eq!(parsed("", "", "shop*", "off"), "load-off pools shop*");
    }

    #[test]
    fn body_with_both_kinds_or_an_unknown_value_is_rejected() {
        let both = "an override has scope and action, or pools and load; give one pair of them";
        assert_eq!(parsed("eu*", "drain", "shop", "off"), both);
        assert_eq!(parsed("eu*", "", "", "off"), both);
        assert_eq!(parsed("", "", "shop", "on"), "load: \"on\" is not known; give off");
        assert_eq!(parsed("", "", "shop", ""), "load: \"\" is not known; give off");
        assert!(parsed("", "", "sh op", "off").starts_with("pools: \"sh op\" is not a pattern"));
    }
}
