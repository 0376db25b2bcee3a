//! Counts of calls, for metrics.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::ANSWER_LARGE;

/// A call of the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Returns the label of metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Adjust => "adjust",
            Self::Apply => "apply",
            Self::Negotiate => "negotiate",
            Self::Other => "other",
            Self::Records => "records",
        }
    }

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
pub struct Calls {
    ended: Mutex<BTreeMap<(Call, u16), Totals>>,
    /// Bytes of the last response to `GET /records`.
    answered: AtomicU64,
    /// Created, changed and deleted endpoints.
    changed: AtomicU64,
}

/// Calls of one kind with one status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of calls.
    pub count: u64,
    /// Their total time.
    pub took: Duration,
}

impl Calls {
    /// Counts a call.
    pub(super) fn end(&self, call: Call, status: u16, took: Duration) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = ended.entry((call, status)).or_default();
        totals.count += 1;
        totals.took += took;
    }

    pub(super) fn answer(&self, bytes: usize) {
        self.answered.store(bytes as u64, Relaxed);
    }

    pub(super) fn change(&self, endpoints: usize) {
        self.changed.fetch_add(endpoints as u64, Relaxed);
    }

    /// Returns the counts by kind and status.
    pub fn ended(&self) -> BTreeMap<(Call, u16), Totals> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the bytes of the last response to `GET /records`.
    pub fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Returns true if the last response was near the limit of the client.
    pub fn is_large(&self) -> bool {
        self.answered() > ANSWER_LARGE as u64
    }

    /// Returns the number of endpoints that clients created, changed or deleted.
    pub fn changed(&self) -> u64 {
        self.changed.load(Relaxed)
    }
}
