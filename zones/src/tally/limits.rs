//! Counters of the limit on responses, and the network that exceeded it last.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fairway_model::Network;

use super::{Counter, Tally};
use crate::{
    rate_limit::{OverLimit, ResponseKind},
    snapshot::Snapshot,
};

/// Treatment of a response over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum LimitAction {
    /// It is not sent.
    Drop,
    /// It is truncated; an error is sent as it is.
    Truncate,
}

impl LimitAction {
    /// All actions, in declared order.
    pub const ALL: [Self; 2] = [Self::Drop, Self::Truncate];
}

/// Reason why a query over UDP has no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Exempt {
    /// Its client is in a network of the allowlist.
    Allowlist,
    /// It has a valid cookie.
    Cookie,
}

impl Exempt {
    /// All reasons, in declared order.
    pub const ALL: [Self; 2] = [Self::Allowlist, Self::Cookie];
}

/// Counters of one worker thread.
#[derive(Debug, Default)]
pub(super) struct LimitTally {
    limited: [[Counter; LimitAction::ALL.len()]; ResponseKind::ALL.len()],
    exempt: [Counter; Exempt::ALL.len()],
    /// Number of the network that exceeded a limit last.
    network: AtomicU64,
}

impl LimitTally {
    pub(super) fn add_to(&self, sum: &mut LimitCounts) {
        for (sums, counters) in sum.limited.iter_mut().zip(&self.limited) {
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.0.load(Relaxed));
        }
        sum.exempt.iter_mut().zip(&self.exempt).for_each(|(sum, counter)| *sum += counter.0.load(Relaxed));
    }
}

/// Sum over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounts {
    /// Responses over a limit, in the order of [`ResponseKind::ALL`] and [`LimitAction::ALL`].
    pub limited: [[u64; LimitAction::ALL.len()]; ResponseKind::ALL.len()],
    /// Queries without a limit, in the order of [`Exempt::ALL`]. 0 while there is no limit for others.
    pub exempt: [u64; Exempt::ALL.len()],
}

impl LimitCounts {
    /// Returns the number of responses with this action.
    pub fn of(&self, action: LimitAction) -> u64 {
        self.limited.iter().map(|counts| counts[action as usize]).sum()
    }
}

impl Tally {
    /// Counts a response over a limit.
    pub(crate) fn limit(&self, over: OverLimit, action: LimitAction) {
        self.limits.limited[over.kind as usize][action as usize].add(1);
        if over.network != 0 {
            self.limits.network.store(over.network, Relaxed);
        }
    }

    /// Counts a query without a limit.
    pub(crate) fn exempt(&self, why: Exempt) {
        self.limits.exempt[why as usize].add(1);
    }

    /// Adds this thread's counts of limits to a sum.
    pub fn add_limits_to(&self, sum: &mut LimitCounts) {
        self.limits.add_to(sum);
    }

    /// Returns the network that exceeded a limit last, and forgets it. `None` if none did.
    pub fn take_limited_network(&self, snapshot: &Snapshot) -> Option<Network> {
        let limits = snapshot.options.rate_limits.as_ref()?;
        match self.limits.network.swap(0, Relaxed) {
            0 => None,
            number => Some(limits.network_of(number)),
        }
    }
}
