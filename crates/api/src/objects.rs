//! `/v1/clusters`, `/v1/monitors`, `/v1/names`, `/v1/pools`, `/v1/records`: objects as a configuration writes them, declared over the API.
//!
//! Here are the reads; `routes` has the rows of the table, `request` parses requests, `write` makes changes, `shown` renders objects, `watch`
//! streams changes. Objects that files declare are not here: `/v1/state` has those.

mod differ;
mod replayed;
mod request;
mod routes;
mod shown;
mod watch;
mod write;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};

pub(super) use routes::routes;
pub(super) use shown::metadata;
pub(super) use watch::{Watched, follow};
pub(super) use write::{SERVED_MAX, supposed};

use super::{
    problem::{Refusal, problem},
    routes::Site,
};
use fairway_api_types::objects_wire::{HistoryEntry, ListParameters, ObjectList};
use fairway_control::declared::section;
use fairway_store::objects::{Entry, Kind, Object};

/// The kinds that are elements of a configuration's lists.
pub(super) const KINDS: [Kind; 5] = [Kind::Monitor, Kind::Cluster, Kind::Pool, Kind::Name, Kind::Records];

/// Where the objects of a kind are.
fn path(kind: Kind) -> String {
    fairway_api_types::endpoints::collection(section(kind).unwrap_or_default())
}

type Parameters<T> = Result<Query<T>, QueryRejection>;

async fn list(
    kind: Kind,
    State(site): State<Site>,
    headers: HeaderMap,
    parameters: Parameters<ListParameters>,
) -> Result<Response, Refusal> {
    let objects = site.control.objects()?;
    let Query(parameters) = parameters.map_err(|error| problem(StatusCode::BAD_REQUEST, error.body_text()))?;
    let ListParameters { after, limit, contains, watch, revision } = parameters;
    if watch {
        return follow(Watched::Kind(kind), &site, &headers, revision);
    }
    let (declared, limit) = (objects.declared(), limit.unwrap_or(LIST_USUAL));
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(
            problem(StatusCode::BAD_REQUEST, format!("limit: {limit} is out of range; give 1 to {LIST_MAX}")).into()
        );
    }
    let is_wanted = |object: &&Object| object.key.name() > after.as_str() && object.key.name().contains(&contains);
    let mut found = declared.of(kind).filter(is_wanted);
    let page: Vec<&Object> = found.by_ref().take(limit).collect();
    let next = found.next().and_then(|_| page.last()).map(|last| last.key.name().to_owned());
    let (configured, served) = shown::standing(&site);
    let items = page.into_iter().map(|object| shown::shown(object, &configured, served)).collect();
    Ok(Json(ObjectList { items, revision: declared.revision, next }).into_response())
}

async fn read(kind: Kind, State(site): State<Site>, Path(name): Path<String>) -> Result<Response, Refusal> {
    let declared = site.control.objects()?.declared();
    let found = request::key(kind, &name).and_then(|key| declared.get(&key));
    Ok(shown::answer(StatusCode::OK, found.ok_or_else(|| shown::unknown(kind, &name))?, &site))
}

async fn history(kind: Kind, State(site): State<Site>, Path(name): Path<String>) -> Result<Response, Refusal> {
    let unknown = || shown::unknown(kind, &name);
    let objects = site.control.objects()?;
    let entries = objects.history(&request::key(kind, &name).ok_or_else(unknown)?, HISTORY_SHOWN).await?;
    if entries.is_empty() {
        return Err(unknown());
    }
    Ok(Json(remembered(entries, |value| Some(value.to_vec()))).into_response())
}

async fn export(State(site): State<Site>) -> Result<Response, Refusal> {
    Ok(Json(site.control.objects()?.declared().export()).into_response())
}

/// A history as it is told; of what was kept, what may be shown.
pub(super) fn remembered(entries: Vec<Entry>, show: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<HistoryEntry> {
    let entry = |entry: Entry| HistoryEntry {
        revision: entry.revision,
        at: format!("{:.3}", entry.at),
        by: entry.by.who,
        reason: entry.by.why,
        object: entry.value.and_then(|value| serde_json::from_slice(&show(&value)?).ok()),
    };
    entries.into_iter().map(entry).collect()
}

/// Objects of one page: usually, and at most.
const LIST_USUAL: usize = 1_000;
const LIST_MAX: usize = 10_000;
/// Entries of a history that are shown: as many as a store remembers of one object.
pub(super) const HISTORY_SHOWN: usize = 100;
