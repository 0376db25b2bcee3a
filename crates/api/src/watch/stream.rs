//! One watcher's stream: pulls from the hub and writes, until the client goes, the time is over, or the server ends.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::{Hub, hub::Place};
use crate::{
    problem::{Refusal, problem},
    routes::Site,
    watch_wire::WatchParameters,
};

/// `GET /v1/watch`.
pub(super) async fn watch(
    State(site): State<Site>,
    headers: HeaderMap,
    query: Result<Query<WatchParameters>, QueryRejection>,
) -> Response {
    let asked = match query {
        Ok(Query(asked)) => asked,
        Err(error) => {
            let what = format!("{}; ask with ?recent=COUNT or ?after=ID, or with neither", error.body_text());
            return problem(StatusCode::BAD_REQUEST, what);
        }
    };
    let place = match place(&site) {
        Ok(place) => place,
        Err(full) => return full.into_response(),
    };
    // The last mark may be a second old, and a watcher begins with what holds now.
    site.hub.mark(&super::mark(&site.control).await);
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()).or(asked.after.as_deref());
    let start = seen.map_or_else(|| site.hub.recent(asked.recent.unwrap_or_default()), |id| site.hub.after(id));
    let hub = Arc::clone(&site.hub);
    stream(&site, place, |out| async move { feed(&hub, start, &out).await })
}

/// A place among the watchers; without one, what tells so.
pub(crate) fn place(site: &Site) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&site.hub.places).try_acquire_owned().map_err(|_| {
        let what = format!("{} watchers are there already, the most; try again later", super::hub::WATCHERS_MAX);
        let mut full = problem(StatusCode::SERVICE_UNAVAILABLE, what);
        full.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        full.into()
    })
}

/// The way to a watcher. It cannot fail; the type is what [`Sse`] takes.
pub(crate) type Events = mpsc::Sender<Result<Event, Infallible>>;

/// Answers with the events that `feed` sends, until it ends, the client goes, the time is over, or the server ends.
pub(crate) fn stream<F: Future<Output = ()> + Send + 'static>(
    site: &Site,
    place: OwnedSemaphorePermit,
    feed: impl FnOnce(Events) -> F,
) -> Response {
    let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let (feed, mut end) = (feed(sender.clone()), site.ending.clone());
    tokio::spawn(async move {
        // The channel is new, so it has room.
        let _ = sender.try_send(Ok(Event::default().retry(RETRY)));
        tokio::select! {
            () = feed => {}
            () = sender.closed() => {}
            () = tokio::time::sleep(WATCH_MAX) => {}
            _ = end.wait_for(|end| *end) => {}
        }
        drop(place);
    });
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("here");
    Sse::new(ReceiverStream::new(events)).keep_alive(keep_alive).into_response()
}

/// Sends what is new.
async fn feed(hub: &Hub, mut place: Place, out: &Events) {
    let mut news = hub.news();
    loop {
        news.mark_unchanged();
        let (messages, next) = hub.pull(place);
        place = next;
        for message in messages {
            if out.send(Ok(message.into())).await.is_err() {
                return;
            }
        }
        if news.changed().await.is_err() {
            return;
        }
    }
}

/// Longest stream: a watcher comes back by itself and goes on where it was. One that began as its connection was asked to
/// end (after 120 s, `CONNECTION_MAX`) is over before that is cut off (after 240 s).
const WATCH_MAX: Duration = Duration::from_secs(110);
/// Longest silence: then a comment shows both sides that the other is still there.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a client waits before it reconnects after the stream has ended.
const RETRY: Duration = Duration::from_secs(1);
/// Events that wait for the connection; more stay in the hub.
const EVENTS_WAITING_MAX: usize = 8;
