//! Sends spans that ended to a collector: OTLP 1.9 over HTTP, in protobuf.
//!
//! ```text
//! a span ends ──► queue ──► batch ──► POST ──┬── 2xx ──────────────────► sent
//!                   │                        ├── may pass ── pause ──┐
//!                   └ full: dropped          │◄─────── tries are left┴ none: dropped
//!                                            └── is refused ─────────────► dropped
//! ```
//! While a collector is away the queue fills, and what ends then is dropped: nobody waits for room. It is told once that it is away, and
//! once that it is back.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hyper::{
    HeaderMap, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use opentelemetry::Context;
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use prost::Message;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::rustls::ClientConfig;

use crate::post::{PostError, post};
use fairway_config::{CallTls, TraceSettings, WebUrl};
use fairway_http::https;

/// What became of spans that ended.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// A collector has taken them.
    pub(crate) sent: AtomicU64,
    /// The queue was full, or no collector took them.
    pub(crate) dropped: AtomicU64,
    /// Requests that a collector did not take.
    pub(crate) failures: AtomicU64,
}

/// Puts spans that end into the queue.
#[derive(Debug)]
pub(super) struct Queue {
    to: mpsc::Sender<SpanData>,
    counts: Arc<Counts>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.to.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The task that sends; it is cut off when this is dropped.
#[derive(Debug)]
pub(super) struct Sending(Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>);

impl Sending {
    /// Sends what waits, and ends: [`LAST_MAX`] at most.
    pub(super) async fn stop(&self) {
        let Some((stop, mut task)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // A task that has ended has sent all.
        let _ = stop.send(());
        if timeout(LAST_MAX, &mut task).await.is_err() {
            task.abort();
            // Its end of the queue is closed once it is gone.
            let _ = task.await;
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some((_, task)) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Begins to send.
pub(super) fn start(settings: &TraceSettings, resource: &Resource, counts: Arc<Counts>) -> (Queue, Sending) {
    let (to, spans) = mpsc::channel(QUEUE_MAX);
    let sender = Sender {
        spans,
        collector: Collector::new(settings),
        resource: resource.into(),
        counts: Arc::clone(&counts),
        batch: Vec::new(),
        in_hand: None,
        is_away: false,
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(sender.run(stopped));
    (Queue { to, counts }, Sending(Mutex::new(Some((stop, task)))))
}

/// Where spans are posted to.
struct Collector {
    url: WebUrl,
    headers: HeaderMap,
    tls: CallTls,
    /// Made at the first need of it.
    made: Option<Arc<ClientConfig>>,
    timeout: Duration,
}

impl Collector {
    fn new(settings: &TraceSettings) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            if let Ok(mut value) = HeaderValue::from_str(value.expose().trim()) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let TraceSettings { endpoint, tls, timeout, .. } = settings;
        Self { url: endpoint.clone(), headers, tls: tls.clone(), made: None, timeout: *timeout }
    }

    async fn post(&mut self, body: Bytes) -> Result<(), PostError> {
        let limit = self.timeout;
        let trying = async {
            if self.url.is_https() && self.made.is_none() {
                let CallTls { ca, own } = self.tls.clone();
                let made = move || {
                    https::client_config(ca.as_ref(), own.as_ref().map(|(certificate, key)| (certificate, key)))
                };
                self.made = Some(Arc::new(https::beside(made).await?));
            }
            post(&self.url, self.made.clone(), self.headers.clone(), body).await
        };
        timeout(limit, trying).await.unwrap_or(Err(PostError::Late(limit)))
    }
}

struct Sender {
    spans: mpsc::Receiver<SpanData>,
    collector: Collector,
    resource: ResourceAttributesWithSchema,
    counts: Arc<Counts>,
    /// Spans that wait for more of their batch; here, so that the end of waiting does not lose them.
    batch: Vec<SpanData>,
    /// A batch that no collector has taken yet, and its number of spans.
    in_hand: Option<(Bytes, usize)>,
    /// Whether the last try failed, which was told.
    is_away: bool,
}

impl Sender {
    async fn run(mut self, stopped: oneshot::Receiver<()>) {
        tokio::select! {
            biased;
            // Also where whoever would say so is gone.
            _ = stopped => {}
            () = self.follow() => return,
        }
        // A try each for what is in hand and what waits.
        if self.in_hand.is_some() {
            self.try_once().await;
        }
        loop {
            while self.batch.len() < BATCH_MAX
                && let Ok(span) = self.spans.try_recv()
            {
                self.batch.push(span);
            }
            if self.batch.is_empty() {
                return;
            }
            self.take();
            self.try_once().await;
        }
    }

    /// Sends batch by batch, until nobody is left who could end a span.
    async fn follow(&mut self) {
        while self.spans.recv_many(&mut self.batch, BATCH_MAX).await > 0 {
            // Spans of one trace end within a moment: they go together.
            let until = Instant::now() + GATHER;
            while self.batch.len() < BATCH_MAX {
                let room = BATCH_MAX - self.batch.len();
                match timeout_at(until, self.spans.recv_many(&mut self.batch, room)).await {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                }
            }
            self.take();
            for pause in PAUSES.into_iter().map(Some).chain([None]) {
                self.try_once().await;
                match pause {
                    Some(pause) if self.in_hand.is_some() => tokio::time::sleep(pause).await,
                    _ => break,
                }
            }
            self.give_up();
        }
    }

    /// Takes the batch in hand.
    fn take(&mut self) {
        self.give_up();
        let batch = std::mem::take(&mut self.batch);
        let count = batch.len();
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        self.in_hand = Some((body.into(), count));
    }

    fn give_up(&mut self) {
        if let Some((_, count)) = self.in_hand.take() {
            self.counts.dropped.fetch_add(count as u64, Relaxed);
        }
    }

    /// Tries what is in hand, which stays there if another try may help. Told is what changes.
    async fn try_once(&mut self) {
        let Some((body, count)) = self.in_hand.clone() else { return };
        let outcome = self.collector.post(body).await;
        let was_away = std::mem::replace(&mut self.is_away, outcome.is_err());
        let to = self.collector.url.authority();
        match outcome {
            Ok(()) => {
                self.in_hand = None;
                self.counts.sent.fetch_add(count as u64, Relaxed);
                if was_away {
                    let dropped = self.counts.dropped.load(Relaxed);
                    tracing::info!(to, dropped, "traces are taken again");
                }
            }
            Err(error) => {
                self.counts.failures.fetch_add(1, Relaxed);
                if !was_away {
                    tracing::warn!(to, %error, "traces are not taken; what finds no room is dropped and counted");
                }
                if !may_pass(&error) {
                    self.give_up();
                }
            }
        }
    }
}

/// Whether another try may help (OTLP, "Failures" of its HTTP transport).
fn may_pass(error: &PostError) -> bool {
    match error {
        PostError::Status(status) => [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ]
        .contains(status),
        PostError::Connect(_) | PostError::Http(_) | PostError::Late(_) => true,
        PostError::Request(_) => false,
    }
}

/// Spans that may wait, as OpenTelemetry's own processors have it.
const QUEUE_MAX: usize = 2_048;
/// Most spans of a request, likewise.
const BATCH_MAX: usize = 512;
/// How long a batch waits for more.
const GATHER: Duration = Duration::from_millis(500);
/// Pauses between the tries of a batch.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
/// Longest wait for what is sent at the end.
const LAST_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
