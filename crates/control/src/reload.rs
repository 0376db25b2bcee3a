//! Taking a new configuration into force, or refusing it.
//!
//! ```text
//! ask ── read and compile, on a thread of its own ──┬── faults: the old one serves on, marked stale
//!                                                   └── new targets are probed beside the old ones, for a while
//!                                                       ── swap ── targets that nothing uses any more end
//! ```
//! A storm of requests makes at most two readings: the one that runs, and one more for all who asked meanwhile.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use fairway_health::load::ClusterLoadSettings;
use fairway_model::{Diagnostic, Health, HealthStatus, OverrideAction, Target, Timestamp};
use fairway_telemetry::logs::Trace;
use fairway_zones::{RuntimeState, ServingState, Snapshot, TargetIndex};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::{
    actor::{Actor, Askers},
    changes,
    command::Trigger,
    compile::Compiled,
    configured::{Configured, Previous, Reading, What},
    shared::Published,
};
use crate::begin::line_format;
use fairway_api_types::state_wire::ReloadReport;
use fairway_telemetry::traces::Passage;

impl Actor {
    /// Begins a reading, or puts the asker down for the next one.
    pub fn ask_reading(&mut self, what: What, asked_by: Trigger, reply: Option<oneshot::Sender<ReloadReport>>) {
        let askers = if self.reading.is_some() { &mut self.later } else { &mut self.askers };
        if askers.asked_by.is_none() || what > askers.what {
            (askers.what, askers.asked_by) = (what, Some(asked_by));
        }
        askers.replies.extend(reply);
        if self.reading.is_none() {
            self.begin_reading();
        }
    }

    fn begin_reading(&mut self) {
        let (reader, now) = (self.reader.clone(), (self.clock)());
        let snapshot = Arc::clone(&self.shared.serving.load().snapshot);
        let configured = Arc::clone(&self.shared.serving.published().configured);
        let previous = Previous { configured, snapshot, tried: self.trials.last() };
        let (span, what) = (self.askers.trace.span(), self.askers.what);
        self.reading = Some(Box::pin(async move { reader.read(what, previous, now).await }.instrument(span)));
    }

    /// Takes a finished reading into force or refuses it, and tells everyone who asked.
    pub async fn finish(&mut self, reading: Option<Reading>) {
        let Askers { trace, what, asked_by, replies } = std::mem::take(&mut self.askers);
        let trigger = asked_by.map_or_else(String::new, |trigger| trigger.word().to_owned());
        let mut report = ReloadReport { trace: trace.to_string(), trigger, ..ReloadReport::default() };
        match reading {
            Some(Reading { fingerprint, took, outcome }) => {
                fingerprint.into_iter().for_each(|fingerprint| _ = self.fingerprint.send_replace(fingerprint));
                report.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                match outcome {
                    Ok(compiled) => {
                        let before = Arc::clone(&self.shared.serving.published().configured);
                        let after = &compiled.configured.merged.desired;
                        report.changes = changes::counted(&before.merged.desired, after);
                        let progress = Progress::now(took, &compiled, trace);
                        self.accept(compiled.configured, compiled.snapshot, progress, &mut report).await;
                    }
                    Err(faults) => report.errors = faults.iter().map(ToString::to_string).collect(),
                }
            }
            None => report.errors = vec!["the configuration could not be read: no thread to read it on".to_owned()],
        }
        report.accepted = report.errors.is_empty();
        report.at = format!("{:.3}", (self.clock)());
        report.generation = self.shared.serving.published().generation;
        // Files that are refused keep no object from being served.
        let is_behind =
            || self.reader.declared.load().revision > self.shared.serving.published().configured.objects.revision;
        if what == What::Files && !report.accepted && self.later.asked_by.is_none() && is_behind() {
            self.later.asked_by = Some(Trigger::Api);
        }
        trace.of(|| self.tell(what, report, replies));
        if self.later.asked_by.is_some() {
            self.askers = std::mem::take(&mut self.later);
            self.begin_reading();
        }
    }

