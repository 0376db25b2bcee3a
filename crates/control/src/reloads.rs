//! Requests for reloads, and their outcomes.

use std::time::Duration;

use fairway_model::Timestamp;
use fairway_telemetry::logs::Trace;
use strum::IntoStaticStr;

/// The extent of a reload. The larger one includes the smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReloadScope {
    /// Declared objects. The files stay as they were last read.
    #[default]
    Objects,
    /// Files and declared objects.
    Files,
}

/// The cause of a reload, with the word for logs and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Trigger {
    /// SIGHUP.
    Signal,
    /// Files that changed.
    Files,
    /// `fairway reload`, or a call of [`Control::reload`](crate::Control::reload).
    Command,
    /// Declared objects that changed.
    Api,
    /// An override that pins pools, or the end of one.
    Override,
    /// Host names of clusters with other addresses.
    Hosts,
    /// Kubernetes clusters with other names, addresses or endpoints.
    Kubernetes,
    /// Leases of the webhook that expired or were renewed.
    Webhook,
}

/// The outcome of one reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadOutcome {
    /// Id of its log lines.
    pub trace: Trace,
    /// Its end.
    pub at: Timestamp,
    /// Its cause.
    pub trigger: Trigger,
    /// Number of the configuration in force after it.
    pub configuration: u64,
    /// Time that reading and compiling took.
    pub took: Duration,
    /// Counts of changes by kind: `pools: 1 added, 2 changed, 0 removed`.
    pub changes: Vec<String>,
    /// Reasons of the rejection; empty if the configuration was accepted.
    pub errors: Vec<String>,
    /// True if it was rejected only because the files no longer declare many names.
    pub removals_refused: bool,
    /// Warnings about the configuration.
    pub warnings: Vec<String>,
}

impl ReloadOutcome {
    /// Returns true if the configuration was accepted.
    pub fn is_accepted(&self) -> bool {
        self.errors.is_empty()
    }
}
