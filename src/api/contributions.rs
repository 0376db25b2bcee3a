//! What is brought over the webhook, by whom and since when; and taking it out.

use axum::{
    Json,
    extract::{Extension, Query, State, rejection::QueryRejection},
    http::StatusCode,
};

use super::{
    problem::{Refusal, problem},
    routes::{Caller, Site},
};
use fairway_api_types::contributions_wire::{Contributions, Evicted, Eviction};
use fairway_store::objects::Author;

/// Everything that is brought.
pub(super) async fn list(State(site): State<Site>) -> Result<Json<Contributions>, Refusal> {
    let items = site.control.contributions().await?;
    Ok(Json(Contributions { items }))
}

/// Takes out what an owner brought. A writer that still runs brings it again.
pub(super) async fn evict(
    State(site): State<Site>,
    caller: Option<Extension<Caller>>,
    query: Result<Query<Eviction>, QueryRejection>,
) -> Result<Json<Evicted>, Refusal> {
    let Query(eviction) = query.map_err(|error| problem(StatusCode::BAD_REQUEST, error.body_text()))?;
    if eviction.reason.len() > 1_024 || eviction.reason.chars().any(char::is_control) {
        return Err(problem(StatusCode::BAD_REQUEST, "reason: give one line of at most 1024 octets").into());
    }
    let who = caller.map(|Extension(Caller(who))| who).unwrap_or_default();
    let by = Author::new(who, eviction.reason.clone());
    let endpoints = site.control.evict(&eviction, by).await?;
    if endpoints == 0 {
        let what =
            format!("{} brings nothing of the kind; `fairway contributions` lists what is brought", eviction.owner);
        return Err(problem(StatusCode::NOT_FOUND, what).into());
    }
    Ok(Json(Evicted { endpoints }))
}
