//! How a server stands to the etcd that it shares with others.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use super::super::{StoreError, local::upstream::Tip};

/// What is known of it, told by whoever asked it last.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Known>);

/// What is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// What the copy holds; none until it is whole.
    pub(super) holds: Option<Tip>,
    /// What was seen last in etcd.
    pub(super) latest: u64,
    /// Since when it is away, and why.
    pub(super) away: Option<(SystemTime, String)>,
}

impl Shared {
    pub(super) fn known(&self) -> Known {
        self.lock().clone()
    }

    pub(super) fn holds(&self, tip: Tip) {
        let mut known = self.lock();
        known.holds = Some(tip);
        known.latest = known.latest.max(tip.revision);
    }

    /// It answered, and this is its last revision.
    pub(super) fn saw(&self, latest: u64) {
        let mut known = self.lock();
        known.latest = latest;
        if let Some((since, _)) = known.away.take() {
            drop(known);
            let seconds = since.elapsed().unwrap_or_default().as_secs();
            tracing::info!(seconds, revision = latest, "etcd store recovered");
        }
    }

    /// It did not answer, or not as it should.
    pub(super) fn missed(&self, why: &StoreError) {
        let mut known = self.lock();
        let why = match why {
            StoreError::Unavailable(why) => why.clone(),
            other => other.to_string(),
        };
        match &mut known.away {
            Some((_, before)) => *before = why,
            None => {
                tracing::warn!(error = why, "etcd store unavailable: writes fail, serving continues");
                known.away = Some((SystemTime::now(), why));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
