//! Applies a new configuration, or rejects it.
//!
//! ```text
//! request ── read and compile, on a separate thread ──┬── errors: the previous one stays in use, marked stale
//!                                                     └── swap ── new targets are probed, probes of unused ones end
//! ```

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use fairway_health::load::ClusterLoadSettings;
use fairway_model::{Diagnostic, Name, Rtype};
use fairway_sources::log_endpoints;
use fairway_store::SavedOverride;
use fairway_telemetry::{logs::Trace, traces::Passage};
use tokio::sync::oneshot;

use super::{
    actor::Actor,
    changes,
    configured::{Compiled, Previous},
    fence::DeniedTargets,
    line_format,
    reader::Reading,
    reload_queue::ReloadRequests,
    reloads::{ReloadOutcome, ReloadScope, Trigger},
    removals,
    runtime::Reload,
    served::Published,
    shared_overrides,
    start::{fence_rules, follow},
};

impl Actor {
    /// Begins a reload, or adds the request to the next one.
    pub(crate) fn request_reload(
        &mut self,
        scope: ReloadScope,
        trigger: Trigger,
        allow_removals: bool,
        reply: Option<oneshot::Sender<ReloadOutcome>>,
    ) {
        self.reloads.push(scope, trigger, allow_removals, reply);
        self.begin_reload();
    }

    fn begin_reload(&mut self) {
        if self.reloads.is_due() {
            let state = self.shared.serving.load();
            let configured = Arc::clone(&state.published.configured);
            let previous =
                Previous { configured, snapshot: Arc::clone(&state.snapshot), dry_run: self.dry_runs.last() };
            self.reloads.begin(previous, (self.clock)());
        }
    }

    /// Applies or rejects a configuration that was read, and replies to the callers.
    pub(crate) async fn finish_reload(&mut self, (reading, requests): (Option<Reading>, ReloadRequests)) {
        let ReloadRequests { trace, scope, trigger, allow_removals, replies } = requests;
        let mut outcome = ReloadOutcome {
            trace,
            at: (self.clock)(),
            trigger,
            configuration: 0,
            took: Duration::ZERO,
            changes: vec![],
            errors: vec![],
            removals_refused: false,
            warnings: vec![],
        };
        match reading {
            Some(Reading { fingerprint, took, outcome: compiled }) => {
                if let Some(fingerprint) = fingerprint {
                    self.reloads.fingerprint.send_replace(fingerprint);
                }
                outcome.took = took;
                match compiled {
                    Ok(compiled) if !compiled.removals.is_empty() && !allow_removals => {
                        outcome.removals_refused = true;
                        outcome.errors = compiled.removals.iter().map(ToString::to_string).collect();
                    }
                    Ok(compiled) => {
                        let before = Arc::clone(&self.shared.serving.published().configured);
                        outcome.changes = changes::counted(&before.merged.desired, &compiled.configured.merged.desired);
                        outcome.changes.extend(compiled.text_changes.iter().cloned());
                        outcome.warnings = self.accept(compiled, (SystemTime::now(), took, trace)).await;
                        let now = Arc::clone(&self.shared.serving.published().configured);
                        log_endpoints([&before, &now].map(|of| (&of.looked_up.found, &*of.merged.clusters)));
                    }
                    Err(found) => {
                        let texts = |of: Vec<&Diagnostic>| of.into_iter().map(ToString::to_string).collect();
                        let (errors, warnings) = found.iter().partition(|diagnostic| diagnostic.is_error());
                        (outcome.errors, outcome.warnings) = (texts(errors), texts(warnings));
                    }
                }
            }
            None => outcome.errors = vec!["cannot read the configuration: no thread can be started".to_owned()],
        }
        outcome.at = (self.clock)();
        let published = self.shared.serving.published();
        outcome.configuration = published.number;
        // Rejected files must not keep declared objects from being served.
        let is_behind = self.reloads.reader.declared.load().revision > published.configured.objects.revision;
        if scope == ReloadScope::Files && !outcome.is_accepted() && !self.reloads.has_next() && is_behind {
            self.reloads.push(ReloadScope::Objects, Trigger::Api, false, None);
        }
        trace.of(|| self.report(scope, outcome, replies));
        self.begin_reload();
    }

    /// Logs and publishes the outcome of a reload, and replies to the callers.
    fn report(&mut self, scope: ReloadScope, outcome: ReloadOutcome, replies: Vec<oneshot::Sender<ReloadOutcome>>) {
        log_outcome(scope, &outcome);
        // A reload of objects alone says nothing about the files.
        if scope == ReloadScope::Files {
            let counts = &self.shared.counts;
            let counter = if outcome.is_accepted() { &counts.reloads_accepted } else { &counts.reloads_rejected };
            counter.fetch_add(1, Relaxed);
            self.publish(|published| {
                published.stale = !outcome.is_accepted();
                published.last_reload = Some(outcome.clone());
            });
        }
        // Only now: a caller may look at the state next.
        for reply in replies {
            // A caller that has gone finds the outcome in the log.
            let _ = reply.send(outcome.clone());
        }
    }

