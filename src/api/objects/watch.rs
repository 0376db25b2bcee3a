//! `GET /v1/pools?watch=true`, `GET /v1/intents?watch=true`: each change of the objects of a kind, or of intents, once it is served, by Server-Sent Events with resume.
//!
//! The id of an event is the revision that it brought. Who names it, as browsers do in `Last-Event-ID`, is told of everything after it;
//! where the store no longer remembers that far back, a `reset` says from where on it goes: list anew.

use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use tokio::sync::mpsc;

use super::{
    super::{
        intents::{is_in, items},
        problem::{Refusal, problem},
        routes::Site,
        watch::{heartbeat, place, stream},
        watch_wire::frame,
    },
    shown::{shown, standing},
    write::SERVED_MAX,
};
use fairway_api_types::objects_wire::{DeletedObject, ObjectsReset};
use fairway_intents::INTENT_KINDS;
use fairway_store::objects::{Event, Key, Kind, StoreError};

/// What a watcher is told of.
#[derive(Clone, Debug)]
pub(in crate::api) enum Watched {
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
pub(in crate::api) fn follow(
    of: Watched,
    site: &Site,
    headers: &HeaderMap,
    revision: Option<u64>,
) -> Result<Response, Refusal> {
    let seen = match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default().parse()) {
        Some(Ok(seen)) => Some(seen),
        Some(Err(_)) => {
            let what = "Last-Event-ID is the revision of the last event that was seen; give that, or leave it out";
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
async fn feed(of: &Watched, site: &Site, mut seen: u64, out: &mpsc::Sender<Bytes>) -> Result<(), Refusal> {
    let objects = site.control.objects()?;
    let mut beat = heartbeat();
    loop {
        let mut watched = objects.store().watch(seen).await;
        if let Err(StoreError::Compacted { .. }) = watched {
            let revision = objects.declared().revision;
            send(out, &frame("reset", Some(&revision.to_string()), &ObjectsReset { revision })).await?;
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
                        for frame in frames(of, site, &batch, seen).await {
                            send(out, &frame).await?;
                        }
                    }
                    // Too far behind, or the store has ended: the next look tells.
                    None => break,
                },
                // What was seen of other kinds is not to be looked through again.
                _ = beat.tick() => send(out, &format!(": here\nid: {seen}\n\n")).await?,
            }
        }
    }
}

/// What a batch means for whoever watches, as frames. The last one alone has the id, so that a batch is told whole or again.
async fn frames(of: &Watched, site: &Site, batch: &[Event], revision: u64) -> Vec<String> {
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
            (Some(object), Watched::Kind(_)) => frame("changed", id, &shown(object, &configured, served)),
            (Some(_), Watched::Intents { .. }) => frame("changed", id, &intents.next().unwrap_or_default()),
            (None, of) => frame("deleted", id, &DeletedObject { name: of.name(&event.key), revision: event.revision }),
        }
    };
    own.iter().enumerate().map(told).collect()
}

/// Sends a frame; refused where nobody reads any more.
async fn send(out: &mpsc::Sender<Bytes>, text: &str) -> Result<(), Refusal> {
    let gone = |_| problem(StatusCode::GONE, "the watcher has gone").into();
    out.send(Bytes::copy_from_slice(text.as_bytes())).await.map_err(gone)
}
