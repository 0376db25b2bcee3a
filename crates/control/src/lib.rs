//! Joins sources, health and overrides into the serving state.
//!
//! ```text
//!  files, objects ── reader (a separate thread) ────────────┐
//!  health checker ── health transitions ────────────────────┼─ actor ─ ServingState ─▶ DNS listeners
//!  API, signals ──── commands (reload, overrides, stop) ────┘    └─── Published ────▶ status, metrics, explain
//! ```
//! One task, the actor, owns everything that changes. Others send it commands through [`Control`], and read what it publishes in [`Shared`].
//! A new [`ServingState`](fairway_zones::ServingState) takes effect by one pointer swap. The answer path never waits for the task, and the
//! task frees replaced states.
#![forbid(unsafe_code)]

mod actor;
mod adaptive_ttl;
mod affected;
pub mod answers;
mod balance;
mod changes;
pub mod command;
mod compile;
pub mod configured;
pub mod contributed;
pub mod declared;
pub mod drains;
pub mod dry_run;
mod error;
mod events;
mod exhausted;
pub mod fence;
pub mod file_watch;
mod first_results;
mod guarded_store;
mod handle;
mod latency;
pub mod lifecycle;
pub mod limits;
mod merge;
pub mod object_store;
pub mod objects;
mod override_commands;
mod override_effect;
pub mod overrides;
mod parallel;
mod pruned;
pub mod publishing;
pub mod reader;
mod reload;
mod reload_queue;
pub mod reloads;
mod removals;
mod runtime;
pub mod samples;
mod served;
pub mod shared;
mod shared_overrides;
pub mod start;
mod state_writer;
mod tenant_probes;
mod transition_impact;
pub mod uses;

pub use self::{
    balance::EvidenceStatus,
    configured::Configured,
    error::ControlError,
    handle::{Control, ExplainedNow},
    latency::PushedTable,
    lifecycle::{Readiness, Stopping},
    parallel::on_all_cores,
    pruned::Prune,
    runtime::serving_state,
    served::{CurrentState, Published, Served},
    shared::{AppliedTransition, Shared},
    transition_impact::{PoolImpact, ShareChange, TransitionImpact},
};
use fairway_config::LogFormat;
pub use fairway_steering::balancer::{Obstacle as LoadObstacle, Plan as LoadPlan};
pub use fairway_store::LeaderStatus;
use fairway_telemetry::logs::LineFormat;

/// Returns the format of log lines for a setting.
pub const fn line_format(format: LogFormat) -> LineFormat {
    match format {
        LogFormat::Auto => LineFormat::Auto,
        LogFormat::Text => LineFormat::Text,
        LogFormat::Json => LineFormat::Json,
    }
}

#[cfg(test)]
mod tests;