    /// Applies a configuration. Returns warnings about it. `reading` has its end, its duration and the id of its log lines.
    async fn accept(&mut self, compiled: Compiled, reading: (SystemTime, Duration, Trace)) -> Vec<String> {
        let configured = &compiled.configured;
        let before = Arc::clone(&self.shared.serving.published().configured);
        let mut warnings: Vec<String> = configured.warnings.iter().map(Diagnostic::to_string).collect();
        if !Arc::ptr_eq(&before.files, &configured.files) {
            self.writer.zones = Some(removals::sizes(&configured.files.desired, &compiled.snapshot));
        }
        let restart = changes::need_restart(&self.started, &configured.settings);
        warnings.extend(restart.iter().map(|name| format!("{name} changed; restart fairway to apply it")));
        if let Some(logs) = &self.logs {
            let filter = &configured.settings.log.filter;
            if before.settings.log.filter != *filter
                && let Err(error) = logs.set_filter(filter)
            {
                warnings.push(error.to_string());
            }
            logs.set_format(line_format(configured.settings.log.format));
        }
        for (key, errors, _) in configured.not_served.differences(&before.not_served, |_, _| true) {
            let Some(errors) = errors else { continue };
            let why = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::warn!(event = "change", %key, why, "declared object rejected");
        }
        let is_new = |entry: &(&(Name, Option<Rtype>), &String)| !before.rejected.names.contains_key(entry.0);
        for ((name, rtype), why) in configured.rejected.names.iter().filter(is_new).take(LINES_MAX) {
            let rtype = rtype.map_or_else(|| "all".to_owned(), |rtype| rtype.to_string());
            tracing::warn!(event = "change", %name, rtype, why, "contributed records rejected");
        }
        self.swap(compiled, reading).await;
        warnings
    }

    /// Puts a configuration in force.
    async fn swap(&mut self, compiled: Compiled, (ended, took, trace): (SystemTime, Duration, Trace)) {
        let Compiled { configured, snapshot, touched, is_incremental, .. } = compiled;
        let targets = self.over_limit.bound(&configured, snapshot.targets());
        let (now, previous) = (self.now(), self.shared.serving.load());
        let mut overrides = previous.published.overrides.clone();
        overrides.declared.clone_from(&configured.overrides);
        // If they cannot be read, those in force stay: without them, clients would be sent to drained clusters.
        if let Some(shared) = configured.objects.shared_overrides() {
            let is_active = |shared: &&SavedOverride| shared.value.is_active(now.wall);
            let shared: Vec<_> = shared.iter().filter(is_active).cloned().collect();
            trace.of(|| shared_overrides::log_changes(&overrides.shared, &shared));
            overrides.shared = shared;
        }
        let fence = &self.shared.probes.fence;
        if !Arc::ptr_eq(&configured.files, &previous.published.configured.files) {
            fence.set_rules(fence_rules(&configured));
        }
        self.denied.retain(|target, _| configured.uses.number_of(target).is_some());
        let denied = DeniedTargets::new(&fence.rules(), &snapshot, &configured.uses, &self.denied);
        let reload = Reload {
            previous: Some(&previous),
            configured: &configured,
            statuses: self.departed.statuses_after(&previous, &snapshot, &configured.uses, now.monotonic),
            snapshot,
            overrides: denied.restrict(overrides.actions(&configured.uses)),
        };
        let serving = self.inputs.reload(reload, now);
        let (feeds, revision) = (ClusterLoadSettings::all(&configured.merged.desired), configured.objects.revision);
        let probes = &self.shared.probes;
        follow(&probes.hosts, (&probes.sources, &probes.loads), &configured);
        let (id, number) = (serving.snapshot.id(), previous.published.number + 1);
        // Health transitions during the reload wait in the channel. They name their target, so its new index is found.
        let published = Published {
            configured: Arc::new(configured),
            number,
            loaded_at: now.wall,
            overrides,
            denied: Arc::new(denied),
            ..Published::clone(&previous.published)
        };
        self.deferred.push(self.shared.serving.swap(serving, Arc::new(published)));
        let served = self.shared.declarations.served.send_replace(revision);
        self.shared.traces.passed(|| Passage {
            revisions: (served, revision),
            begun: ended.checked_sub(took).unwrap_or(ended),
            compiled: ended,
            in_force: SystemTime::now(),
            is_incremental,
            touched: touched.map_or([0; 3], |of| [of.pools.len(), of.names.len(), of.records.len()]),
            snapshot: id,
            configuration: number,
            log: trace.to_string(),
        });
        let shared = Arc::clone(&self.shared);
        self.during(async move {
            shared.probes.checker.set_targets(targets, vec![]).await;
            shared.probes.loads.set(feeds);
        })
        .await;
    }
}

fn log_outcome(scope: ReloadScope, outcome: &ReloadOutcome) {
    let (trigger, configuration) = (<&str>::from(outcome.trigger), outcome.configuration);
    let duration_ms = u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX);
    let changes = outcome.changes.join("; ");
    if outcome.is_accepted() && matches!(outcome.trigger, Trigger::Hosts | Trigger::Kubernetes) {
        // They may change every few seconds, and what matters has a line of its own.
        tracing::debug!(event = "change", trigger, configuration, duration_ms, changes, "changes applied");
    } else if outcome.is_accepted() {
        tracing::info!(event = "configuration", trigger, configuration, duration_ms, changes, "configuration applied");
    } else {
        let errors = outcome.errors.len();
        tracing::error!(
            event = "configuration",
            trigger,
            configuration,
            duration_ms,
            errors,
            "configuration rejected; the previous one stays in use"
        );
    }
    for error in outcome.errors.iter().take(LINES_MAX) {
        tracing::error!(error, "configuration error");
    }
    // A reload of objects alone repeats the warnings of the last reload of the files.
    if scope == ReloadScope::Files {
        for warning in outcome.warnings.iter().take(LINES_MAX) {
            tracing::warn!(warning, "configuration warning");
        }
    }
}

/// Maximum number of logged errors or warnings of one reload; the published outcome has all of them.
const LINES_MAX: usize = 50;
