//! `/v1/contributions`: what clients of the webhook contribute, and its removal.

use axum::{
    Json,
    extract::{Extension, Query, State, rejection::QueryRejection},
    http::StatusCode,
};

use super::{
    problem::{Refusal, problem},
    route::{Route, Shape},
    routes::{Caller, Site},
};
use fairway_access::Verb;
use fairway_api_types::contributions_wire::{Contributions, Evicted, Eviction};
use fairway_api_types::endpoints::{CONTRIBUTIONS, EVICT};
use fairway_store::objects::Author;

/// The routes of contributions.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(CONTRIBUTIONS, "listContributions", "List webhook contributions and their status")
            .description("What each client of the webhook contributes, since when, and with which conditions.")
            .requires(Verb::Read)
            .returns(200, "The contributions.", Shape::output::<Contributions>().json())
            .handle(list),
        Route::new(EVICT, "evictContributions", "Remove what an owner contributed")
            .description("A client that still runs contributes it again.")
            .requires(Verb::Delete)
            .query::<Eviction>()
            .returns(200, "How many endpoints were removed.", Shape::output::<Evicted>().json())
            .errors(&[
                (404, "The owner contributes nothing that matches."),
                (409, "It was changed at the same time."),
                (412, "It was changed at the same time."),
                (413, "Too many changes at once."),
            ])
            .handle(evict),
    ]
}

async fn list(State(site): State<Site>) -> Result<Json<Contributions>, Refusal> {
    let items = site.control.contributions().await?;
    Ok(Json(Contributions { items }))
}

async fn evict(
    State(site): State<Site>,
    caller: Option<Extension<Caller>>,
    query: Result<Query<Eviction>, QueryRejection>,
) -> Result<Json<Evicted>, Refusal> {
    let Query(eviction) = query.map_err(|error| problem(StatusCode::BAD_REQUEST, error.body_text()))?;
    if eviction.reason.len() > 1_024 || eviction.reason.chars().any(char::is_control) {
        return Err(problem(StatusCode::BAD_REQUEST, "reason: give one line of at most 1024 bytes").into());
    }
    let who = caller.map(|Extension(Caller(who))| who).unwrap_or_default();
    let by = Author::new(who, eviction.reason.clone());
    let endpoints = site.control.evict(&eviction, by).await?;
    if endpoints == 0 {
        let what = format!("{} contributes nothing that matches; `fairway contributions` lists all", eviction.owner);
        return Err(problem(StatusCode::NOT_FOUND, what).into());
    }
    Ok(Json(Evicted { endpoints }))
}
