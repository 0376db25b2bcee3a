//! The way to command the control task, from the API, signals and the demo.

use std::time::SystemTime;

use fairway_health::Flip;
use fairway_model::{ClusterName, Override, PoolName};
use tokio::sync::broadcast;

use crate::api::state_wire::{OverrideState, ReloadReport, State};

/// A handle of the control task; clones command the same one.
#[derive(Clone, Debug)]
pub struct Control {}

/// A flip that is in the answers now.
#[derive(Clone, Debug)]
pub struct FlipApplied {
    /// The change of verdict.
    pub flip: Flip,
    /// Clusters judged by the target.
    pub clusters: Vec<ClusterName>,
    /// Pools judged by it.
    pub pools: Vec<PoolName>,
    /// When the answers began to follow it.
    pub applied: SystemTime,
}

/// Why a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// SIGTERM or SIGINT.
    Signal,
    /// `POST /v1/stop`, or [`Control::stop`].
    Command,
    /// Another process has taken the sockets over.
    Replaced,
}

impl Control {
    /// Reads the configuration anew and waits for what becomes of it.
    pub async fn reload(&self) -> Result<ReloadReport, ControlError> {
        Err(ControlError::Stopped)
    }

    /// Adds an override; returns once it is in force and on disk.
    pub async fn add_override(&self, new: Override) -> Result<OverrideState, ControlError> {
        let _ = new;
        Err(ControlError::Stopped)
    }

    /// Removes an override that was added by command; returns once it is gone.
    pub async fn remove_override(&self, id: &str) -> Result<OverrideState, ControlError> {
        let _ = id;
        Err(ControlError::Stopped)
    }

    /// Everything there is to show.
    pub async fn state(&self) -> Result<State, ControlError> {
        Err(ControlError::Stopped)
    }

    /// Every flip from now on, once the answers follow it. A reader more than 1024 flips behind loses the oldest.
    pub fn flips(&self) -> broadcast::Receiver<FlipApplied> {
        broadcast::channel(1).1
    }

    /// Asks the daemon to drain and end.
    pub fn stop(&self) {}
}

/// Why a command is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The control task has ended.
    #[error("fairway is stopping; ask again when it runs")]
    Stopped,
    /// No override has this id.
    #[error("no override has the id {0}; `fairway status` lists them")]
    NoSuchOverride(String),
    /// There are [`OVERRIDES_MAX`] already.
    #[error("there are 1000 overrides already, the most; remove one first")]
    TooManyOverrides,
    /// It could not be made to last, so it is not in force.
    #[error("the override could not be written to the data folder, so it is not in force: {0}")]
    NotKept(String),
}
