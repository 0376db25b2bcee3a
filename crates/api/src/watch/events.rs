//! Events as they are sent to watchers.

use axum::response::sse;
use fairway_model::{HealthStatus, Timestamp};

use crate::{
    render::{cause, percent, reload_report, texts},
    state::Operates,
};
use fairway_api_types::{
    state_wire::Body,
    watch_wire::{PoolMovedState, ReloadEvent, ShareMoved, TransitionEvent},
};
use fairway_control::{AppliedTransition, PoolImpact, ShareChange, TransitionImpact, reloads::ReloadOutcome};

/// Returns a Server-Sent Event. `id` is the value of `Last-Event-ID` to continue after it.
pub(super) fn event(name: &str, id: Option<&str>, body: &impl Body) -> sse::Event {
    let event = sse::Event::default();
    let event = match id {
        Some(id) => event.id(id),
        None => event,
    };
    event.event(name).json_data(body).expect("texts and numbers have a JSON form")
}

/// Returns the event of a health transition with its impact, for callers that have the verb `operate` or not.
pub(super) fn transition_event(
    operates: Operates,
    applied: &AppliedTransition,
    impact: &TransitionImpact,
) -> TransitionEvent {
    let AppliedTransition { transition, clusters, pools, applied } = applied;
    let time = |at| format!("{:.3}", Timestamp::from(at));
    TransitionEvent {
        at: time(transition.at),
        applied: time(*applied),
        address: transition.target.address.to_string(),
        monitor: transition.target.label.to_string(),
        clusters: texts(clusters.iter().take(LISTED_MAX)),
        from: transition.from.to_string(),
        to: transition.to.to_string(),
        cause: match transition.to {
            HealthStatus::Up => transition.cause.to_string(),
            _ => cause(operates, &transition.cause),
        },
        pools_total: pools.len(),
        pools_moved: impact.pools_moved,
        names_moved: impact.names_moved,
        pools: impact.pools.iter().map(pool_moved).collect(),
    }
}

fn pool_moved(moved: &PoolImpact) -> PoolMovedState {
    let share = |share: &ShareChange| ShareMoved {
        cluster: share.cluster.to_string(),
        before: percent(share.before),
        after: percent(share.after),
    };
    PoolMovedState {
        name: moved.pool.to_string(),
        names: moved.names,
        some_names: texts(&moved.some),
        moved: percent(moved.moved),
        shares: moved.shares.iter().map(share).collect(),
    }
}

/// Returns the event of a reload, with the first entries of each list.
pub(super) fn reload_event(outcome: &ReloadOutcome) -> ReloadEvent {
    let mut report = reload_report(outcome);
    let error_count = report.errors.len();
    report.errors.truncate(LISTED_MAX);
    report.changes.truncate(LISTED_MAX);
    report.warnings.truncate(LISTED_MAX);
    ReloadEvent { report, error_count }
}

/// Maximum number of entries of a list in one event.
const LISTED_MAX: usize = 10;
