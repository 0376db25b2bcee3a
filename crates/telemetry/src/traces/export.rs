//! Sends ended spans to a collector by OTLP, over HTTP or gRPC.
//!
//! ```text
//! a span ends ──► queue ──► batch ──► request ──┬── accepted ──────────────────► sent, or rejected by the collector
//!                   │                           ├── may succeed later ── pause ─┐
//!                   └ full: dropped             │◄────────── retries left ──────┴ none left: dropped
//!                                               └── refused ───────────────────► dropped
//! ```
//! While a collector is unreachable the queue fills, and spans that end then are dropped: nothing blocks. The log reports
//! the failure of two requests in a row, or of a batch, and the recovery.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter as _, SpanProcessor},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tracing::{Dispatch, instrument::WithSubscriber};

use super::{
    TraceError, TraceOptions,
    collector::{LastError, exporter},
    events::Events,
};

/// Counts of ended spans by outcome.
#[derive(Debug, Default)]
pub struct Counts {
    /// Accepted by the collector.
    pub sent: AtomicU64,
    /// Rejected by the collector within a request that it accepted (partial success).
    pub rejected: AtomicU64,
    /// Lost because the queue was full, or because no request with them succeeded.
    pub dropped: AtomicU64,
    /// Requests that failed; a request may be repeated.
    pub failures: AtomicU64,
}

/// Puts ended spans into the queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// Weak, so that the queue closes when [`Sending`] stops.
    to: mpsc::WeakSender<SpanData>,
    counts: Arc<Counts>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.to.upgrade().is_none_or(|to| to.try_send(span).is_err()) {
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

/// The task that sends. Dropping this aborts it.
#[derive(Debug)]
pub(super) struct Sending(Mutex<Option<(mpsc::Sender<SpanData>, JoinHandle<()>)>>);

impl Sending {
    /// Closes the queue, and waits until the spans in it are sent: [`LAST_MAX`] at most.
    pub(super) async fn stop(&self) {
        let Some((queue, mut task)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        drop(queue);
        if timeout(LAST_MAX, &mut task).await.is_err() {
            task.abort();
            // Once the task is gone, what it could not send is counted.
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

/// Starts the sending task.
pub(super) fn start(
    options: &TraceOptions,
    resource: &Resource,
    counts: &Arc<Counts>,
) -> Result<(Queue, Sending), TraceError> {
    let error = LastError::default();
    let mut exporter = exporter(options, &error)?;
    exporter.set_resource(resource);
    let (to, spans) = mpsc::channel(QUEUE_MAX);
    let queue = Queue { to: to.downgrade(), counts: Arc::clone(counts) };
    let events = Events::new(Arc::clone(counts));
    let sender = Sender {
        spans,
        exporter,
        collector: options.endpoint.authority().to_owned(),
        error,
        listener: events.listener(),
        events,
        counts: Arc::clone(counts),
        batch: Vec::new(),
        in_request: 0,
        is_failing: false,
    };
    let task = tokio::spawn(sender.run());
    Ok((queue, Sending(Mutex::new(Some((to, task))))))
}

struct Sender {
    spans: mpsc::Receiver<SpanData>,
    exporter: SpanExporter,
    /// Host and port of the collector, for the log.
    collector: String,
    error: LastError,
    events: Events,
    /// Passes the library's events to `events` while a batch is sent.
    listener: Dispatch,
    counts: Arc<Counts>,
    /// Spans that wait for more of their batch.
    batch: Vec<SpanData>,
    /// Spans in the request under way.
    in_request: u64,
    /// True if the last batch failed. The failure was logged then.
    is_failing: bool,
}

impl Sender {
    /// Sends batch by batch, until the queue is closed and empty.
    async fn run(mut self) {
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
            self.send().await;
        }
    }

    /// Sends the batch, with the retries that the library makes.
    async fn send(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let count = batch.len() as u64;
        self.in_request = count;
        let mut export = pin!(self.exporter.export(batch).with_subscriber(self.listener.clone()));
        let collector = &*self.collector;
        let mut was_failing = self.is_failing;
        let outcome = loop {
            tokio::select! {
                outcome = &mut export => break outcome,
                // The library repeats a request for minutes. The operator should know before it gives up.
                () = self.events.second_failure(), if !was_failing => {
                    let error = self.error.take().unwrap_or_else(|| "requests fail".to_owned());
                    tracing::warn!(collector, error, "trace export failed");
                    was_failing = true;
                }
            }
        };
        self.in_request = 0;
        let rejected = self.events.take_rejected().min(count);
        self.is_failing = outcome.is_err();
        let cause = self.error.take();
        match outcome {
            Ok(()) => {
                self.counts.sent.fetch_add(count - rejected, Relaxed);
                self.counts.rejected.fetch_add(rejected, Relaxed);
                if was_failing {
                    let dropped = self.counts.dropped.load(Relaxed);
                    tracing::info!(collector, dropped, "trace export recovered");
                }
            }
            Err(error) => {
                self.counts.dropped.fetch_add(count, Relaxed);
                if !was_failing {
                    let error = cause.unwrap_or_else(|| error.to_string());
                    tracing::warn!(collector, error, "trace export failed");
                }
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Nothing unless the task was aborted.
        let lost = self.in_request + (self.batch.len() + self.spans.len()) as u64;
        self.counts.dropped.fetch_add(lost, Relaxed);
    }
}

/// Maximum number of spans in the queue: the default of OpenTelemetry's batch processors.
const QUEUE_MAX: usize = 2_048;
/// Maximum number of spans of a request, likewise.
const BATCH_MAX: usize = 512;
/// Time that a batch waits for more spans.
const GATHER: Duration = Duration::from_millis(500);
/// Longest time for the spans that are left at the end of the process.
const LAST_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
