//! All metrics: names, units, labels, and which counters add up to which. They are gathered on each scrape.
//!
//! - `fairway_queries_total` = the sums of `fairway_responses_total` + `fairway_queries_dropped_total`.
//! - `fairway_responses_total{rcode=…}` adds up to all responses; truncated, EDNS and ECS ones are among them.
//! - `fairway_answers_total{pool,cluster}`: an answer that names several clusters counts once for each; answers of pools past
//!   the bound of counters count under `pool="",cluster=""`.
//! - `fairway_tcp_accepted_total` = `fairway_tcp_connections` + the sum of `fairway_tcp_closed_total`.
//! - `fairway_udp_received_total` = answered + dropped + send errors of UDP.
//! - `fairway_targets{status=…}` adds up to all targets.
//! - `fairway_probes_total{outcome=…}` adds up to all completed probes.
//! - `fairway_member_share_ratio{kind=…}` of a pool adds up to 1 for each kind that is known.
//! - `fairway_webhook_calls_total{call=…,code=…}` adds up to all completed calls.
//! - `fairway_trace_spans_total{outcome=…}` adds up to the spans that have ended and no longer wait for their export.
//! - `fairway_load_reads_total{outcome=…}` of a source adds up to all requests to its gateways.
//!
//! Names end with the unit; counters end with `_total`. docs/operations/metrics.md describes the metrics for operators.

mod balance;
mod health;
mod load;
mod publishing;
mod traces;
mod webhook;
mod wire;

use std::sync::{Arc, OnceLock, atomic::Ordering::Relaxed};

use fairway_model::{HealthStatus, OverrideAction};
use fairway_telemetry::Sheet;
use fairway_transport::Counters;
use fairway_zones::ServingState;
use tokio::sync::Mutex;

use fairway_control::{Control, Published, Readiness, Shared};

/// Gathers metrics, one scrape at a time.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Held during a scrape, so that one runs at a time: the text of 10,000 targets has some megabytes.
    scraping: Mutex<()>,
    /// Counters of the DNS listeners, once they run.
    transports: OnceLock<Counters>,
}

/// The thread that writes the metrics panicked, which is a bug.
#[derive(Clone, Debug, thiserror::Error)]
#[error("metrics cannot be written: {0}")]
pub struct MetricsError(String);

impl Metrics {
    /// Sets the counters of the DNS listeners.
    pub fn set_transports(&self, counters: Counters) {
        // The listeners start once.
        let _ = self.transports.set(counters);
    }

    /// Returns all metrics in the exposition format.
    pub async fn gather(&self, control: &Control) -> Result<String, MetricsError> {
        let _guard = self.scraping.lock().await;
        let shared = control.shared();
        let serving = shared.serving.load();
        let states = shared.probes.checker.states().await;
        let observer = shared.probes.checker.observer().await;
        let (loads, load_totals) = shared.probes.loads.states();
        let shared = Arc::clone(shared);
        let stats = self.transports.get().map(Counters::stats).unwrap_or_default();
        let write = move || {
            let (view, published) = (&serving.serving, &*serving.published);
            let mut sheet = Sheet::default();
            wire::write(&mut sheet, &shared.queries.sums(), &stats, view);
            health::write(&mut sheet, view, published, &states, &observer);
            load::write(&mut sheet, &loads, &load_totals);
            balance::write(&mut sheet, &shared, view, published, &loads);
            publishing::write(&mut sheet, &shared);
            webhook::write(&mut sheet, &shared, published);
            traces::write(&mut sheet, &shared);
            write_control(&mut sheet, &shared, view, published);
            sheet.process();
            sheet.into_text()
        };
        tokio::task::spawn_blocking(write).await.map_err(|error| MetricsError(error.to_string()))
    }
}

