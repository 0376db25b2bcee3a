//! `GET /v1/pools?watch=true`, `GET /v1/intents?watch=true`: each change of the objects of a kind, or of intents, once it is served, by Server-Sent Events with resume.
//!
//! The id of an event is the revision that it brought. Who names it, as browsers do in `Last-Event-ID`, is told of everything after it;
//! where the store no longer remembers that far back, a `reset` says from where on it goes: list anew.

use axum::{
    http::{HeaderMap, StatusCode},
    response::{Response, sse},
};
use tokio::time::Instant;

use super::{
    super::{
        intents::{is_in, items},
        problem::{Refusal, problem},
        routes::Site,
        watch::{Events, HEARTBEAT, place, stream},
        watch_wire::Message,
    },
    shown::{shown, standing},
    write::SERVED_MAX,
};
use fairway_api_types::objects_wire::{DeletedObject, ObjectsReset};
use fairway_intents::INTENT_KINDS;
use fairway_store::objects::{Event, Key, Kind, StoreError};

/// What a watcher is told of.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    /// Objects of a kind.
    Kind(Kind),
    /// Intents; of one project, where one was asked for.
    Intents {
        /// The project.
        project: Option<String>,
    },
}

impl Watched {
    fn has(&self, key: &Key) -> bool {
        match self {
            Self::Kind(kind) => key.kind() == *kind,
            Self::Intents { project } => {
                INTENT_KINDS.contains(&key.kind()) && project.as_deref().is_none_or(|project| is_in(key, project))
            }
        }
    }

    /// What an object that is there is called when it has gone.
    fn name(&self, key: &Key) -> String {
        match self {
            Self::Kind(_) => key.name().to_owned(),
            Self::Intents { .. } => key.to_string(),
        }
    }
}

/// Answers with the changes of what is watched: those after the last one that was seen, else after `revision`, else from now on.
pub(crate) fn follow(
    of: Watched,
    site: &Site,
    headers: &HeaderMap,
    revision: Option<u64>,
) -> Result<Response, Refusal> {
    let seen = match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default().parse()) {
        Some(Ok(seen)) => Some(seen),
        Some(Err(_)) => {
            let what = "Last-Event-ID must be the revision of an event; give that of the last one, or leave it out";
            return Err(problem(StatusCode::BAD_REQUEST, what).into());
        }
        None => revision,
    };
    let start = seen.unwrap_or(site.control.objects()?.declared().revision);
    let place = place(site)?;
    let from = site.clone();
    // A failure ends the stream: whoever comes back is told why.
    Ok(stream(site, place, |out| async move { _ = feed(&of, &from, start, &out).await }))
}

/// Sends what happens after a revision; why it cannot go on.
async fn feed(of: &Watched, site: &Site, mut seen: u64, out: &Events) -> Result<(), Refusal> {
    let objects = site.control.objects()?;
    let mut beat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    loop {
        let mut watched = objects.store().watch(seen).await;
        if let Err(StoreError::Compacted { .. }) = watched {
            let revision = objects.declared().revision;
            send(out, Message::new("reset", Some(&revision.to_string()), &ObjectsReset { revision })).await?;
            seen = revision;
            watched = objects.store().watch(seen).await;
        }
        let mut events = watched?.events;
        loop {
            tokio::select! {
                batch = events.recv() => match batch {
                    Some(batch) => {
                        seen = batch.iter().map(|event| event.revision).max().unwrap_or(seen);
                        site.control.served(seen, SERVED_MAX).await;
                        for message in messages(of, site, &batch, seen).await {
                            send(out, message).await?;
                        }
                    }
                    // Too far behind, or the store has ended: the next look tells.
                    None => break,
                },
                // With an id: a client that reconnects need not be sent what was skipped, since it is of other kinds.
                _ = beat.tick() => send(out, sse::Event::default().comment("here").id(seen.to_string())).await?,
            }
        }
    }
}

/// The events of a batch. The last one alone has the id, so that a client that reconnects gets a batch whole or again.
async fn messages(of: &Watched, site: &Site, batch: &[Event], revision: u64) -> Vec<Message> {
    let own: Vec<&Event> = batch.iter().filter(|event| of.has(&event.key)).collect();
    let there = own.iter().filter_map(|event| event.object.clone());
    let mut intents = match of {
        Watched::Kind(_) => vec![],
        Watched::Intents { .. } => items(&site.control, there.collect()).await,
    }
    .into_iter();
    let (configured, served) = standing(site);
    let id = revision.to_string();
    let told = |(place, event): (usize, &&Event)| {
        let id = (place + 1 == own.len()).then_some(&*id);
        match (&event.object, of) {
            (Some(object), Watched::Kind(_)) => Message::new("changed", id, &shown(object, &configured, served)),
            (Some(_), Watched::Intents { .. }) => Message::new("changed", id, &intents.next().unwrap_or_default()),
            (None, of) => {
                Message::new("deleted", id, &DeletedObject { name: of.name(&event.key), revision: event.revision })
            }
        }
    };
    own.iter().enumerate().map(told).collect()
}

/// Sends an event; fails once nobody reads any more.
async fn send(out: &Events, event: impl Into<sse::Event>) -> Result<(), Refusal> {
    let gone = |_| problem(StatusCode::GONE, "the watcher has gone").into();
    out.send(Ok(event.into())).await.map_err(gone)
}
