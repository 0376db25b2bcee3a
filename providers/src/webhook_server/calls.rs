//! What was called, counted; whoever shows metrics reads it.

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
    /// None that there is.
    Other,
    /// `GET /records`.
    Records,
}

impl Call {
    /// One word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Adjust => "adjust",
            Self::Apply => "apply",
            Self::Negotiate => "negotiate",
            Self::Other => "other",
            Self::Records => "records",
        }
    }

    /// Its path below that of a client; none for what is no call.
    pub const fn route(self) -> Option<&'static str> {
        match self {
            Self::Adjust => Some("/adjustendpoints"),
            Self::Apply | Self::Records => Some("/records"),
            Self::Negotiate => Some("/"),
            Self::Other => None,
        }
    }
}

/// Calls since the start.
#[derive(Debug, Default)]
pub struct Calls {
    ended: Mutex<BTreeMap<(Call, u16), Totals>>,
    /// Octets of the last answer to `GET /records`.
    answered: AtomicU64,
    /// Endpoints that were created, changed or deleted.
    changed: AtomicU64,
}

/// How many calls of one kind ended with one status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub count: u64,
    /// How long they took together.
    pub took: Duration,
}

impl Calls {
    /// Counts a call that ended with a status.
    pub(super) fn end(&self, call: Call, status: u16, took: Duration) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = ended.entry((call, status)).or_default();
        totals.count += 1;
        totals.took += took;
    }

    pub(super) fn answer(&self, octets: usize) {
        self.answered.store(octets as u64, Relaxed);
    }

    pub(super) fn change(&self, endpoints: usize) {
        self.changed.fetch_add(endpoints as u64, Relaxed);
    }

    /// Calls by kind and status.
    pub fn ended(&self) -> BTreeMap<(Call, u16), Totals> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Octets of the last answer to `GET /records`.
    pub fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Whether that comes near to what the client reads.
    pub fn is_large(&self) -> bool {
        self.answered() > ANSWER_LARGE as u64
    }

    /// Endpoints that clients wanted to be created, changed or deleted, in calls that were taken.
    pub fn changed(&self) -> u64 {
        self.changed.load(Relaxed)
    }
}
