//! Intents on this server: one router for all their paths and all listeners, what it asks of the control task, and the list of all.

mod answer;
mod backend;
mod handler;
mod parameters_wire;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Json,
    extract::{Query, Request, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, Uri},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use fairway_model::intent::Intent;
use tower::Service;

use self::backend::Behold;
pub(super) use self::parameters_wire::IntentParameters;
use super::{
    intents_wire::{IntentItem, IntentList, IntentListParameters},
    objects::{HISTORY_SHOWN, SERVED_MAX, Watched, follow, metadata, remembered, supposed},
    problem::{Refusal, problem, refusal},
    routes::{Caller, Site},
};
use crate::{
    control::{Control, declared::Declared},
    intents::{self, INTENT_KINDS, IntentStatus},
    store::objects::{Author, Change, Key, Object},
};

/// Intents of all projects, or of one; or their changes.
pub(super) async fn list(
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
        return Err(problem(StatusCode::BAD_REQUEST, format!("limit: {limit} is not 1 to {LIST_MAX}")).into());
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
    let name = || declared.intent(key).and_then(intents::answered_name).is_some_and(|name| holds(&name.to_string()));
    asked.contains.is_empty() || holds(key.as_str()) || name()
}

/// Whether an intent is in a project.
pub(super) fn is_in(key: &Key, project: &str) -> bool {
    key.names().next() == Some(project)
}

/// Intents as a list shows them; what cannot be read says nothing but where it is.
pub(super) async fn items(control: &Control, objects: Vec<Object>) -> Vec<IntentItem> {
    let understood = |object: Object| {
        let intent = intents::understood(&object);
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
pub(super) async fn history(State(site): State<Site>, uri: Uri) -> Result<Response, Refusal> {
    let unknown = || problem(StatusCode::NOT_FOUND, "no intent was ever there; GET /v1/intents lists those there are");
    let key = intents::history_of(uri.path()).ok_or_else(unknown)?.key(None);
    let entries = site.control.objects()?.history(&key, HISTORY_SHOWN).await?;
    if entries.is_empty() {
        return Err(unknown().into());
    }
    Ok(Json(remembered(entries, |value| intents::shown(key.kind(), value))).into_response())
}

/// Answers on these paths. The store may come later than the listener, and all listeners share one order of writes.
pub(super) async fn of_intents(State(site): State<Site>, request: Request) -> Response {
    let objects = match site.control.objects() {
        Ok(objects) => objects,
        Err(error) => return refusal(&error),
    };
    let made = || {
        let server = Arc::new(Server(site.control.clone()));
        handler::router(objects.store(), server, site.under_way.clone()).layer(middleware::from_fn(signed))
    };
    let mut router = site.intents.get_or_init(made).clone();
    router.call(request).await.unwrap_or_else(|never| match never {})
}

/// Who asks stands in the history of what they change.
async fn signed(mut request: Request, next: Next) -> Response {
    if let Some(Caller(who)) = request.extensions().get::<Caller>().cloned() {
        request.extensions_mut().insert(Author::new(who, ""));
    }
    next.run(request).await
}

/// The server that serves them.
#[derive(Debug)]
struct Server(Control);

#[async_trait]
impl Behold for Server {
    async fn statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus> {
        self.0.intent_statuses(of).await
    }

    async fn served(&self, revision: u64) {
        self.0.served(revision, SERVED_MAX).await;
    }

    async fn supposed(&self, change: Change) -> Response {
        match supposed(&self.0, &change).await {
            Ok(report) => Json(report).into_response(),
            Err(refusal) => refusal.into_response(),
        }
    }
}

/// Intents of one page: usually, and at most.
const LIST_USUAL: usize = 100;
const LIST_MAX: usize = 1_000;
