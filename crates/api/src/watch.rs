//! `GET /v1/watch`: what changes, as it happens, by Server-Sent Events with resume.
//!
//! ```text
//!  flips ── what each moved ──┐
//!  reloads ───────────────────┼── Hub: numbered, the last 256 kept ──┐
//!  marks, looked at each      │                                      ├── stream: one task a watcher, at most 16
//!  second ────────────────────┴── Hub: the last `state`, unnumbered ─┘
//! ```
//! Watchers pull from what is kept, each from where it is: a slow one costs no queue, and one that was away asks for what
//! came after the last id it saw. What is no longer kept is told by a `reset`. Nothing here is on the way of an answer.

mod hub;
mod stream;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, watch},
    time::MissedTickBehavior,
};

use super::{
    route::{Content, LAST_EVENT_ID, Route},
    watch_wire::{ReloadEvent, StateEvent, TransitionEvent, WatchParameters},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::Endpoint;
use fairway_control::{AppliedTransition, Control, Readiness};

pub(super) use hub::Hub;
pub(super) use stream::{Events, HEARTBEAT, place, stream};

/// The routes of events.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Endpoint::get("/v1/watch"), "watchEvents", "Stream events as they happen")
            .description(
                "Server-Sent Events `transition`, `reload`, `state` and `reset`. A stream ends after 110 s; continue with the id of the last event.",
            )
            .requires(Verb::Observe)
            .query::<WatchParameters>()
            .headers(&[&LAST_EVENT_ID])
            .returns(200, "Events as they happen.", Content::text("text/event-stream"))
            .handle(stream::watch),
    ]
}

/// Feeds the hub until it is told to end.
pub(super) async fn follow(control: Control, hub: Arc<Hub>, mut end: watch::Receiver<bool>) {
    let mut transitions = control.transitions();
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reloaded = last_reload(&control).map(|event| event.report.trace);
    let work = async {
        loop {
            tokio::select! {
                told = transitions.recv() => match take(told, &mut transitions) {
                    Some(batch) => tell_flips(&control, &hub, &batch).await,
                    // The control task has ended; so does this server.
                    None => break,
                },
                _ = tick.tick() => {}
            }
            if let Some(event) = last_reload(&control).filter(|event| Some(&event.report.trace) != reloaded.as_ref()) {
                reloaded = Some(event.report.trace.clone());
                hub.tell("reload", &event);
            }
            hub.mark(&mark(&control).await);
        }
    };
    tokio::select! {
        () = work => {}
        _ = end.wait_for(|end| *end) => {}
    }
}

/// The flips that are there; none once there can be no more. Of those that were lost, the log has a line each.
fn take(
    first: Result<AppliedTransition, broadcast::error::RecvError>,
    more: &mut broadcast::Receiver<AppliedTransition>,
) -> Option<Vec<AppliedTransition>> {
    let mut batch = match first {
        Ok(told) => vec![told],
        Err(broadcast::error::RecvError::Lagged(_)) => vec![],
        Err(broadcast::error::RecvError::Closed) => return None,
    };
    while batch.len() < hub::KEPT
        && let Ok(told) = more.try_recv()
    {
        batch.push(told);
    }
    Some(batch)
}

/// Tells of each with what it moved. A rest after it bounds what a storm of flips costs.
async fn tell_flips(control: &Control, hub: &Hub, batch: &[AppliedTransition]) {
    let stories = control.stories(batch).await;
    for (told, story) in batch.iter().zip(&stories) {
        hub.tell("transition", &TransitionEvent::new(told, story));
    }
    hub.mark(&mark(control).await);
    tokio::time::sleep(FLIPS_REST).await;
}

fn last_reload(control: &Control) -> Option<ReloadEvent> {
    control.shared().serving.published().last_reload.as_ref().map(ReloadEvent::new)
}

async fn mark(control: &Control) -> StateEvent {
    let shared = control.shared();
    let view = shared.serving.load();
    let published = &view.published;
    StateEvent {
        generation: published.generation,
        snapshot: format!("{:016x}", view.snapshot.id()),
        runtime_state: format!("{:016x}", view.runtime.id()),
        stale: published.stale,
        ready: control.readiness() == Readiness::Ready,
        overrides: published.book.all().map(|(_, said)| format!("{} until {}", said.scope, said.expires)).collect(),
        objects: *shared.served.borrow(),
        syncs: shared.publishers.load().iter().map(|publisher| publisher.status().counts.syncs).sum(),
    }
}

/// How often it is looked whether anything else than a flip has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Rest after a batch of flips: in a storm, asking what they moved takes a tenth of a core at most.
const FLIPS_REST: Duration = Duration::from_millis(200);
