//! Calls of the code that answers: which members a client can get, and which it gets.

use std::collections::BTreeSet;

use fairway_model::{AnswerMode, ClusterName};
use fairway_zones::{
    Draw, RuntimeState,
    steer::{Basis, Candidacy, ClientNet, Kind, SteerPool, Trace},
};

use crate::Offline;

/// Live members that clients of a location class get, and the basis of the answer.
pub(super) struct Live {
    pub(super) members: BTreeSet<u8>,
    pub(super) basis: Basis,
}

/// Returns the live members over all kinds of addresses that the pool answers with. A member counts if it is in one of them.
pub(super) fn live(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet) -> Live {
    let mut live = Live { members: BTreeSet::new(), basis: Basis::NoFamily };
    let kinds: &[Kind] = match pool.mode() {
        AnswerMode::Cname => &[Kind::Cname],
        AnswerMode::Address => &[Kind::V4, Kind::V6],
    };
    for kind in kinds {
        let mut candidates = Candidates::default();
        let choice = pool.choose(*kind, runtime, client, Draw(0), &mut candidates);
        if choice.basis != Basis::NoFamily {
            live.basis = choice.basis;
        }
        if choice.basis == Basis::Live {
            live.members.extend(candidates.0);
        }
    }
    live
}

/// Returns every cluster that clients of a location class get when those before it have failed. `down` is down from the start.
pub(super) fn reachable(
    side: &Offline,
    pool: &SteerPool,
    client: ClientNet,
    down: Option<&ClusterName>,
) -> BTreeSet<ClusterName> {
    let mut reached = BTreeSet::new();
    loop {
        let live = live(pool, &side.without(reached.iter().chain(down)), client);
        let before = reached.len();
        reached.extend(live.members.iter().filter_map(|number| cluster(pool, *number)).cloned());
        if reached.len() == before {
            return reached;
        }
    }
}

/// Returns the number of the first member in the answer; `None` if the answer is not a choice among live members.
pub(super) fn first(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Option<u8> {
    let choice = pool.choose(pool.answerable_kind(), runtime, client, draw, &mut ());
    choice.members.as_slice().first().copied().filter(|_| choice.basis == Basis::Live)
}

/// Returns the cluster of a member.
pub(super) fn cluster(pool: &SteerPool, number: u8) -> Option<&ClusterName> {
    pool.clusters().nth(usize::from(number))
}

/// Candidates of the last stage of a decision.
#[derive(Default)]
struct Candidates(Vec<u8>);

impl Trace for Candidates {
    fn stage(&mut self, _: Basis) {
        self.0.clear();
    }

    fn member(&mut self, number: u8, candidacy: Candidacy) {
        if let Candidacy::Candidate | Candidacy::Partial = candidacy {
            self.0.push(number);
        }
    }
}

/// Returns the number of samples for each pool. It shrinks with many pools, so that these are assessed in seconds.
pub(super) fn samples_per_pool(pools: usize) -> usize {
    (SAMPLES_TOTAL / pools.max(1)).clamp(SAMPLES_MIN, SAMPLES_MAX)
}

/// Maximum number of samples of a pool. A share of 8,192 samples is within 3 √(0.25 / 8,192) = 1.7 percentage points in 99.7 % of the
/// cases.
const SAMPLES_MAX: usize = 8_192;
/// Minimum number of samples of a pool. With 64 samples it is within 19 points.
const SAMPLES_MIN: usize = 64;
/// Number of choices of an assessment. 2^20 choices take about a second.
const SAMPLES_TOTAL: usize = 1 << 20;
