//! Renders what the control task returns as bodies of the API.
//!
//! Nothing here decides or changes anything: each function takes values of `control` and returns a body of `api-types`.

mod contributions;
mod intents;
mod kubernetes;
mod services;
pub(crate) mod shares;
mod state;

use fairway_api_types::{
    load_wire::LoadState,
    objects_wire::{ExportedObject, ObjectsExport},
    overrides_wire::{self, OverrideState, PoolPin},
    state_wire::{ProbeState, ReloadReport},
};
use fairway_control::{
    configured::Configured,
    declared::Declared,
    overrides::{ActiveOverride, OverrideOverlap},
    reloads::ReloadOutcome,
};
use fairway_health::load::SourceLoad;
use fairway_model::{ClusterName, DesiredState, Eligibility, OverrideOrigin, PinnedPool, PoolName, Target};
use fairway_store::objects::Object;
use fairway_zones::ServingState;

use crate::state::Operates;

pub use self::state::state;
pub(crate) use self::{contributions::contributions, intents::intent_statuses};
pub(crate) use self::{kubernetes::weight_factors, state::state_for};

/// Renders the cause of a failed probe or reading. Without the verb `operate`, a tenant could read by it what a service answers that only
/// this machine reaches: a status code, a certificate, or that a text is missing.
pub(crate) fn cause(operates: Operates, cause: impl ToString) -> String {
    if operates.0 { cause.to_string() } else { HIDDEN_CAUSE.to_owned() }
}

/// Text in place of a cause.
const HIDDEN_CAUSE: &str = "failed; the cause requires the verb operate";

/// Renders the report of one source of load.
pub(crate) fn load_state(operates: Operates, report: &SourceLoad) -> LoadState {
    LoadState {
        source: report.source.clone(),
        permille: report.load.map(|(load, _)| load.0),
        signal: report.load.map(|(_, signal)| signal.to_string()),
        age_ms: report.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        status: report.status.as_str().to_owned(),
        failure: report.failure.as_ref().map(|failure| cause(operates, failure)),
        gateways_answering: report.gateways.map(|(answering, _)| answering),
        gateways: report.gateways.map(|(_, all)| all),
    }
}

/// Renders all declared objects, for the process that replaces this one.
pub(crate) fn export(declared: &Declared) -> ObjectsExport {
    let exported = |object: std::borrow::Cow<'_, Object>| ExportedObject {
        key: object.key.to_string(),
        value: serde_json::from_slice(&object.value).unwrap_or_default(),
        revision: object.revision,
        generation: object.generation,
    };
    ObjectsExport { revision: declared.revision, objects: declared.all().map(exported).collect() }
}

/// Renders an override.
pub(crate) fn override_state(active: &ActiveOverride) -> OverrideState {
    let ActiveOverride { id, spec, is_shared, addresses, pools, overlaps } = active;
    let health = spec.kind.health();
    let pattern = spec.kind.pools();
    let OverrideOrigin { by, at, from } = &spec.origin;
    let overlap = |overlap: &OverrideOverlap| overrides_wire::OverrideOverlap {
        address: overlap.address.clone(),
        other: overlap.other.clone(),
        action: overlap.action.to_string(),
        shadowed: overlap.is_shadowed,
    };
    OverrideState {
        id: id.clone(),
        source: match (id, is_shared) {
            (_, true) => "store",
            (Some(_), false) => "command",
            (None, false) => "config",
        }
        .to_owned(),
        scope: health.map(|(scope, _)| scope.to_string()).unwrap_or_default(),
        action: health.map(|(_, action)| action.to_string()).unwrap_or_default(),
        pools: pattern.map(ToString::to_string),
        load: pattern.map(|_| OFF.to_owned()),
        pinned: texts(pools),
        reason: spec.reason.clone(),
        expires: spec.expires.to_string(),
        created_by: by.clone(),
        created_at: at.map(|at| at.to_string()),
        created_from: from.clone(),
        addresses: addresses.clone(),
        overlaps: overlaps.iter().map(overlap).collect(),
        effect: None,
    }
}

/// Renders the override that pins a pool.
pub(crate) fn pool_pin(pinned: &PinnedPool<'_>) -> PoolPin {
    let PinnedPool { policy, id, spec } = pinned;
    PoolPin {
        id: id.unwrap_or(&spec.origin.from).to_owned(),
        reason: spec.reason.clone(),
        expires: spec.expires.to_string(),
        policy: policy.to_string(),
    }
}

/// Load control, as an override sets it.
pub(crate) const OFF: &str = "off";

/// Renders the outcome of a reload.
pub(crate) fn reload_report(outcome: &ReloadOutcome) -> ReloadReport {
    ReloadReport {
        trace: outcome.trace.to_string(),
        at: format!("{:.3}", outcome.at),
        trigger: word(outcome.trigger),
        accepted: outcome.is_accepted(),
        configuration: outcome.configuration,
        duration_ms: u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
        changes: outcome.changes.clone(),
        errors: outcome.errors.clone(),
        removals_refused: outcome.removals_refused,
        warnings: outcome.warnings.clone(),
    }
}

/// Returns the best eligibility of a member's addresses; none if its schedule closes it.
pub(crate) fn member_eligibility(
    view: &ServingState,
    configured: &Configured,
    pool: &PoolName,
    cluster: &ClusterName,
) -> Option<Eligibility> {
    if view.runtime.schedule(&view.snapshot, pool, cluster).is_some_and(|schedule| !schedule.state.open) {
        return None;
    }
    let addresses = configured.merged.desired.clusters.get(cluster).map(|cluster| &cluster.addresses[..]);
    let sites = addresses.unwrap_or_default().iter().map(|address| (cluster.clone(), *address));
    let health = |target| view.runtime.health(target).eligibility();
    let best = sites.filter_map(|site| configured.uses.targets(pool, &site).map(health).min()).min();
    Some(best.unwrap_or(Eligibility::Pending))
}

/// Renders the probe of a target of a member, and the declaration that it comes from; none if the configuration has no such member.
pub(crate) fn probe_state(
    desired: &DesiredState,
    pool: &PoolName,
    cluster: &ClusterName,
    target: &Target,
) -> Option<ProbeState> {
    let pool = desired.pools.get(pool)?;
    let member = pool.members.iter().find(|member| member.cluster == *cluster)?;
    let (name, source) = desired.monitor_source(member, pool, desired.clusters.get(cluster), target);
    Some(ProbeState { monitor: name.to_string(), from: source.to_string(), port: target.port(), check: target.probe() })
}

/// Returns the word for the eligibility of a member.
pub(crate) fn eligibility_word(eligibility: Option<Eligibility>) -> &'static str {
    eligibility.map_or("closed", Into::into)
}

/// Returns the word for a value of a closed set.
pub(crate) fn word(value: impl Into<&'static str>) -> String {
    value.into().to_owned()
}

/// Returns values as texts.
pub(crate) fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

/// Returns a ratio as percent, rounded to one decimal.
pub(crate) fn percent(ratio: f64) -> f64 {
    (1000.0 * ratio).round() / 10.0
}