    /// Publishes what became of a reading; logs it; answers those who asked.
    fn tell(&mut self, what: What, report: ReloadReport, replies: Vec<oneshot::Sender<ReloadReport>>) {
        let counts = &self.shared.counts;
        let counter = if report.accepted { &counts.reloads_accepted } else { &counts.reloads_refused };
        counter.fetch_add(u64::from(what == What::Files), Relaxed);
        let ReloadReport { trigger, generation, duration_ms, .. } = &report;
        if report.accepted {
            let changes = report.changes.join("; ");
            tracing::info!(trigger, generation, duration_ms, changes, "configuration applied");
        } else {
            let errors = report.errors.len();
            tracing::error!(
                trigger,
                generation,
                duration_ms,
                errors,
                "configuration rejected; the previous one stays in use"
            );
        }
        report.errors.iter().take(LINES_MAX).for_each(|fault| tracing::error!(error = fault, "configuration error"));
        // Of the files nothing new is known where only objects were read.
        let doubts = report.warnings.iter().filter(|_| what == What::Files).take(LINES_MAX);
        doubts.for_each(|fault| tracing::warn!(warning = fault, "configuration warning"));
        for asker in replies {
            // Whoever has gone away reads it in the log.
            let _ = asker.send(report.clone());
        }
        if what == What::Objects {
            return;
        }
        self.publish(|published| {
            published.stale = !report.accepted;
            published.last_reload = Some(report);
        });
    }

    /// Puts a configuration into force.
    async fn accept(
        &mut self,
        configured: Configured,
        snapshot: Snapshot,
        progress: Progress,
        report: &mut ReloadReport,
    ) {
        let before = Arc::clone(&self.shared.serving.published().configured);
        report.warnings = configured.warnings.iter().map(Diagnostic::to_string).collect();
        let restart = changes::need_restart(&before.settings, &configured.settings);
        report.warnings.extend(restart.iter().map(|name| format!("{name} changed; it takes a restart")));
        if before.settings.log.filter != configured.settings.log.filter
            && let Some(Err(error)) = self.logs.as_ref().map(|logs| logs.set_filter(&configured.settings.log.filter))
        {
            report.warnings.push(error.to_string());
        }
        if let Some(logs) = &self.logs {
            logs.set_format(line_format(configured.settings.log.format));
        }
        let left_out = configured.left_out.differences(&before.left_out, |_, _| true);
        for (key, faults) in left_out.into_iter().filter_map(|(key, now, _)| Some((key, now?))) {
            let why = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::warn!(%key, why, "declared object rejected");
        }
        self.warm_up(&snapshot, &configured).await;
        self.swap(configured, snapshot, progress).await;
    }

    /// Probes new targets beside the old ones, so that a changed monitor does not make every member unjudged at once.
    async fn warm_up(&mut self, snapshot: &Snapshot, configured: &Configured) {
        let old = Arc::clone(&self.shared.serving.load().snapshot);
        let known: HashSet<&Target> = old.targets().iter().collect();
        let new: Vec<Target> = snapshot.targets().iter().filter(|t| !known.contains(t)).cloned().collect();
        if new.is_empty() {
            return;
        }
        let both = old.targets().iter().cloned().chain(new).collect();
        let (shared, limit) = (Arc::clone(&self.shared), configured.settings.health.first_round);
        self.during(async move {
            shared.checker.set_targets(both, vec![]).await;
            shared.checker.first_round(limit).await;
        })
        .await;
    }

