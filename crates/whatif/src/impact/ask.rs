//! Questions to the code that answers: who may be answered to a client, and who is.

use std::collections::BTreeSet;

use fairway_model::{AnswerMode, ClusterName};
use fairway_zones::{
    Draw, RuntimeState,
    steer::{Basis, Candidacy, ClientNet, Kind, SteerPool, Trace},
};

use fairway_control::Offline;

/// Members that are live for a client and that some client of its row is answered with, and what an answer rests on.
pub(super) struct Live {
    pub(super) members: BTreeSet<u8>,
    pub(super) basis: Basis,
}

/// Asks for every kind of address that the pool answers with: whoever is answered in one of them is reached.
pub(super) fn live(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet) -> Live {
    let mut live = Live { members: BTreeSet::new(), basis: Basis::NoFamily };
    let kinds: &[Kind] = match pool.mode() {
        AnswerMode::Cname => &[Kind::Cname],
        AnswerMode::Address => &[Kind::V4, Kind::V6],
    };
    for kind in kinds {
        let mut seen = Seen::default();
        let choice = pool.choose(*kind, runtime, client, Draw(0), &mut seen);
        if choice.basis != Basis::NoFamily {
            live.basis = choice.basis;
        }
        if choice.basis == Basis::Live {
            live.members.extend(seen.candidates);
        }
    }
    live
}

/// The clusters that clients of a place come to, one wave after the other goes down; `down` is from the beginning.
pub(super) fn reach(
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

/// The cluster that is answered first, by its number; none where the answer is no choice among live members.
pub(super) fn first(pool: &SteerPool, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Option<u8> {
    let choice = pool.choose(pool.answerable_kind(), runtime, client, draw, &mut ());
    choice.members.as_slice().first().copied().filter(|_| choice.basis == Basis::Live)
}

/// The cluster of a member.
pub(super) fn cluster(pool: &SteerPool, number: u8) -> Option<&ClusterName> {
    pool.clusters().nth(usize::from(number))
}

/// Who the last stage of a decision may take.
#[derive(Default)]
struct Seen {
    candidates: Vec<u8>,
}

impl Trace for Seen {
    fn stage(&mut self, _: Basis) {
        self.candidates.clear();
    }

    fn member(&mut self, number: u8, sight: Candidacy) {
        if let Candidacy::Candidate | Candidacy::Partial = sight {
            self.candidates.push(number);
        }
    }
}

/// How many samples each pool gets, so that a configuration of many pools is judged in seconds.
pub(super) fn samples_each(pools: usize) -> usize {
    (SAMPLES_ALL / pools.max(1)).clamp(SAMPLES_LEAST, SAMPLES_MOST)
}

/// Shares of 8,192 are within 1.6 percentage points in 99.7 % of the cases.
const SAMPLES_MOST: usize = 8_192;
const SAMPLES_LEAST: usize = 64;
const SAMPLES_ALL: usize = 1 << 20;
