//! Status of a publisher and of each record set, as the API and the metrics show it.

use std::{collections::BTreeMap, time::SystemTime};

use fairway_model::RecordSetKey;

use super::plan::Obstacle;

/// Condition of a record set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The provider had it at the last sync, or it was written then.
    Published,
    /// It will be written.
    Waiting,
    /// It cannot be published.
    Hindered(Obstacle),
    /// The provider rejected it, with its reason.
    Refused(String),
    /// It is no longer wanted, and not deleted yet.
    Leaving,
}

impl Condition {
    /// Returns true if the set cannot be published.
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Hindered(_) | Self::Refused(_))
    }

    /// Returns the condition and its reason as labels of metrics.
    pub fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Published => ("published", ""),
            Self::Waiting => ("waiting", ""),
            Self::Hindered(obstacle) => ("refused", obstacle.into()),
            Self::Refused(_) => ("refused", "provider"),
            Self::Leaving => ("leaving", ""),
        }
    }
}

/// Status of a publisher.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// End of the last sync.
    pub synced_at: Option<SystemTime>,
    /// End of the last successful sync.
    pub succeeded_at: Option<SystemTime>,
    /// Time when the provider began to differ from the wanted state; `None` if it does not.
    pub behind_since: Option<SystemTime>,
    /// Time of the next sync unless the wanted state changes before; `None` before the first one.
    pub due_at: Option<SystemTime>,
    /// Server that publishes in place of this one, as a sentence; `None` if this one publishes.
    pub standby: Option<String>,
    /// Error of the last sync, or the deletions that it did not apply.
    pub error: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// Number of owned sets.
    pub owned: usize,
    /// Number of sets of other owners in its zones.
    pub foreign: usize,
    /// Counts since the start.
    pub counts: Counts,
    /// Condition of each set.
    pub conditions: BTreeMap<RecordSetKey, SetCondition>,
}

impl Status {
    /// Returns the state that follows from the last syncs.
    pub fn state(&self) -> SyncState {
        match (self.synced_at, self.failures, self.behind_since) {
            (None, ..) => SyncState::Starting,
            (_, 1.., _) => SyncState::Failing,
            _ if self.standby.is_some() => SyncState::Standby,
            (_, 0, Some(_)) => SyncState::Behind,
            (_, 0, None) => SyncState::Ok,
        }
    }
}

/// State of a publisher, as `&str` the word in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum SyncState {
    /// No sync has ended yet.
    Starting,
    /// The last sync failed.
    Failing,
    /// The provider differs from the wanted state.
    Behind,
    /// Another server publishes.
    Standby,
    /// The provider is as wanted.
    Ok,
}

/// Condition of a set, with the time when it became so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCondition {
    /// The condition.
    pub condition: Condition,
    /// Time when it became so; for a published set the time of its last change.
    pub since: SystemTime,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ended syncs.
    pub syncs: u64,
    /// Failed syncs.
    pub failed: u64,
    /// Record sets that were written or deleted, including registry records.
    pub changed: u64,
    /// Deletions that exceeded the bounds.
    pub deletions_refused: u64,
    /// Record sets that others changed.
    pub drifted: u64,
}