/// Writes the metrics of configuration, overrides, runtime state and state files.
fn write_control(sheet: &mut Sheet, shared: &Shared, view: &ServingState, published: &Published) {
    let counts = &shared.counts;
    let version = [env!("CARGO_PKG_VERSION")];
    sheet.gauges("fairway_build_info", "Always 1; the version is a label.", &["version"], [(version, 1.0)]);
    let ready = f64::from(*shared.lifecycle.readiness.borrow() == Readiness::Ready);
    sheet.gauge("fairway_ready", "1 if the server is ready, like /readyz.", ready);
    let callbacks = [(["delivered"], &counts.callbacks_delivered), (["failed"], &counts.callbacks_failed)];
    let callbacks = callbacks.map(|(outcome, counter)| (outcome, counter.load(Relaxed)));
    sheet.counters("fairway_ready_callbacks_total", "Requests to ready.callback, by outcome.", &["outcome"], callbacks);
    let snapshot = [format!("{:016x}", view.snapshot.id())];
    sheet.gauges(
        "fairway_config_info",
        "Always 1; the id of the configured snapshot is a label.",
        &["snapshot"],
        [(snapshot, 1.0)],
    );
    let generation = published.generation as f64;
    sheet.gauge("fairway_config_generation", "Configurations accepted since the start.", generation);
    let loaded = published.loaded_at.secs() as f64;
    sheet.gauge("fairway_config_loaded_timestamp_seconds", "Time when the configuration in use was accepted.", loaded);
    let stale = f64::from(published.stale);
    sheet.gauge("fairway_config_stale", "1 if a newer configuration was rejected and an older one is in use.", stale);
    let warnings = published.configured.warnings.len() as f64;
    sheet.gauge("fairway_config_warnings", "Warnings about the configuration in use.", warnings);
    let reloads = [(["accepted"], &counts.reloads_accepted), (["refused"], &counts.reloads_rejected)];
    let reloads = reloads.map(|(result, counter)| (result, counter.load(Relaxed)));
    sheet.counters("fairway_reloads_total", "Reloads by result.", &["result"], reloads);
    let actions = [OverrideAction::Up, OverrideAction::Down, OverrideAction::Drain];
    let overrides = actions.map(|action| {
        ([action.to_string()], published.overrides.all().filter(|(_, spec)| spec.action == action).count() as f64)
    });
    sheet.gauges("fairway_overrides", "Active overrides by the status that they set.", &["action"], overrides);
    let transitions = [HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown];
    let transitions =
        transitions.map(|to| ([to.to_string()], counts.transitions(to).map_or(0, |counter| counter.load(Relaxed))));
    sheet.counters("fairway_health_transitions_total", "Health transitions by the new status.", &["to"], transitions);
    let turns = [(["closed"], &counts.schedules_closed), (["open"], &counts.schedules_opened)];
    let turns = turns.map(|(to, counter)| (to, counter.load(Relaxed)));
    sheet.counters("fairway_schedule_transitions_total", "Members opened or closed by their schedule.", &["to"], turns);
    write_store(sheet, shared);
    let changes = counts.runtime_states.load(Relaxed);
    sheet.counter(
        "fairway_runtime_state_changes_total",
        "Changes of the runtime state that took effect in answers.",
        changes,
    );
    let failures = counts.write_failures.load(Relaxed);
    sheet.counter("fairway_state_write_failures_total", "Failed writes of state files.", failures);
}

/// Writes the metrics of the store of declared objects.
fn write_store(sheet: &mut Sheet, shared: &Shared) {
    let Some(Ok(objects)) = shared.declarations.objects.get() else { return };
    let status = objects.store().status();
    sheet.gauges(
        "fairway_store_info",
        "Always 1; the kind of the store is a label.",
        &["kind"],
        [([status.kind.to_string()], 1.0)],
    );
    sheet.gauge(
        "fairway_store_up",
        "1 if the store of declared objects is available.",
        f64::from(status.outage.is_none()),
    );
    let revision = status.revision as f64;
    sheet.gauge("fairway_store_revision", "Last revision of declared objects that this server has.", revision);
    let behind = status.latest.saturating_sub(status.revision) as f64;
    sheet.gauge("fairway_store_behind_revisions", "Revisions in the store that this server does not have yet.", behind);
    if let Some(outage) = status.outage {
        let since = outage.since.secs() as f64;
        sheet.gauge(
            "fairway_store_unavailable_since_timestamp_seconds",
            "Time since when the store is unavailable; absent while it is available.",
            since,
        );
    }
}
