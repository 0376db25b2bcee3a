//! Metrics of targets, probes and members.

use std::{
    collections::{BTreeMap, HashMap},
    time::UNIX_EPOCH,
};

use fairway_health::{Observer, TargetState};
use fairway_model::{Check, Eligibility, HealthStatus, OverrideAction, PoolName, Target};
use fairway_zones::{
    Draw, RuntimeState, ServingState, TargetIndex,
    steer::{Basis, Kind, SteerPool},
};

use strum::VariantArray;

use super::Sheet;
use crate::render::{eligibility_word, member_eligibility};
use fairway_control::Published;

/// Writes the metrics of health.
pub(super) fn write(
    sheet: &mut Sheet,
    view: &ServingState,
    published: &Published,
    states: &[TargetState],
    observer: &Observer,
) {
    write_probes(sheet, states, observer);
    write_targets(sheet, view, published, states);
    write_members(sheet, view, published);
    write_panics(sheet, view);
}

fn write_probes(sheet: &mut Sheet, states: &[TargetState], observer: &Observer) {
    let counts = STATUSES.map(|v| ([v.to_string()], states.iter().filter(|s| s.status == v).count() as f64));
    sheet.gauges("fairway_targets", &["status"], counts);
    sheet.gauge("fairway_probes_running", observer.probes_running as f64);
    sheet.gauge("fairway_probes_waiting", observer.probes_waiting as f64);
    sheet.counter("fairway_observer_stalls_total", observer.stalls);
    sheet.seconds("fairway_observer_stalled_seconds_total", observer.stalled_for.as_secs_f64());
    let totals = &observer.totals;
    let outcomes = [("pass", totals.passes), ("fail", totals.failures), ("inconclusive", totals.inconclusive)];
    sheet.counters("fairway_probes_total", &["outcome"], outcomes.map(|(outcome, count)| ([outcome], count)));
    sheet.durations("fairway_probe_duration_seconds", &[], [([""; 0], totals.took)]);
}

/// Writes one row for each target and cluster with this target.
fn write_targets(sheet: &mut Sheet, view: &ServingState, published: &Published, states: &[TargetState]) {
    let uses = &published.configured.uses;
    let numbered = || (0..).map(TargetIndex).zip(view.snapshot.targets());
    let rows = || {
        numbered().flat_map(|(number, target)| {
            let labels = |cluster: String| [cluster, target.address.to_string(), target.label.to_string()];
            uses.clusters(number).into_iter().map(move |cluster| (labels(cluster.to_string()), number, target))
        })
    };
    let labels = ["cluster", "address", "monitor"];
    let health = |number| view.runtime.health(number);
    let statuses = rows().map(|(labels, number, _)| (labels, health(number).status().into()));
    sheet.state_sets("fairway_target_status", labels, &STATUSES.map(<&str>::from), statuses);
    sheet.gauge("fairway_targets_not_allowed", published.denied.len() as f64);
    let overrides = rows()
        .filter(|(_, number, _)| published.denied.reason(*number).is_none())
        .filter_map(|(labels, number, _)| Some((labels, health(number).override_action()?.into())));
    sheet.state_sets("fairway_target_override", labels, &ACTIONS.map(<&str>::from), overrides);
    let known: HashMap<&Target, &TargetState> = states.iter().map(|state| (&state.target, state)).collect();
    let probed = rows().filter_map(|(labels, _, target)| {
        let at = known.get(target)?.last_probe?.duration_since(UNIX_EPOCH).ok()?;
        Some((labels, at.as_secs_f64()))
    });
    sheet.gauges("fairway_target_last_probe_timestamp_seconds", &labels, probed);
    let took = rows().filter_map(|(labels, _, target)| Some((labels, known.get(target)?.last_duration?.as_secs_f64())));
    sheet.gauges("fairway_target_last_probe_seconds", &labels, took);
    let probes = rows().filter(|(_, _, target)| target.monitor.check != Check::Always);
    let probes = probes.filter_map(|(labels, _, target)| {
        let TargetState { passes, failures, inconclusive, .. } = known.get(target)?;
        let outcomes = [("pass", *passes), ("fail", *failures), ("inconclusive", *inconclusive)];
        Some(outcomes.map(|(outcome, count)| {
            let [cluster, address, monitor] = labels.clone();
            ([cluster, address, monitor, outcome.to_owned()], count)
        }))
    });
    let labels = ["cluster", "address", "monitor", "outcome"];
    sheet.counters("fairway_target_probes_total", &labels, probes.flatten());
}

/// Writes the number of members of each pool by the best eligibility of their addresses; members that their schedule closes count as
/// closed. Writes, too, of which pools operators have removed every member that is not closed.
fn write_members(sheet: &mut Sheet, view: &ServingState, published: &Published) {
    let configured = &published.configured;
    let eligibilities = || Eligibility::VARIANTS.iter().copied().map(Some).chain([None]);
    let mut out = Vec::new();
    let rows = configured.merged.desired.pools.values().flat_map(|pool| {
        let mut counts: BTreeMap<_, f64> = eligibilities().map(|eligibility| (eligibility, 0.0)).collect();
        for member in &pool.members {
            *counts.entry(member_eligibility(view, configured, &pool.name, &member.cluster)).or_default() += 1.0;
        }
        let others = counts.iter().filter(|(eligibility, _)| !matches!(eligibility, None | Some(Eligibility::Out)));
        let is_out = counts[&Some(Eligibility::Out)] > 0.0 && others.map(|(_, count)| count).sum::<f64>() == 0.0;
        out.push(([pool.name.as_str()], f64::from(is_out)));
        counts.into_iter().map(|(eligibility, count)| ([pool.name.as_str(), eligibility_word(eligibility)], count))
    });
    sheet.gauges("fairway_pool_members", &["pool", "eligibility"], rows);
    sheet.gauges("fairway_pool_all_out", &["pool"], out);
}

/// Writes which pools ignore health (panic), as the answering code decides it. A pool of several zones counts if it does so in one of them.
fn write_panics(sheet: &mut Sheet, view: &ServingState) {
    let mut pools: BTreeMap<&PoolName, bool> = BTreeMap::new();
    for pool in view.snapshot.steer_pools().iter() {
        *pools.entry(pool.name()).or_default() |= panics(pool, &view.runtime);
    }
    let rows = pools.into_iter().map(|(name, panics)| ([name.to_string()], f64::from(panics)));
    sheet.gauges("fairway_pool_panic", &["pool"], rows);
}

/// True if the pool ignores health for some client. Only the client's view matters. A family without members never panics, so both
/// families are asked.
fn panics(pool: &SteerPool, runtime: &RuntimeState) -> bool {
    let basis = |kind: &Kind, client| pool.choose(*kind, runtime, client, Draw(0), &mut ()).basis;
    pool.sample_clients().any(|client| pool.kinds().iter().any(|kind| basis(kind, client) == Basis::Panic))
}

/// States of `fairway_target_status`.
const STATUSES: [HealthStatus; 4] =
    [HealthStatus::Pending, HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown];
/// States of `fairway_target_override`.
const ACTIONS: [OverrideAction; 3] = [OverrideAction::Up, OverrideAction::Down, OverrideAction::Drain];
