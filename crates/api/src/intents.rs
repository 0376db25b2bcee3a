//! Intents: reads and writes on all their paths, the list of all, and the history of one.

mod answer;
mod backend;
mod handler;
mod parameters_wire;
mod routes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use fairway_model::intent::Intent;

use self::handler::{IntentApi, IntentRequest};
pub(super) use self::{handler::BODY_MAX, parameters_wire::IntentParameters, routes::routes};
use super::{
    objects::{HISTORY_SHOWN, Watched, follow, metadata, remembered},
    problem::{Refusal, problem},
    routes::Site,
};
use fairway_api_types::intents_wire::{IntentItem, IntentList, IntentListParameters};
use fairway_control::{Control, declared::Declared};
use fairway_intents::INTENT_KINDS;
use fairway_store::objects::{Key, Object};

/// Intents of all projects, or of one; or their changes.
async fn list(
    State(site): State<Site>,
    headers: HeaderMap,
    parameters: Result<Query<IntentListParameters>, QueryRejection>,
) -> Result<Response, Refusal> {
    let objects = site.control.objects()?;
    let Query(asked) = parameters.map_err(|error| problem(StatusCode::BAD_REQUEST, error.body_text()))?;
    if asked.watch {
        return follow(Watched::Intents { project: asked.project }, &site, &headers, asked.revision);
    }
    let (declared, limit) = (objects.declared(), asked.limit.unwrap_or(LIST_USUAL));
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(
            problem(StatusCode::BAD_REQUEST, format!("limit: {limit} is out of range; give 1 to {LIST_MAX}")).into()
        );
    }
    let found = INTENT_KINDS.into_iter().flat_map(|kind| declared.of(kind));
    let mut found = found.filter(|object| is_wanted(&asked, &declared, &object.key));
    let page: Vec<Object> = found.by_ref().take(limit).cloned().collect();
    let next = found.next().and_then(|_| page.last()).map(|last| last.key.to_string());
    let items = items(&site.control, page).await;
    Ok(Json(IntentList { items, revision: declared.revision, next }).into_response())
}

fn is_wanted(asked: &IntentListParameters, declared: &Declared, key: &Key) -> bool {
    let is_of_project = asked.project.as_deref().is_none_or(|project| is_in(key, project));
    if key.as_str() <= asked.after.as_str() || !is_of_project {
        return false;
    }
    let holds = |text: &str| text.to_ascii_lowercase().contains(&asked.contains.to_ascii_lowercase());
    let name =
        || declared.intent(key).and_then(fairway_intents::answered_name).is_some_and(|name| holds(&name.to_string()));
    asked.contains.is_empty() || holds(key.as_str()) || name()
}

/// Whether an intent is in a project.
pub(super) fn is_in(key: &Key, project: &str) -> bool {
    key.names().next() == Some(project)
}

/// Intents as a list shows them; what cannot be read says nothing but where it is.
pub(super) async fn items(control: &Control, objects: Vec<Object>) -> Vec<IntentItem> {
    let understood = |object: Object| {
        let intent = fairway_intents::understood(&object);
        (object, intent)
    };
    let all: Vec<_> = objects.into_iter().map(understood).collect();
    let readable: Vec<_> = all.iter().filter_map(|(object, intent)| Some((object.clone(), intent.clone()?))).collect();
    let mut statuses = control.intent_statuses(&readable).await.into_iter();
    let mut shown = |intent: Intent| answer::shown_with(&intent, &statuses.next().unwrap_or_default());
    let item = |(object, intent): (Object, Option<Intent>)| IntentItem {
        key: object.key.to_string(),
        metadata: metadata(&object),
        intent: intent.map(&mut shown).unwrap_or_default(),
    };
    all.into_iter().map(item).collect()
}

/// What was done to an intent; private keys are told by their hash.
async fn history(State(site): State<Site>, uri: Uri) -> Result<Response, Refusal> {
    let unknown = || problem(StatusCode::NOT_FOUND, "there never was such an intent; GET /v1/intents lists all");
    let key = fairway_intents::history_of(uri.path()).ok_or_else(unknown)?.key(None);
    let entries = site.control.objects()?.history(&key, HISTORY_SHOWN).await?;
    if entries.is_empty() {
        return Err(unknown().into());
    }
    Ok(Json(remembered(entries, |value| fairway_intents::shown(key.kind(), value))).into_response())
}

/// Answers a request about one intent, or about a collection below a path of ONAP or EMCO.
pub(super) async fn answer_one(State(site): State<Site>, request: IntentRequest) -> Result<Response, Refusal> {
    // The store may be ready later than the listener.
    let store = site.control.objects()?.store();
    let api =
        IntentApi { store, backend: Arc::new(site.control), order: site.intent_writes, under_way: site.under_way };
    api.handle(request).await
}

/// Intents of one page: usually, and at most.
const LIST_USUAL: usize = 100;
const LIST_MAX: usize = 1_000;
