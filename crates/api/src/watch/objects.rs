//! `GET /v1/pools?watch=true`, `GET /v1/intents?watch=true`: changes of objects once they are served, by Server-Sent Events with resume.
//!
//! The id of an event is its revision. A client that reconnects with `Last-Event-ID` gets everything after it. If the store no longer
//! remembers the changes since then, the client gets a `reset` with the revision that the stream continues after, and must list again.

use axum::{
    http::HeaderMap,
    response::{Response, sse},
};
use tokio::time::Instant;

use super::{
    events::event,
    stream::{Events, HEARTBEAT, permit, stream},
};
use crate::{
    intents::items::{is_in_project, items},
    objects::{
        SERVED_MAX,
        response::{body, serving},
    },
    problem::{ApiError, bad_request},
    state::AppState,
};
use fairway_api_types::objects_wire::{DeletedObject, ObjectsReset};
use fairway_intents::INTENT_KINDS;
use fairway_store::objects::{Event, Key, Kind, StoreError};

/// The objects that a client watches.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    /// Objects of a kind.
    Kind(Kind),
    /// Intents of a project, or of all.
    Intents { project: Option<String> },
}

impl Watched {
    fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Kind(kind) => key.kind() == *kind,
            Self::Intents { project } => {
                INTENT_KINDS.contains(&key.kind())
                    && project.as_deref().is_none_or(|project| is_in_project(key, project))
            }
        }
    }

    /// Returns the name of an object in an event: an intent is named by its whole key.
    fn name(&self, key: &Key) -> String {
        match self {
            Self::Kind(_) => key.name().to_owned(),
            Self::Intents { .. } => key.to_string(),
        }
    }
}

/// Returns a stream of the changes after the client's last event, else after `revision`, else from now on.
pub(crate) fn watch_objects(
    watched: Watched,
    state: &AppState,
    headers: &HeaderMap,
    revision: Option<u64>,
) -> Result<Response, ApiError> {
    let after = match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default().parse()) {
        Some(Ok(after)) => after,
        Some(Err(_)) => {
            let detail = "Last-Event-ID must be the revision of an event; give that of the last one, or leave it out";
            return Err(bad_request(detail));
        }
        None => match revision {
            Some(after) => after,
            None => state.control.objects()?.declared().revision,
        },
    };
    let permit = permit(state)?;
    let own_state = state.clone();
    // An error ends the stream; it is reported when the client reconnects.
    Ok(stream(state, permit, |out| async move { _ = feed(&watched, &own_state, after, &out).await }))
}

/// Sends the changes after a revision, until the client has gone or the store fails.
async fn feed(watched: &Watched, state: &AppState, mut after: u64, out: &Events) -> Option<()> {
    let objects = state.control.objects().ok()?;
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    loop {
        let mut watch = objects.store().watch(after).await;
        if let Err(StoreError::Compacted { .. }) = watch {
            after = objects.declared().revision;
            send(out, event("reset", Some(&after.to_string()), &ObjectsReset { revision: after })).await?;
            watch = objects.store().watch(after).await;
        }
        let mut events = watch.ok()?.events;
        loop {
            tokio::select! {
                batch = events.recv() => match batch {
                    Some(batch) => {
                        after = batch.iter().map(|event| event.revision).max().unwrap_or(after);
                        state.control.served(after, SERVED_MAX).await;
                        for message in messages(watched, state, &batch, after).await {
                            send(out, message).await?;
                        }
                    }
                    // The watch is too far behind, or the store has ended: the next watch returns which.
                    None => break,
                },
                // With an id, so that a client that reconnects does not get changes of other kinds again.
                _ = heartbeat.tick() => {
                    send(out, sse::Event::default().comment("heartbeat").id(after.to_string())).await?;
                }
            }
        }
    }
}

/// Returns the events of a batch. Only the last one has an id, so that a client that reconnects gets the whole batch again or none of it.
async fn messages(watched: &Watched, state: &AppState, batch: &[Event], revision: u64) -> Vec<sse::Event> {
    let own: Vec<&Event> = batch.iter().filter(|event| watched.contains(&event.key)).collect();
    let mut intents = match watched {
        Watched::Kind(_) => vec![],
        Watched::Intents { .. } => {
            items(&state.control, own.iter().filter_map(|event| event.object.clone()).collect()).await
        }
    }
    .into_iter();
    let (published, served) = serving(state);
    let id = revision.to_string();
    let message = |(at, change): (usize, &&Event)| {
        let id = (at + 1 == own.len()).then_some(&*id);
        match (&change.object, watched) {
            (Some(object), Watched::Kind(_)) => event("changed", id, &body(object, &published, served)),
            (Some(_), Watched::Intents { .. }) => event("changed", id, &intents.next().unwrap_or_default()),
            (None, watched) => {
                let name = watched.name(&change.key);
                let key = matches!(watched, Watched::Intents { .. }).then(|| name.clone());
                let body = DeletedObject { name, key, revision: change.revision };
                event("deleted", id, &body)
            }
        }
    };
    own.iter().enumerate().map(message).collect()
}

/// Sends an event; returns `None` if the client has gone.
async fn send(out: &Events, event: sse::Event) -> Option<()> {
    out.send(Ok(event)).await.ok()
}
