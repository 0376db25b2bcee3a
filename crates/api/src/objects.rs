//! `/v1/clusters`, `/v1/monitors`, `/v1/names`, `/v1/pools`, `/v1/records`: objects that are declared over the API, in the format of the
//! configuration. Objects of configuration files are in `/v1/state`.
//!
//! This file has the reads; `routes` has the rows of the table, `write` and `validate` the writes.

mod differences;
mod idempotent;
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

use self::kinds::key;
use crate::{
    problem::{ApiError, bad_request},
    render,
    state::{AppState, Parameters},
    watch::{Watched, watch_objects},
};
use fairway_api_types::objects_wire::{HistoryEntry, ListParameters, ObjectList, ObjectsExport};
use fairway_store::objects::{Entry, Kind, Object};

async fn list(
    kind: Kind,
    State(state): State<AppState>,
    headers: HeaderMap,
    Parameters(query): Parameters<ListParameters>,
) -> Result<Response, ApiError> {
    let ListParameters { after, limit, contains, watch, revision } = query;
    if watch {
        return watch_objects(Watched::Kind(kind), &state, &headers, revision);
    }
    let limit = page_size(limit, LIST_DEFAULT, LIST_MAX)?;
    let declared = state.control.objects()?.declared();
    let matches = |object: &&Object| object.key.name() > after.as_str() && object.key.name().contains(&contains);
    let mut found = declared.of(kind).filter(matches);
    let page: Vec<&Object> = found.by_ref().take(limit).collect();
    let next = found.next().and_then(|_| page.last()).map(|last| last.key.name().to_owned());
    let (published, served) = response::serving(&state);
    let items = page.into_iter().map(|object| response::body(object, &published, served)).collect();
    Ok(Json(ObjectList { items, revision: declared.revision, next }).into_response())
}

async fn get(kind: Kind, State(state): State<AppState>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let declared = state.control.objects()?.declared();
    let found = key(kind, &name).and_then(|key| declared.get(&key));
    let object = found.ok_or_else(|| response::not_found(kind, &name))?;
    Ok(response::respond(StatusCode::OK, object, &state))
}

async fn history(
    kind: Kind,
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Json<Vec<HistoryEntry>>, ApiError> {
    let not_found = || response::not_found(kind, &name);
    let store = state.control.objects()?;
    let entries = store.history(&key(kind, &name).ok_or_else(not_found)?, HISTORY_MAX).await?;
    if entries.is_empty() {
        return Err(not_found());
    }
    Ok(Json(history_entries(entries, |value| Some(value.to_vec()))))
}

async fn export(State(state): State<AppState>) -> Result<Json<ObjectsExport>, ApiError> {
    Ok(Json(render::export(&state.control.objects()?.declared())))
}

/// Returns the number of objects of a page; an error if the client wants more than `most`.
pub(crate) fn page_size(limit: Option<usize>, default: usize, most: usize) -> Result<usize, ApiError> {
    match limit.unwrap_or(default) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        limit => Err(bad_request(format!("limit: {limit} is out of range; give 1 to {most}"))),
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
