//! All metrics: names, units, labels, and which counters add up to which. They are gathered on each scrape.
//!
//! - `fairway_queries_total` = the sums of `fairway_responses_total` + `fairway_queries_dropped_total`.
//! - `fairway_responses_total{rcode=…}` adds up to all responses; truncated, EDNS and ECS ones are among them.
//! - `fairway_answers_total{pool,cluster}`: an answer that names several clusters counts once for each; answers of pools past
//!   the bound of counters count in `fairway_answers_other_total`.
//! - `fairway_tcp_accepted_total` = `fairway_tcp_connections` + the sum of `fairway_tcp_closed_total`.
//! - `fairway_udp_received_total` = answered + dropped + send errors of UDP.
//! - `fairway_targets{status=…}` adds up to all targets.
//! - `fairway_zone_queries_total{zone=…,type=…}` adds up to the queries that were looked up: no malformed or dropped ones.
//! - `fairway_probes_total{outcome=…}` adds up to all completed probes.
//! - `fairway_member_share_ratio{kind=…}` of a pool adds up to 1 for each kind that is known.
//! - `fairway_webhook_calls_total{call=…,code=…}` adds up to all completed calls, as the counts of its histogram do.
//! - `fairway_trace_spans_total{outcome=…}` adds up to the spans that have ended and no longer wait for their export.
//! - `fairway_load_reads_total{outcome=…}` of a source adds up to all requests to its gateways.
//!
//! Names end with the unit; counters end with `_total`. docs/operations/metrics.md describes the metrics for operators.

mod balance;
mod health;
mod hosts;
mod kubernetes;
mod load;
mod publishing;
mod requests;
mod traces;
mod webhook;
mod wire;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use fairway_model::{HealthStatus, OverrideKind};
use fairway_telemetry::Sheet;
use fairway_transport::Counters;
use tokio::sync::Mutex;

pub(crate) use self::requests::{RequestTimes, timed};
use fairway_config::Settings;
use fairway_control::{Control, Published, Readiness, Shared};

/// Help text of each family. `docs/operations/metrics.md` says more.
const HELP: &str = include_str!("help.tsv");

/// Gathers metrics, one scrape at a time.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Held during a scrape, so that one runs at a time: the text of 10,000 targets has some megabytes.
    scraping: Mutex<()>,
    /// Counters of the DNS listeners, once they run.
    transports: OnceLock<Counters>,
    /// Times of HTTP requests.
    requests: RequestTimes,
}

/// The thread that writes the metrics panicked, which is a bug.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot encode the metrics: {0}")]
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
        let requests = self.requests.all();
        let stats = self.transports.get().map(Counters::stats).unwrap_or_default();
        let write = move || {
            let (view, published) = (&serving.serving, &*serving.published);
            let mut sheet = Sheet::new(HELP);
            wire::write(&mut sheet, &shared.queries.sums(), &stats, view);
            health::write(&mut sheet, view, published, &states, &observer);
            load::write(&mut sheet, &loads, &load_totals);
            hosts::write(&mut sheet, &shared.probes.hosts.known(), SystemTime::now().into());
            kubernetes::write(&mut sheet, &shared.probes.sources.statuses(), SystemTime::now().into());
            balance::write(&mut sheet, &shared, view, published, &loads);
            publishing::write(&mut sheet, &shared);
            webhook::write(&mut sheet, &shared, published);
            traces::write(&mut sheet, &shared);
            requests::write(&mut sheet, requests);
            write_control(&mut sheet, &shared, published);
            sheet.process();
            sheet.into_text()
        };
        tokio::task::spawn_blocking(write).await.map_err(|error| MetricsError(error.to_string()))
    }
}