    async fn swap(&mut self, configured: Configured, snapshot: Snapshot, progress: Progress) {
        let shared = Arc::clone(&self.shared);
        let targets = snapshot.targets().to_vec();
        let states = self.during(async move { shared.checker.states().await }).await;
        let statuses = states.into_iter().map(|state| (state.target, state.status)).collect();
        let mut book = self.shared.serving.published().book.clone();
        book.set_declared(configured.overrides.clone());
        self.forced = book.forced(&configured.uses);
        let (feeds, revision) = (ClusterLoadSettings::all(&configured.merged.desired), configured.objects.revision);
        let previous = self.shared.serving.load();
        // A part of a second at most, and flips wait for the view anyway.
        self.balance.rest().await;
        let now = (self.clock)();
        let mut view = view_of(snapshot, Some(&previous), now, &statuses, &self.forced);
        let snapshot = Arc::clone(&view.snapshot);
        let id = snapshot.id();
        self.balance.follow(&configured.merged.desired, &snapshot, Instant::now());
        if !self.balance.runs() && view.runtime.shares().is_some() {
            // What was decided for a balance that is no more holds nobody back.
            view.runtime = Arc::new(view.runtime.with_shares(&snapshot, &Arc::default()));
        }
        self.pacer.follow(&snapshot);
        let moment = (Instant::now(), (self.clock)());
        if let Some(paced) = self.pacer.pace(&snapshot, &view.runtime, &self.balance, moment) {
            view.runtime = Arc::new(paced);
        }
        // Flips that came meanwhile wait in the channel; their targets are found by what they are, not by number.
        let before = self.shared.serving.published();
        let (configured, generation) = (Arc::new(configured), before.generation + 1);
        let published = Published { configured, generation, loaded_at: now, book, ..Published::clone(&before) };
        self.retire(self.shared.serving.swap(view, Arc::new(published)));
        let served = self.shared.served.send_replace(revision);
        self.shared
            .traces
            .passed(|| progress.passage((served, revision), id, self.shared.serving.published().generation));
        let shared = Arc::clone(&self.shared);
        let both = async move {
            shared.checker.set_targets(targets, vec![]).await;
            shared.loads.set(feeds).await;
        };
        self.during(both).await;
    }
}

/// When and how an accepted reload was compiled, for traces.
struct Progress {
    begun: SystemTime,
    ended: SystemTime,
    is_incremental: bool,
    /// Pools, names and names with records in scope; 0 if that is everything.
    touched: [usize; 3],
    trace: Trace,
}

impl Progress {
    /// Of a compilation that ended just now.
    fn now(took: Duration, compiled: &Compiled, trace: Trace) -> Self {
        let ended = SystemTime::now();
        let touched = compiled.touched.as_ref();
        let touched = touched.map(|touched| [touched.pools.len(), touched.names.len(), touched.records.len()]);
        Self {
            begun: ended.checked_sub(took).unwrap_or(ended),
            ended,
            is_incremental: compiled.is_incremental,
            touched: touched.unwrap_or_default(),
            trace,
        }
    }

    fn passage(&self, revisions: (u64, u64), snapshot: u64, generation: u64) -> Passage {
        let (in_force, log) = (SystemTime::now(), self.trace.to_string());
        let Self { begun, ended: compiled, is_incremental, touched, .. } = *self;
        Passage { revisions, begun, compiled, in_force, is_incremental, touched, snapshot, generation, log }
    }
}

/// The view of a snapshot at a moment, under these verdicts and this force; what the view before it remembered goes on.
pub(crate) fn view_of(
    snapshot: Snapshot,
    previous: Option<&ServingState>,
    now: Timestamp,
    statuses: &HashMap<Target, HealthStatus>,
    forced: &[Option<OverrideAction>],
) -> ServingState {
    let health = |number: TargetIndex| {
        let at = number.0 as usize;
        let status = statuses.get(&snapshot.targets()[at]).copied().unwrap_or(HealthStatus::Pending);
        Health::new(status, forced[at])
    };
    let runtime = match previous {
        Some(previous) => RuntimeState::after(&snapshot, (&previous.snapshot, &previous.runtime), now, health),
        None => RuntimeState::new_at(&snapshot, now, health),
    };
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

/// Most faults of one kind that are logged one by one; the state shows all.
const LINES_MAX: usize = 50;
