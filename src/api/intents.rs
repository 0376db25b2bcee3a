//! The paths of ONAP and EMCO on this server: one router for all listeners, and what it asks of the control task.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Json,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use fairway_model::intent::Intent;
use tower::Service;

use super::{
    objects::{SERVED_MAX, supposed},
    problem::refusal,
    routes::{Caller, Site},
};
use crate::{
    control::Control,
    intents::{self, Behold, IntentStatus},
    store::objects::{Author, Change, Object},
};

/// Answers on these paths. The store may come later than the listener, and all listeners share one order of writes.
pub(super) async fn of_intents(State(site): State<Site>, request: Request) -> Response {
    let objects = match site.control.objects() {
        Ok(objects) => objects,
        Err(error) => return refusal(&error),
    };
    let made = || {
        let server = Arc::new(Server(site.control.clone()));
        intents::router(objects.store(), server).layer(middleware::from_fn(signed))
    };
    let mut router = site.intents.get_or_init(made).clone();
    router.call(request).await.unwrap_or_else(|never| match never {})
}

/// Who asks stands in the history of what they change.
async fn signed(mut request: Request, next: Next) -> Response {
    if let Some(Caller(who)) = request.extensions().get::<Caller>().cloned() {
        request.extensions_mut().insert(Author { who, why: String::new() });
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
