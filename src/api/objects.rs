//! `/v1/clusters`, `/v1/monitors`, `/v1/names`, `/v1/pools`, `/v1/records`: objects as a configuration writes them, declared over the API.
//!
//! Here: which path is what, and the reads. What is asked for is read in `request`, writes are made in `write`, and how an object
//! looks is in `shown`, and who stays and is told of changes is served by `watch`. What files declare is not among the objects: that is in `/v1/state`.

mod request;
mod shown;
mod watch;
mod write;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post, put},
};

use super::{
    objects_wire::{HistoryEntry, ListParameters, ObjectList},
    problem::{Refusal, problem},
    routes::Site,
};
use crate::{
    control::declared::section,
    store::objects::{Entry, Kind, Object},
};

/// The kinds that are elements of a configuration's lists.
const KINDS: [Kind; 5] = [Kind::Monitor, Kind::Cluster, Kind::Pool, Kind::Name, Kind::Records];

/// The reads.
pub(super) fn reads() -> Router<Site> {
    KINDS.into_iter().fold(Router::new(), |router, kind| {
        let all = path(kind);
        router
            .route(&all, get(move |site, headers, parameters| list(kind, site, headers, parameters)))
            .route(&format!("{all}/{{name}}"), get(move |site, name| read(kind, site, name)))
            .route(&format!("{all}/{{name}}/history"), get(move |site, name| history(kind, site, name)))
    })
}

/// The reads and the writes.
pub(super) fn all() -> Router<Site> {
    let writes = KINDS.into_iter().fold(Router::new(), |router, kind| {
        let (all, one) = (path(kind), format!("{}/{{name}}", path(kind)));
        let changes = put(move |site, name, asked| write::put(kind, site, name, asked))
            .delete(move |site, name, asked| write::delete(kind, site, name, asked));
        router.route(&all, post(move |site, asked| write::create(kind, site, asked))).route(&one, changes)
    });
    reads().merge(writes.route("/v1/apply", post(write::apply))).layer(DefaultBodyLimit::max(request::BODY_MAX))
}

/// Where the objects of a kind are.
fn path(kind: Kind) -> String {
    format!("/v1/{}", section(kind).unwrap_or_default())
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
        return watch::watch(kind, &site, &headers, revision);
    }
    let (declared, limit) = (objects.declared(), limit.unwrap_or(LIST_USUAL));
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(problem(StatusCode::BAD_REQUEST, format!("limit: {limit} is not 1 to {LIST_MAX}")).into());
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
    let entry = |entry: Entry| HistoryEntry {
        revision: entry.revision,
        at: format!("{:.3}", entry.at),
        by: entry.by.who,
        reason: entry.by.why,
        object: entry.value.and_then(|value| serde_json::from_slice(&value).ok()),
    };
    Ok(Json(entries.into_iter().map(entry).collect::<Vec<_>>()).into_response())
}

/// Objects of one page: usually, and at most.
const LIST_USUAL: usize = 1_000;
const LIST_MAX: usize = 10_000;
/// Entries of a history that are shown: as many as a store remembers of one object.
const HISTORY_SHOWN: usize = 100;
