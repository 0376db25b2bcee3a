//! Intents: reads and writes on all their paths, the list of all, and the history of one.

mod backend;
mod handler;
pub(crate) mod items;
mod parameters_wire;
mod response;
mod routes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};

pub(crate) use self::{handler::BODY_MAX, routes::routes};
use self::{
    handler::{IntentApi, IntentRequest},
    items::{is_in_project, items},
};
use crate::{
    objects::{HISTORY_MAX, history_entries, page_size},
    problem::{ApiError, bad_request, problem},
    state::{AppState, Parameters},
    watch::{Watched, watch_objects},
};
use fairway_api_types::intents_wire::{IntentList, IntentListParameters};
use fairway_api_types::objects_wire::HistoryEntry;
use fairway_control::declared::Declared;
use fairway_intents::INTENT_KINDS;
use fairway_model::intent::IntentName;
use fairway_store::objects::{Key, Object};

/// Lists or watches intents of all projects, or of one.
async fn list(
    State(state): State<AppState>,
    headers: HeaderMap,
    Parameters(mut query): Parameters<IntentListParameters>,
) -> Result<Response, ApiError> {
    query.project = query.project.filter(|project| !project.is_empty());
    if let Some(project) = &query.project {
        IntentName::new(project).map_err(|error| bad_request(format!("project: {error}")))?;
    }
    if query.watch {
        return watch_objects(Watched::Intents { project: query.project }, &state, &headers, query.revision);
    }
    let limit = page_size(query.limit)?;
    let declared = state.control.objects()?.declared();
    let found = INTENT_KINDS.into_iter().flat_map(|kind| declared.of(kind));
    let mut found = found.filter(|object| matches(&query, &declared, &object.key));
    let page: Vec<Object> = found.by_ref().take(limit).cloned().collect();
    let next = found.next().and_then(|_| page.last()).map(|last| last.key.to_string());
    let items = items(&state.control, page).await;
    Ok(Json(IntentList { items, revision: declared.revision, next }).into_response())
}

fn matches(query: &IntentListParameters, declared: &Declared, key: &Key) -> bool {
    let is_of_project = query.project.as_deref().is_none_or(|project| is_in_project(key, project));
    if key.as_str() <= query.after.as_str() || !is_of_project {
        return false;
    }
    let contains = |text: &str| text.to_ascii_lowercase().contains(&query.contains.to_ascii_lowercase());
    let name = || {
        let name = declared.intent(key).and_then(fairway_intents::answered_name);
        name.is_some_and(|name| contains(&name.to_string()))
    };
    query.contains.is_empty() || contains(key.as_str()) || name()
}

/// Returns the history of an intent. Private keys are replaced by their hash.
async fn history(State(state): State<AppState>, uri: Uri) -> Result<Json<Vec<HistoryEntry>>, ApiError> {
    let not_found = || problem(StatusCode::NOT_FOUND, "there has never been such an intent; GET /v1/intents lists all");
    let key = fairway_intents::history_of(uri.path()).ok_or_else(not_found)?.key(None);
    let entries = state.control.objects()?.history(&key, HISTORY_MAX).await?;
    if entries.is_empty() {
        return Err(not_found());
    }
    Ok(Json(history_entries(entries, |value| fairway_intents::public_value(key.kind(), value))))
}

/// Handles a request about one intent, or about a collection below a path of ONAP or EMCO.
pub(crate) async fn one(State(state): State<AppState>, request: IntentRequest) -> Result<Response, ApiError> {
    // The store may become ready later than the listener.
    let store = state.control.objects()?.store();
    let AppState { control, intent_writes: writes, requests, .. } = state;
    IntentApi { store, backend: Arc::new(control), writes, requests }.handle(request).await
}