/// Writes the metrics of configuration, overrides, runtime state and state files.
fn write_control(sheet: &mut Sheet, shared: &Shared, published: &Published) {
    let counts = &shared.counts;
    let build = [env!("CARGO_PKG_VERSION"), option_env!("FAIRWAY_REVISION").unwrap_or("unknown")];
    sheet.gauges("fairway_build_info", &["version", "revision"], [(build, 1.0)]);
    for (name, value) in [
        ("fairway_ready", f64::from(*shared.lifecycle.readiness.borrow() == Readiness::Ready)),
        ("fairway_config_loaded_timestamp_seconds", published.loaded_at.secs() as f64),
        ("fairway_config_stale", f64::from(published.stale)),
        ("fairway_config_warnings", published.configured.warnings.len() as f64),
    ] {
        sheet.gauge(name, value);
    }
    sheet.counter("fairway_configurations_total", published.number);
    let protections = shared.lifecycle.protections.get().into_iter().flatten();
    let protections = protections.map(|one| ([one.name], f64::from(one.missing.is_none())));
    sheet.gauges("fairway_protection_active", &["protection"], protections);
    let callbacks = [("delivered", &counts.callbacks_delivered), ("failed", &counts.callbacks_failed)];
    sheet.counters("fairway_ready_callbacks_total", &["outcome"], callbacks.map(loaded));
    let reloads = [("accepted", &counts.reloads_accepted), ("refused", &counts.reloads_rejected)];
    sheet.counters("fairway_reloads_total", &["result"], reloads.map(loaded));
    let turns = [("closed", &counts.schedules_closed), ("open", &counts.schedules_opened)];
    sheet.counters("fairway_schedule_transitions_total", &["to"], turns.map(loaded));
    let actions = ["up", "down", "drain", OverrideKind::LOAD_OFF];
    let active = |action| published.overrides.all().filter(|(_, spec)| spec.kind.action() == action).count();
    let overrides = actions.map(|action| ([action], active(action) as f64));
    sheet.gauges("fairway_overrides", &["action"], overrides);
    let ends = published.overrides.all().map(|(id, spec)| {
        let labels = [id.unwrap_or_default().to_owned(), spec.kind.scope(), spec.kind.action().to_owned()];
        (labels, spec.expires.secs() as f64)
    });
    // Those of the configuration have no id; of equal ones the last end counts.
    let ends = ends.fold(BTreeMap::new(), |mut ends, (labels, end)| {
        let last: &mut f64 = ends.entry(labels).or_default();
        *last = last.max(end);
        ends
    });
    sheet.gauges("fairway_override_end_timestamp_seconds", &["id", "scope", "action"], ends);
    write_certificates(sheet, &published.configured.settings);
    let transitions = [HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown];
    let transitions =
        transitions.map(|to| ([to.to_string()], counts.transitions(to).map_or(0, |counter| counter.load(Relaxed))));
    sheet.counters("fairway_health_transitions_total", &["to"], transitions);
    write_store(sheet, shared);
    sheet.counter("fairway_runtime_state_changes_total", counts.runtime_states.load(Relaxed));
    sheet.counter("fairway_history_lost_total", shared.serving.history().lost());
    sheet.counter("fairway_state_write_failures_total", counts.write_failures.load(Relaxed));
}

/// Writes when the certificates of the listeners expire.
fn write_certificates(sheet: &mut Sheet, settings: &Settings) {
    let webhook = settings.webhook.as_ref().and_then(|webhook| webhook.tls.as_ref());
    let listeners = [("http", settings.access.tls.as_ref()), ("webhook", webhook)];
    let rows =
        listeners.into_iter().filter_map(|(listener, tls)| Some((listener, tls?))).flat_map(|(listener, tls)| {
            let [server, client_ca] = tls.not_after();
            let ends = [("server", server), ("clientCa", client_ca)];
            ends.into_iter().filter_map(move |(part, end)| Some(([listener, part], end? as f64)))
        });
    sheet.gauges("fairway_tls_certificate_not_after_timestamp_seconds", &["listener", "certificate"], rows);
}

/// Returns the row of a counter with one label.
fn loaded((label, counter): (&'static str, &AtomicU64)) -> ([&'static str; 1], u64) {
    ([label], counter.load(Relaxed))
}

/// Writes the metrics of the store of declared objects.
fn write_store(sheet: &mut Sheet, shared: &Shared) {
    let Some(Ok(objects)) = shared.declarations.objects.get() else { return };
    let uses = objects.limiter().uses();
    sheet.gauges("fairway_declared_usage", &["limit"], uses.map(|of| ([of.name], of.used as f64)));
    sheet.gauges("fairway_declared_limit", &["limit"], uses.map(|of| ([of.name], of.limit as f64)));
    sheet.counters("fairway_declared_refused_total", &["limit"], uses.map(|of| ([of.name], of.refused)));
    let status = objects.store().status();
    sheet.gauges("fairway_store_info", &["kind"], [([status.kind.to_string()], 1.0)]);
    sheet.gauge("fairway_store_up", f64::from(status.outage.is_none()));
    sheet.gauge("fairway_store_revision", status.revision as f64);
    sheet.gauge("fairway_store_behind_revisions", status.latest.saturating_sub(status.revision) as f64);
    if let Some(outage) = status.outage {
        sheet.gauge("fairway_store_unavailable_since_timestamp_seconds", outage.since.secs() as f64);
    }
}
