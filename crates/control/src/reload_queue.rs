//! The queue of reloads. A storm of requests makes two reloads at most: the one that runs, and one for all later requests.

use std::{future::Future, pin::Pin};

use fairway_config::watch::Fingerprint;
use fairway_model::Timestamp;
use fairway_telemetry::logs::Trace;
use tokio::sync::{oneshot, watch};
use tracing::Instrument;

use super::{
    configured::Previous,
    reader::{Reader, Reading},
    reloads::{ReloadOutcome, ReloadScope, Trigger},
};

/// Requests that one reload serves.
#[derive(Debug)]
pub(crate) struct ReloadRequests {
    /// Id of the log lines of the reload.
    pub(crate) trace: Trace,
    /// The largest requested scope.
    pub(crate) scope: ReloadScope,
    /// The cause of the first request with this scope.
    pub(crate) trigger: Trigger,
    /// True if one of the requests allows the files to remove any number of names.
    pub(crate) allow_removals: bool,
    /// Callers that wait for the outcome.
    pub(crate) replies: Vec<oneshot::Sender<ReloadOutcome>>,
}

type Running = Pin<Box<dyn Future<Output = Option<Reading>> + Send>>;

/// The reload that runs, and the requests for the next one.
pub(crate) struct ReloadQueue {
    pub(crate) reader: Reader,
    /// The files as they were last read, for their watcher.
    pub(crate) fingerprint: watch::Sender<Fingerprint>,
    running: Option<(Running, ReloadRequests)>,
    /// Requests that came after the running reload began: files may have changed since.
    next: Option<ReloadRequests>,
}

impl ReloadQueue {
    /// Returns an empty queue.
    pub(crate) fn new(reader: Reader, fingerprint: watch::Sender<Fingerprint>) -> Self {
        Self { reader, fingerprint, running: None, next: None }
    }

    /// Adds a request for the next reload.
    pub(crate) fn push(
        &mut self,
        scope: ReloadScope,
        trigger: Trigger,
        allow_removals: bool,
        reply: Option<oneshot::Sender<ReloadOutcome>>,
    ) {
        let new = || ReloadRequests { trace: Trace::new(), scope, trigger, allow_removals, replies: vec![] };
        let requests = self.next.get_or_insert_with(new);
        if scope > requests.scope {
            requests.scope = scope;
            requests.trigger = trigger;
        }
        requests.allow_removals |= allow_removals;
        requests.replies.extend(reply);
    }

    /// Returns true if a reload can begin.
    pub(crate) fn is_due(&self) -> bool {
        self.running.is_none() && self.next.is_some()
    }

    /// Returns true if a request waits for the next reload.
    pub(crate) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Begins the next reload, if there is one and none runs.
    pub(crate) fn begin(&mut self, previous: Previous, now: Timestamp) {
        if self.running.is_some() {
            return;
        }
        let Some(requests) = self.next.take() else { return };
        let (reader, scope, span) = (self.reader.clone(), requests.scope, requests.trace.span());
        let reading = async move { reader.read(scope, previous, now).await }.instrument(span);
        self.running = Some((Box::pin(reading), requests));
    }

    /// Waits for the end of the running reload; forever if none runs.
    pub(crate) async fn ended(&mut self) -> (Option<Reading>, ReloadRequests) {
        let Some((running, _)) = &mut self.running else { return std::future::pending().await };
        let reading = running.await;
        let (_, requests) = self.running.take().expect("the reload that was waited for");
        (reading, requests)
    }
}
