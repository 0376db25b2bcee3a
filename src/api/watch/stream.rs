//! One watcher's stream: pulls from the hub and writes, until the client goes, the time is over, or the server ends.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::body::Frame;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, Interval},
};

use super::{Hub, hub::Place};
use crate::api::{
    problem::{Refusal, problem},
    routes::Site,
    watch_wire::WatchParameters,
};

/// `GET /v1/watch`.
pub(in crate::api) async fn watch(
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
pub(in crate::api) fn place(site: &Site) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&site.hub.places).try_acquire_owned().map_err(|_| {
        let what = format!("{} watchers are there already, the most; try again later", super::hub::WATCHERS_MAX);
        let mut full = problem(StatusCode::SERVICE_UNAVAILABLE, what);
        full.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        full.into()
    })
}

/// Answers with the frames that `feed` sends, until it ends, the client goes, the time is over, or the server ends.
pub(in crate::api) fn stream<F: Future<Output = ()> + Send + 'static>(
    site: &Site,
    place: OwnedSemaphorePermit,
    feed: impl FnOnce(mpsc::Sender<Bytes>) -> F,
) -> Response {
    let (sender, frames) = mpsc::channel(FRAMES_WAITING_MAX);
    let (feed, mut end) = (feed(sender.clone()), site.ending.clone());
    tokio::spawn(async move {
        let hello = format!("retry: {RETRY_MILLIS}\n\n");
        // The channel is new, so there is room.
        let _ = sender.try_send(hello.into());
        tokio::select! {
            () = feed => {}
            () = sender.closed() => {}
            () = tokio::time::sleep(WATCH_MAX) => {}
            _ = end.wait_for(|end| *end) => {}
        }
        drop(place);
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    (kind, Body::new(Frames(frames))).into_response()
}

/// What says at regular times that the stream goes on, so that both sides notice when the other has gone.
pub(in crate::api) fn heartbeat() -> Interval {
    tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT)
}

/// Sends what is new, and a comment now and then.
async fn feed(hub: &Hub, mut place: Place, out: &mpsc::Sender<Bytes>) {
    let mut news = hub.news();
    let mut beat = heartbeat();
    loop {
        news.mark_unchanged();
        let (frames, next) = hub.pull(place);
        place = next;
        for frame in frames {
            if out.send(Bytes::copy_from_slice(frame.as_bytes())).await.is_err() {
                return;
            }
        }
        loop {
            tokio::select! {
                changed = news.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                _ = beat.tick() => if out.send(Bytes::from_static(b": here\n\n")).await.is_err() { return },
            }
        }
    }
}

/// A body that is written as it comes.
struct Frames(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Longest stream: a watcher comes back by itself and goes on where it was. One that began as its connection was asked to
/// end (after 120 s, `CONNECTION_MAX`) is over before that is cut off (after 240 s).
const WATCH_MAX: Duration = Duration::from_secs(110);
/// Longest silence.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// What a client that the stream ended for is told to wait before it comes back.
const RETRY_MILLIS: u32 = 1_000;
/// Frames that wait for the connection; more stay in the hub.
const FRAMES_WAITING_MAX: usize = 8;
