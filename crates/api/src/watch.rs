//! `GET /v1/watch`: events as they happen, by Server-Sent Events with resume.
//!
//! ```text
//!  health transitions ── their impact ──┐
//!  reloads ─────────────────────────────┼── Hub: numbered, the last 256 are kept ──┐
//!  state, compared each second ─────────┴── Hub: the last one, not numbered ───────┴── stream: one task per watcher, at most 16
//! ```
//! Watchers pull events from the hub at their own speed, so a slow one needs no queue, and one that reconnects continues after the last
//! id that it has seen. If the events after that are gone, it gets a `reset`. Nothing here runs on the answer path.

mod events;
mod hub;
mod objects;
mod stream;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, watch},
    time::MissedTickBehavior,
};

use self::events::{reload_event, transition_event};
use crate::{
    route::{Content, LAST_EVENT_ID, Route},
    state::Operates,
};
use fairway_access::Verb;
use fairway_api_types::{
    endpoints::Endpoint,
    watch_wire::{ReloadEvent, StateEvent, WatchParameters},
};
use fairway_control::{AppliedTransition, Control, Readiness};

pub(crate) use hub::Hub;
pub(crate) use objects::{Watched, watch_objects};

/// The routes of events.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(Endpoint::get("/v1/watch"), "watchEvents", "Stream events as they happen")
            .description(
                "Server-Sent Events `transition`, `reload`, `state` and `reset`. A stream ends after 110 s; continue with the id of the last event.",
            )
            .requires(Verb::Observe)
            // It holds one of few places.
            .has_effect()
            .query::<WatchParameters>()
            .headers(&[&LAST_EVENT_ID])
            .returns(200, "Events as they happen.", Content::text("text/event-stream"))
            .handle(stream::watch),
    ]
}

/// Collects events in the hub until `ending` is true.
pub(crate) async fn collect(control: Control, hub: Arc<Hub>, mut ending: watch::Receiver<bool>) {
    let mut transitions = control.transitions();
    let mut tick = tokio::time::interval(STATE_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reloaded = last_reload(&control).map(|event| event.report.trace);
    let work = async {
        loop {
            tokio::select! {
                transition = transitions.recv() => match batch_of(transition, &mut transitions) {
                    Some(batch) => publish_transitions(&control, &hub, &batch).await,
                    // The control task has ended: no more events.
                    None => break,
                },
                _ = tick.tick() => {}
            }
            if let Some(event) = last_reload(&control).filter(|event| Some(&event.report.trace) != reloaded.as_ref()) {
                reloaded = Some(event.report.trace.clone());
                hub.publish("reload", &event, &event);
            }
            hub.publish_state(&current_state(&control));
        }
    };
    tokio::select! {
        () = work => {}
        _ = ending.wait_for(|ending| *ending) => {}
    }
}

/// Returns all waiting transitions; none once there can be no more. Logs lost transitions.
fn batch_of(
    first: Result<AppliedTransition, broadcast::error::RecvError>,
    more: &mut broadcast::Receiver<AppliedTransition>,
) -> Option<Vec<AppliedTransition>> {
    let mut batch = match first {
        Ok(transition) => vec![transition],
        Err(broadcast::error::RecvError::Lagged(_)) => vec![],
        Err(broadcast::error::RecvError::Closed) => return None,
    };
    while batch.len() < hub::EVENTS_MAX
        && let Ok(transition) = more.try_recv()
    {
        batch.push(transition);
    }
    Some(batch)
}

/// Publishes each transition with its impact. The pause after it bounds what a storm of transitions costs.
async fn publish_transitions(control: &Control, hub: &Hub, batch: &[AppliedTransition]) {
    let impacts = control.impacts(batch).await;
    for (transition, impact) in batch.iter().zip(&impacts) {
        let [restricted, full] = [false, true].map(|operates| transition_event(Operates(operates), transition, impact));
        hub.publish("transition", &full, &restricted);
    }
    hub.publish_state(&current_state(control));
    tokio::time::sleep(TRANSITIONS_PAUSE).await;
}

fn last_reload(control: &Control) -> Option<ReloadEvent> {
    control.shared().serving.published().last_reload.as_ref().map(reload_event)
}

fn current_state(control: &Control) -> StateEvent {
    let shared = control.shared();
    let view = shared.serving.load();
    let published = &view.published;
    StateEvent {
        configuration: published.number,
        snapshot: format!("{:016x}", view.snapshot.id()),
        runtime_state: format!("{:016x}", view.runtime.id()),
        stale: published.stale,
        ready: control.readiness() == Readiness::Ready,
        overrides: published
            .overrides
            .all()
            .map(|(_, spec)| format!("{} until {}", spec.kind.scope(), spec.expires))
            .collect(),
        objects: *shared.declarations.served.borrow(),
        syncs: shared.publishers.load().all().map(|publisher| publisher.status().counts.syncs).sum(),
    }
}

/// Interval at which the state is compared with the last one. Transitions are published at once.
const STATE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a batch of transitions: in a storm, computing their impact takes a tenth of a core at most.
const TRANSITIONS_PAUSE: Duration = Duration::from_millis(200);
