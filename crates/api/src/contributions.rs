//! `/v1/contributions`: lists and removes contributions of webhook clients, and releases held ones.

use axum::{Json, extract::State, http::StatusCode};

use crate::{
    problem::{ApiError, bad_request, problem},
    render::contributions,
    route::{Route, Shape},
    state::{AppState, Caller, Parameters, check_line},
};
use fairway_access::Verb;
use fairway_api_types::contributions_wire::{Confirmed, Contributions, Evicted, Eviction};
use fairway_api_types::endpoints::{CONFIRM, CONTRIBUTIONS, EVICT};
use fairway_control::contributed::EndpointFilter;
use fairway_store::objects::Author;

/// The routes of contributions.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(CONTRIBUTIONS, "listContributions", "List webhook contributions and their status")
            .description("The contributions of each webhook client, with their times and warnings.")
            .requires(Verb::Read)
            .returns(200, "The contributions.", Shape::output::<Contributions>().json())
            .handle(list),
        Route::new(CONFIRM, "confirmWithdrawals", "Release what an owner withdrew and is held")
            .description(
                "The answers then no longer have it. The owner is a webhook client, or a namespace in a Kubernetes cluster, as in \
                 `kubernetes:eu1/shop`; `path` and `set` select endpoints of a webhook client only.",
            )
            .requires(Verb::Delete)
            .query::<Eviction>()
            .returns(200, "Number of removed endpoints.", Shape::output::<Confirmed>().json())
            .errors(&[(404, "Nothing that matches is held.")])
            .handle(confirm),
        Route::new(EVICT, "evictContributions", "Remove what an owner contributed")
            .description("A client that still runs contributes it again.")
            .requires(Verb::Delete)
            .query::<Eviction>()
            .returns(200, "Number of removed endpoints.", Shape::output::<Evicted>().json())
            .errors(&[
                (404, "The owner contributes nothing that matches."),
                (409, "It was changed at the same time."),
                (412, "It was changed at the same time."),
                (413, "Too many changes at once."),
            ])
            .handle(evict),
    ]
}

async fn list(State(state): State<AppState>) -> Result<Json<Contributions>, ApiError> {
    Ok(Json(Contributions { items: contributions(&state.control).await? }))
}

async fn confirm(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Parameters(held): Parameters<Eviction>,
) -> Result<Json<Confirmed>, ApiError> {
    check_line("reason", &held.reason).map_err(bad_request)?;
    let by = Author::new(caller, held.reason.clone());
    let filter = EndpointFilter { owner: &held.owner, path: held.path.as_deref(), set: held.set.as_deref() };
    let endpoints = state.control.confirm_withdrawals(filter, by).await?;
    if endpoints == 0 {
        let detail = format!(
            "nothing of {} that matches is held; `fairway contributions` and `fairway status` list what is",
            held.owner
        );
        return Err(problem(StatusCode::NOT_FOUND, detail));
    }
    Ok(Json(Confirmed { endpoints }))
}

async fn evict(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Parameters(eviction): Parameters<Eviction>,
) -> Result<Json<Evicted>, ApiError> {
    check_line("reason", &eviction.reason).map_err(bad_request)?;
    let by = Author::new(caller, eviction.reason.clone());
    let Eviction { owner, path, set, .. } = &eviction;
    let filter = EndpointFilter { owner, path: path.as_deref(), set: set.as_deref() };
    let endpoints = state.control.ledger()?.evict(filter, by).await?;
    if endpoints == 0 {
        let detail = format!("{} contributes nothing that matches; `fairway contributions` lists all", eviction.owner);
        return Err(problem(StatusCode::NOT_FOUND, detail));
    }
    Ok(Json(Evicted { endpoints }))
}
