//! Counts of calls, for metrics.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fairway_model::Durations;

/// A call of the webhook, as `&str` a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Call {
    /// `POST /adjustendpoints`.
    Adjust,
    /// `POST /records`.
    Apply,
    /// `GET /`.
    Negotiate,
    /// An unknown path or method.
    Other,
    /// `GET /records`.
    Records,
}

impl Call {
    /// Returns the path below that of a client; `None` for unknown calls.
    pub const fn route(self) -> Option<&'static str> {
        match self {
            Self::Adjust => Some("/adjustendpoints"),
            Self::Apply | Self::Records => Some("/records"),
            Self::Negotiate => Some("/"),
            Self::Other => None,
        }
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// Times of calls by kind and status.
    pub ended: BTreeMap<(Call, u16), Durations>,
    /// Bytes of the last response to `GET /records`.
    pub answered: usize,
    /// Number of endpoints that clients created, changed or deleted.
    pub changed: usize,
}

/// The counts that calls and metrics share.
#[derive(Debug, Default)]
pub struct Calls(Mutex<CallCounts>);

impl Calls {
    /// Returns the counts; calls that end wait meanwhile.
    pub fn counts(&self) -> MutexGuard<'_, CallCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
