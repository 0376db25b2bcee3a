//! Commands to the control task.

use std::sync::Arc;

use fairway_store::{DataFolder, Leadership};
use tokio::sync::oneshot;

use super::{
    dry_run::{DryRunRequest, DryRunResult},
    error::ControlError,
    overrides::{ActiveOverride, AddedOverride, OverrideRequest},
    reloads::{ReloadOutcome, ReloadScope, Trigger},
};

/// One command to the control task.
#[derive(Debug)]
pub enum Command {
    /// Reload the configuration.
    Reload {
        /// The extent.
        scope: ReloadScope,
        /// The cause.
        trigger: Trigger,
        /// True if the files may remove any number of names.
        allow_removals: bool,
        /// Receiver of the outcome.
        reply: Option<oneshot::Sender<ReloadOutcome>>,
    },
    /// Add an override, or return its effect.
    AddOverride(Box<OverrideRequest>, oneshot::Sender<Result<AddedOverride, ControlError>>),
    /// Remove an override that was added by a command.
    RemoveOverride(String, oneshot::Sender<Result<ActiveOverride, ControlError>>),
    /// Do a dry run of objects.
    DryRun(Box<DryRunRequest>, oneshot::Sender<DryRunResult>),
    /// Write state to this folder from now on: the previous process has released it.
    Adopt(Arc<DataFolder>),
    /// Follow the leader among the servers that share the store.
    Leadership(Leadership),
    /// Reply once all earlier health transitions are in the answers.
    Settle(oneshot::Sender<()>),
    /// Write the last state, and end.
    End,
}
