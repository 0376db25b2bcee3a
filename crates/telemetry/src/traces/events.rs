//! Reads from the OTLP library's log events what it does not return: failed requests, and spans that the collector rejected.
//!
//! The library repeats a request itself, and reports partial success with a log event only. Its events are read while a batch is
//! sent, whatever the log's filter is, and do not reach the log: [`super::export`] logs the first failure and the recovery instead.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tokio::sync::Notify;
use tracing::{Dispatch, Event, Subscriber, field::Field, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    layer::{Context, SubscriberExt},
};

use super::export::Counts;

/// Counts of failed requests, and of rejected spans of the current batch. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Events {
    counts: Arc<Counts>,
    rejected: Arc<AtomicU64>,
    /// Wakes [`Self::second_failure`].
    failed: Arc<Notify>,
}

impl Events {
    pub(super) fn new(counts: Arc<Counts>) -> Self {
        Self { counts, rejected: Arc::default(), failed: Arc::default() }
    }

    /// The subscriber under which a batch is to be sent.
    pub(super) fn listener(&self) -> Dispatch {
        // A filter, so that events of other libraries stay as cheap as without this subscriber.
        let library = Targets::new().with_target("opentelemetry-otlp", LevelFilter::DEBUG);
        tracing_subscriber::registry().with(library).with(self.clone()).into()
    }

    /// Waits until two more requests have failed. One failure is common when a collector restarts, and its repetition succeeds.
    pub(super) async fn second_failure(&self) {
        let before = self.counts.failures.load(Relaxed);
        while self.counts.failures.load(Relaxed) < before + 2 {
            self.failed.notified().await;
        }
    }

    /// Returns the number of spans rejected since the last call.
    pub(super) fn take_rejected(&self) -> u64 {
        self.rejected.swap(0, Relaxed)
    }
}

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let name = event.metadata().name();
        // One for each failed request: Export.InProgress.{Retrying,Throttled} and Export.Failed.*.
        if name.starts_with("Export.") {
            self.counts.failures.fetch_add(1, Relaxed);
            self.failed.notify_one();
        } else if name.ends_with(".PartialSuccess") {
            event.record(&mut |field: &Field, value: &dyn Debug| {
                if field.name() == "rejected_spans" {
                    let spans = format!("{value:?}").parse().unwrap_or(0);
                    self.rejected.fetch_add(spans, Relaxed);
                }
            });
        }
    }
}
