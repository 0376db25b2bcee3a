//! Dry runs of declared objects. If the objects are committed, the compiled result is applied, so that a write is compiled once.
//!
//! ```text
//! write of one object ── waits while a dry run runs ── runs together with all that wait ──┬── valid: so is each
//! many objects, a question ──────────────────────────────────────────────── runs alone ◄──┴── else: each alone
//! ```
//! Writes that arrive faster than a dry run takes share one, on one thread. Dry runs that may take long are not part of this queue.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use arc_swap::ArcSwap;
use fairway_model::DesiredState;
use fairway_store::objects::Key;
use tokio::sync::oneshot;

use super::{
    changes,
    configured::{Compiled, CompiledDryRun, Configured, Previous},
    declared::{Declared, ObjectErrors},
    lifecycle::Clock,
    reader::{Reader, Reading},
    reloads::ReloadScope,
    served::Served,
};

/// A request for a dry run.
#[derive(Debug)]
pub struct DryRunRequest {
    /// All objects that would be declared.
    pub declared: Declared,
    /// The one object that is written, if only its validity is asked for. Such a dry run may be shared with others.
    pub written: Option<Key>,
}

/// The result of a dry run.
#[derive(Clone, Debug)]
pub struct DryRunResult {
    /// Objects that would not be served, with the reasons.
    pub not_served: ObjectErrors,
    /// Counts of changes by kind; of all writes that share the dry run.
    pub changes: Vec<String>,
    /// Reasons why the objects would be rejected as a whole; empty if they would not.
    pub errors: Vec<String>,
    /// The desired state that would be served; `None` if the objects would be rejected as a whole.
    pub desired: Option<Arc<DesiredState>>,
    /// The compiled result. It is applied if the objects are committed while this is held.
    pub compiled: Option<Arc<CompiledDryRun>>,
}

impl DryRunResult {
    fn rejected(errors: Vec<String>) -> Self {
        Self { not_served: ObjectErrors::new(), changes: vec![], errors, desired: None, compiled: None }
    }
}

/// Dry runs of one server.
pub(crate) struct DryRuns {
    reader: Reader,
    clock: Clock,
    serving: Served,
    /// The last result. Earlier ones are freed: each holds a version of everything that is served.
    last: Mutex<Weak<CompiledDryRun>>,
    queue: Mutex<Queue>,
}

/// Writes that wait for a dry run.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// True if a task runs those that wait.
    is_served: bool,
}

/// A write that waits.
#[derive(Debug)]
struct Waiting {
    /// All objects that would be declared.
    declared: Declared,
    /// The object that is written.
    key: Key,
    reply: oneshot::Sender<DryRunResult>,
}

impl DryRuns {
    pub(crate) fn new(reader: Reader, clock: Clock, serving: Served) -> Self {
        Self { reader, clock, serving, last: Mutex::default(), queue: Mutex::default() }
    }

    /// Returns the last result, while its caller holds it.
    pub(crate) fn last(&self) -> Option<Arc<CompiledDryRun>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// Keeps the result of a dry run instead of the last one.
    pub(crate) fn keep(&self, compiled: Compiled, before: &Arc<Configured>) -> Arc<CompiledDryRun> {
        let result = Arc::new(CompiledDryRun::new(compiled, before));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *last, Arc::downgrade(&result)).upgrade() {
            old.discard();
        }
        result
    }

    /// Starts a dry run.
    pub(crate) fn start(self: &Arc<Self>, request: DryRunRequest, reply: oneshot::Sender<DryRunResult>) {
        let DryRunRequest { declared, written } = request;
        match written {
            Some(key) => {
                if self.enqueue(Waiting { declared, key, reply }) {
                    tokio::spawn(Arc::clone(self).serve_queue());
                }
            }
            None => self.start_alone(declared, reply),
        }
    }

    fn start_alone(self: &Arc<Self>, declared: Declared, reply: oneshot::Sender<DryRunResult>) {
        let dry_runs = Arc::clone(self);
        // A caller that has gone needs no reply.
        tokio::spawn(async move { reply.send(dry_runs.run_alone(declared).await) });
    }

    /// Adds a write to the queue. Returns true if no task serves the queue, so that the caller has to start one.
    fn enqueue(&self, write: Waiting) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(write);
        !std::mem::replace(&mut queue.is_served, true)
    }

    /// Removes the first writes of the queue that can share a dry run: of each object only the first write. Returns `None` if no write
    /// waits.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue();
        queue.waiting.retain(|write| !write.reply.is_closed());
        let mut keys = HashSet::new();
        let count = queue.waiting.iter().take(SHARED_MAX).take_while(|write| keys.insert(&write.key)).count();
        queue.is_served = count > 0;
        queue.is_served.then(|| queue.waiting.drain(..count).collect())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what waits until nothing does.
    async fn serve_queue(self: Arc<Self>) {
        let _guard = QueueGuard(&self);
        while let Some(writes) = self.next() {
            self.run_together(writes).await;
        }
    }

    /// Runs writes together. If anything is invalid, each runs alone, so that each is answered with its own errors.
    async fn run_together(self: &Arc<Self>, writes: Vec<Waiting>) {
        let mut declared = Declared::clone(&self.reader.declared.load());
        writes.iter().for_each(|write| declared.take_from(&write.declared, &write.key));
        let (reader, previous) = self.reader_of(declared);
        let before = Arc::clone(&previous.configured);
        if let Some(reading) = reader.read_briefly(previous, (self.clock)()).await {
            let result = self.result(reading, &before);
            let mut changed = result.not_served.differences(&before.not_served, |_, _| true).into_iter();
            if changed.all(|(_, now, _)| now.is_none()) {
                for write in writes {
                    let _ = write.reply.send(result.clone());
                }
                return;
            }
        }
        for Waiting { declared, reply, .. } in writes {
            self.start_alone(declared, reply);
        }
    }

    /// Runs objects alone, however long that takes.
    async fn run_alone(&self, declared: Declared) -> DryRunResult {
        let (reader, previous) = self.reader_of(declared);
        let before = Arc::clone(&previous.configured);
        match reader.read(ReloadScope::Objects, previous, (self.clock)()).await {
            Some(reading) => self.result(reading, &before),
            None => DryRunResult::rejected(vec!["cannot start a thread for the validation".to_owned()]),
        }
    }

    /// Returns a reader of these objects, and the state that they are read after.
    fn reader_of(&self, declared: Declared) -> (Reader, Previous) {
        let reader = Reader { declared: Arc::new(ArcSwap::from_pointee(declared)), ..self.reader.clone() };
        let state = self.serving.load();
        (reader, Previous::new(Arc::clone(&state.published.configured), Arc::clone(&state.snapshot)))
    }

    fn result(&self, reading: Reading, before: &Arc<Configured>) -> DryRunResult {
        let compiled = match reading.outcome {
            Ok(compiled) => compiled,
            Err(errors) => return DryRunResult::rejected(errors.iter().map(ToString::to_string).collect()),
        };
        DryRunResult {
            changes: changes::counted(&before.merged.desired, &compiled.configured.merged.desired),
            not_served: compiled.configured.not_served.clone(),
            errors: vec![],
            desired: Some(Arc::clone(&compiled.configured.merged.desired)),
            compiled: Some(self.keep(compiled, before)),
        }
    }
}

/// Held by the task that serves the queue. After a panic, the next write starts another task.
struct QueueGuard<'a>(&'a DryRuns);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue().is_served = false;
        }
    }
}

/// Maximum number of writes that share a dry run: twice the requests that one client may have in flight. One error among them runs all of
/// them again.
const SHARED_MAX: usize = 64;
