//! `PUT /v1/load/{cluster}`: pushed load reports.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use fairway_health::load::{LoadAmount, PushedLoad};
use fairway_model::Load;

use super::{
    problem::{problem, refusal},
    route::{Route, Shape},
    routes::Site,
};
use fairway_access::Verb;
use fairway_api_types::endpoints::PUSH_LOAD;
use fairway_api_types::load_wire::{LoadState, NewLoad};
use fairway_config::parse_duration;

/// The routes of pushed loads.
pub(super) fn routes() -> Vec<Route> {
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
    ]
}

async fn push(State(site): State<Site>, Path(cluster): Path<String>, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) => return problem(error.status(), format!("{}; the limit is 16 KiB", error.body_text())),
    };
    let push = serde_json::from_slice::<NewLoad>(&body)
        .map_err(|error| format!("{error}; give load or used as whole numbers, and sequence and validFor where wanted"))
        .and_then(|new| parse(&new));
    match push {
        Err(fault) => problem(StatusCode::BAD_REQUEST, fault),
        Ok(push) => match site.control.push_load(&cluster, push).await {
            Ok(state) => Json(state).into_response(),
            Err(error) => refusal(&error),
        },
    }
}

/// Takes a body into the model: every fault has its field.
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
        (None, None) => return Err("neither load nor used is given; give one of both".to_owned()),
        (Some(_), Some(_)) => return Err("load and used are both given; give one of both".to_owned()),
    };
    let valid_for = new.valid_for.as_deref().map_or(Ok(VALID_FOR), parse_duration);
    let valid_for = valid_for.map_err(|fault| format!("validFor: {fault}"))?;
    if !(VALID_FOR_MIN..=VALID_FOR_MAX).contains(&valid_for) {
        return Err(format!("validFor: {valid_for:?} is not between 1s and 1h; the default is 30s"));
    }
    Ok(PushedLoad { amount, sequence: new.sequence, valid_for })
}

/// How long a push counts that does not say.
const VALID_FOR: Duration = Duration::from_secs(30);
/// Shorter than this, every push would be over before the next.
const VALID_FOR_MIN: Duration = Duration::from_secs(1);
/// Longer than this, a word that nobody repeats would go on steering.
const VALID_FOR_MAX: Duration = Duration::from_secs(3600);
