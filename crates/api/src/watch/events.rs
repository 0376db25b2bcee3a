//! Events as they are sent to watchers.

use std::sync::Arc;

use axum::response::sse;
use fairway_model::Timestamp;

use crate::render::percent;
use fairway_api_types::{
    state_wire::Body,
    watch_wire::{PoolMovedState, ReloadEvent, ShareMoved, TransitionEvent},
};
use fairway_control::{AppliedTransition, PoolImpact, ShareChange, TransitionImpact, reloads::ReloadOutcome};

use crate::render::reload_report;

/// One Server-Sent Event. The hub keeps these, so that each is serialised once for all watchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The value of `Last-Event-ID` to continue after it.
    pub(super) id: Option<String>,
    pub(super) event: &'static str,
    /// JSON.
    data: Arc<str>,
}

impl Message {
    pub(super) fn new(event: &'static str, id: Option<&str>, body: &impl Body) -> Self {
        let data = serde_json::to_string(body).expect("texts and numbers have a JSON form");
        Self { id: id.map(str::to_owned), event, data: data.into() }
    }
}

impl From<Message> for sse::Event {
    fn from(Message { id, event, data }: Message) -> Self {
        let made = match id {
            Some(id) => Self::default().id(id),
            None => Self::default(),
        };
        made.event(event).data(data)
    }
}

/// Returns the event of a health transition with its impact.
pub(super) fn transition_event(applied: &AppliedTransition, impact: &TransitionImpact) -> TransitionEvent {
    let AppliedTransition { transition, clusters, pools, applied } = applied;
    let time = |at| format!("{:.3}", Timestamp::from(at));
    TransitionEvent {
        at: time(transition.at),
        applied: time(*applied),
        address: transition.target.address.to_string(),
        monitor: transition.target.label.to_string(),
        clusters: clusters.iter().take(LISTED_MAX).map(ToString::to_string).collect(),
        from: transition.from.to_string(),
        to: transition.to.to_string(),
        cause: transition.cause.to_string(),
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
        some_names: moved.some.iter().map(ToString::to_string).collect(),
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

/// Entries of a list in one event.
const LISTED_MAX: usize = 10;
