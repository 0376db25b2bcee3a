//! `PUT` and `GET /v1/load/{cluster}`: pushed load reports.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use fairway_health::load::{LoadAmount, PushedLoad};
use fairway_model::Load;

use crate::{
    problem::{ApiError, bad_request, problem},
    render::load_state,
    route::{Route, Shape},
    state::{AppState, Operates, RequestBody},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{Endpoint, PUSH_LOAD};
use fairway_api_types::load_wire::{LoadState, NewLoad};
use fairway_config::parse_duration;

/// The routes of pushed loads.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(PUSH_LOAD, "pushLoad", "Report the load of a cluster")
            .requires(Verb::Report)
            .body(Shape::input::<NewLoad>().json())
            .returns(200, "The load of the cluster after the push.", Shape::output::<LoadState>().json())
            .errors(&[
                (400, "The body is invalid."),
                (404, "There is no such cluster."),
                (409, "The sequence number is out of order, or the cluster declares no capacity."),
            ])
            .handle(push),
        Route::new(Endpoint::get("/v1/load/{cluster}"), "getLoad", "Get the load that was reported of a cluster")
            .description("That of the last report by `PUT`, also after its end; `/v1/state` has the other sources.")
            .requires(Verb::Observe)
            .returns(200, "The load.", Shape::output::<LoadState>().json())
            .errors(&[(404, "There is no such cluster, or nobody has reported its load since the start.")])
            .handle(get),
    ]
}

async fn get(
    operates: Operates,
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Json<LoadState>, ApiError> {
    let (loads, _) = state.control.shared().probes.loads.states();
    let of_cluster = loads.iter().filter(|load| load.cluster.as_str() == name);
    let pushed = of_cluster.flat_map(|load| &load.sources).find(|source| source.source.is_none());
    let not_found =
        || problem(StatusCode::NOT_FOUND, format!("{name}: nobody has reported the load of such a cluster"));
    Ok(Json(load_state(operates, pushed.ok_or_else(not_found)?)))
}

async fn push(
    operates: Operates,
    State(state): State<AppState>,
    Path(cluster): Path<String>,
    body: RequestBody,
) -> Result<Json<LoadState>, ApiError> {
    let new = body.json::<NewLoad>("give load or used as whole numbers, and optionally sequence and validFor")?;
    let push = parse(&new).map_err(bad_request)?;
    let report = state.control.push_load(&cluster, push).await?;
    Ok(Json(report.as_ref().map(|report| load_state(operates, report)).unwrap_or_default()))
}

/// Parses a body into the model; an error names its field.
fn parse(new: &NewLoad) -> Result<PushedLoad, String> {
    let amount = match (new.load, new.used) {
        (Some(load), None) => {
            let most = Load::MAX.0;
            let load = u32::try_from(load).ok().filter(|load| *load <= most);
            LoadAmount::Permille(
                load.ok_or_else(|| format!("load: over {most}; give permille of the capacity, 1000 is full"))?,
            )
        }
        (None, Some(used)) => LoadAmount::Used(used),
        (None, None) => return Err("neither load nor used is given; give one of them".to_owned()),
        (Some(_), Some(_)) => return Err("load and used are both given; give one of them".to_owned()),
    };
    let valid_for = new.valid_for.as_deref().map_or(Ok(VALID_FOR), parse_duration);
    let valid_for = valid_for.map_err(|error| format!("validFor: {error}"))?;
    if !(VALID_FOR_MIN..=VALID_FOR_MAX).contains(&valid_for) {
        return Err(format!("validFor: {valid_for:?} is not between 1s and 1h; the default is 30s"));
    }
    Ok(PushedLoad { amount, sequence: new.sequence, valid_for })
}

/// Default of `validFor`.
const VALID_FOR: Duration = Duration::from_secs(30);
/// Shortest `validFor`: with less, a push would expire before the next one arrives.
const VALID_FOR_MIN: Duration = Duration::from_secs(1);
/// Longest `validFor`: bounds how long a reporter that has died goes on steering traffic.
const VALID_FOR_MAX: Duration = Duration::from_secs(3600);
