//! `/v1/clusters`, `/v1/monitors`, `/v1/names`, `/v1/pools`, `/v1/records`: objects in the format of the configuration. Reads return all that
//! are served, with their source; writes are about those that are declared over the API.
//!
//! This file has the reads; `routes` has the rows of the table, `write` and `validate` the writes.

mod differences;
mod idempotent;
mod inventory;
pub(crate) mod kinds;
mod request;
pub(crate) mod response;
mod routes;
mod validate;
mod write;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};

pub(crate) use routes::routes;
pub(crate) use validate::dry_run;
pub(crate) use write::{FIRST_RESULTS_MAX, SERVED_MAX};

use self::{inventory::Inventory, kinds::key};
use crate::{
    problem::{ApiError, bad_request},
    render,
    state::{AppState, Operates, Parameters},
    watch::{Watched, watch_objects},
};
use fairway_api_types::objects_wire::{HistoryEntry, ListParameters, ObjectList, ObjectsExport};
use fairway_control::ControlError;
use fairway_store::objects::{Entry, Kind};

async fn list(
    kind: Kind,
    State(state): State<AppState>,
    operates: Operates,
    headers: HeaderMap,
    Parameters(query): Parameters<ListParameters>,
) -> Result<Response, ApiError> {
    let ListParameters { after, limit, contains, watch, revision } = query;
    if watch {
        return watch_objects(Watched::Kind(kind), &state, &headers, revision);
    }
    let limit = page_size(limit)?;
    let declared = state.control.objects()?.declared();
    let (published, served) = response::serving(&state);
    let page = move || {
        let is_wanted = |name: &str| name > after.as_str() && name.contains(&contains);
        let inventory = Inventory { kind, published: &published, operates };
        let is_declared = |name: &str| key(kind, name).is_some_and(|key| declared.get(&key).is_some());
        // One more than the page, to know if there is a next one.
        let mut items = inventory.first(limit + 1, |name| is_wanted(name) && !is_declared(name));
        let own = declared.of(kind).filter(|object| is_wanted(object.key.name())).take(limit + 1);
        items.extend(own.map(|object| (object.key.name().to_owned(), response::body(object, &published, served))));
        let next = items.keys().nth(limit - 1).filter(|_| items.len() > limit).cloned();
        ObjectList { items: items.into_values().take(limit).collect(), revision: declared.revision, next }
    };
    // A million names, or files that are parsed for the first time, take up to a second.
    let page = tokio::task::spawn_blocking(page).await.map_err(|_| ControlError::Stopped)?;
    Ok(Json(page).into_response())
}

async fn get(
    kind: Kind,
    State(state): State<AppState>,
    operates: Operates,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    let declared = state.control.objects()?.declared();
    if let Some(object) = key(kind, &name).and_then(|key| declared.get(&key)) {
        return Ok(response::respond(StatusCode::OK, object, &state));
    }
    let (published, _) = response::serving(&state);
    let not_found = response::not_found(kind, &name);
    let found = move || Inventory { kind, published: &published, operates }.get(&name);
    let found = tokio::task::spawn_blocking(found).await.map_err(|_| ControlError::Stopped)?;
    Ok(Json(found.ok_or(not_found)?).into_response())
}

async fn history(
    kind: Kind,
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Json<Vec<HistoryEntry>>, ApiError> {
    let not_declared = || response::not_declared(kind, &name);
    let store = state.control.objects()?;
    let entries = store.history(&key(kind, &name).ok_or_else(not_declared)?, HISTORY_MAX).await?;
    if entries.is_empty() {
        return Err(not_declared());
    }
    Ok(Json(history_entries(entries, |value| Some(value.to_vec()))))
}

async fn export(State(state): State<AppState>) -> Result<Json<ObjectsExport>, ApiError> {
    Ok(Json(render::export(&state.control.objects()?.declared())))
}

/// Returns the number of objects of a page; an error if the client wants more than [`LIST_MAX`].
pub(crate) fn page_size(limit: Option<usize>) -> Result<usize, ApiError> {
    match limit.unwrap_or(LIST_DEFAULT) {
        limit if (1..=LIST_MAX).contains(&limit) => Ok(limit),
        limit => Err(bad_request(format!("limit: {limit} is out of range; give 1 to {LIST_MAX}"))),
    }
}

/// Returns the body of a history. `redact` returns the part of a value that may be shown.
pub(crate) fn history_entries(entries: Vec<Entry>, redact: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<HistoryEntry> {
    let entry = |entry: Entry| HistoryEntry {
        revision: entry.revision,
        at: format!("{:.3}", entry.at),
        by: entry.by.identity,
        reason: entry.by.reason,
        object: entry.value.and_then(|value| {
            let public = if entry.is_redacted { value.to_vec() } else { redact(&value)? };
            serde_json::from_slice(&public).ok()
        }),
    };
    entries.into_iter().map(entry).collect()
}

/// Objects of one page: by default, and at most.
const LIST_DEFAULT: usize = 1_000;
const LIST_MAX: usize = 10_000;
/// Maximum number of entries of a history: as many as the store keeps of one object.
pub(crate) const HISTORY_MAX: usize = 100;
