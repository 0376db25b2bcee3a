//! The stream of one watcher: writes events until the client goes, the time is over, or the server ends.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::{Hub, hub::Position};
use crate::{
    problem::{ApiError, problem},
    state::{AppState, Operates, Parameters},
};
use fairway_api_types::watch_wire::WatchParameters;

/// `GET /v1/watch`.
pub(super) async fn watch(
    State(state): State<AppState>,
    operates: Operates,
    headers: HeaderMap,
    Parameters(query): Parameters<WatchParameters>,
) -> Result<Response, ApiError> {
    let permit = permit(&state)?;
    // The collected state may be a second old, and a watcher begins with the current one.
    state.hub.publish_state(&super::current_state(&state.control));
    let last_id = headers.get("last-event-id").and_then(|id| id.to_str().ok()).or(query.after.as_deref());
    let start = match last_id {
        Some(id) => state.hub.after(id),
        None => state.hub.recent(query.recent.unwrap_or_default()),
    };
    let hub = Arc::clone(&state.hub);
    Ok(stream(&state, permit, |out| async move { feed(&hub, operates, start, &out).await }))
}

/// Returns a permit for a stream; 503 if there are 16 streams already.
pub(super) fn permit(state: &AppState) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(&state.hub.permits).try_acquire_owned().map_err(|_| {
        let detail = format!("the maximum of {} watchers is reached; try again later", super::hub::WATCHERS_MAX);
        problem(StatusCode::SERVICE_UNAVAILABLE, detail).header(header::RETRY_AFTER, 10_u64)
    })
}

/// Sends events to a watcher. The error is never used; [`Sse`] requires one.
pub(super) type Events = mpsc::Sender<Result<Event, Infallible>>;

/// Returns a stream of the events that `feed` sends. It ends with `feed`, with the client, after 110 s, or when the server ends.
pub(super) fn stream<F: Future<Output = ()> + Send + 'static>(
    state: &AppState,
    permit: OwnedSemaphorePermit,
    feed: impl FnOnce(Events) -> F,
) -> Response {
    let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let (feed, mut ending) = (feed(sender.clone()), state.ending.clone());
    tokio::spawn(async move {
        // The channel is new, so this cannot fail.
        let _ = sender.try_send(Ok(Event::default().retry(RETRY)));
        tokio::select! {
            () = feed => {}
            () = sender.closed() => {}
            () = tokio::time::sleep(STREAM_MAX) => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
        drop(permit);
    });
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    Sse::new(ReceiverStream::new(events)).keep_alive(keep_alive).into_response()
}

/// Sends the events of the hub from a position on.
async fn feed(hub: &Hub, operates: Operates, mut position: Position, out: &Events) {
    let mut changes = hub.changes();
    loop {
        changes.mark_unchanged();
        let (events, next) = hub.pull(operates, position);
        position = next;
        for event in events {
            if out.send(Ok(event)).await.is_err() {
                return;
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Longest stream. A stream that begins just before its connection is shut down (after 120 s, `CONNECTION_MAX`) ends before the
/// connection is closed (after 240 s); the watcher reconnects and continues after its last event.
const STREAM_MAX: Duration = Duration::from_secs(110);
/// Longest silence: then a comment shows that the connection still works.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);
/// Pause before a client reconnects after the end of a stream.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum number of events that wait for a slow connection; further ones stay in the hub.
const EVENTS_WAITING_MAX: usize = 8;
