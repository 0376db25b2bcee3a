//! Pools that balance by load: a table says which cluster the clients of each slot get.
//!
//! For a client, in the order of its location class:
//!
//! 1. Its slot, a part of its hash, has a cluster in the table of its class of load control. If that can be answered, the client gets it.
//! 2. Else, and without a table, it gets what it would get without load: a candidate of the best group that has one, by weight.
//!
//! So a changed slot moves only its own clients.

use fairway_model::{ClusterName, Demand, mix};

use super::{
    answer::{Candidacy, Choice, Kind},
    client_net::ClientNet,
    order::OrderStep,
    pick::{BestCandidates, RankedCandidate, Stage},
    pool::{Member, SteerPool},
    trace::Trace,
};
use crate::{
    client::Draw,
    runtime::RuntimeState,
    shares::{CompiledShares, SlotClusters, UNBALANCED},
    steer::{answer::Assignment, order::group_of, score::Score},
};

/// Destination of a client's demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// First cluster of the answer.
    pub cluster: &'a ClusterName,
    /// Rule that assigned the client to it.
    pub assignment: Assignment,
    /// Id of the client's demand on the pool.
    pub demand: Demand,
}

/// Inputs of a choice in a pool that balances by load.
#[derive(Clone, Copy)]
pub(super) struct LoadRequest<'a> {
    pub(super) order: &'a [OrderStep],
    /// Hash of the client or of the draw.
    pub(super) seed: u64,
    /// Location class of the client.
    pub(super) class: u16,
    /// Tables of load control, if there are any.
    pub(super) balanced: Option<&'a CompiledShares>,
}

/// `None` if a member is no candidate, else true if only some of its addresses are admitted.
pub(super) type Fit = Option<bool>;

impl SteerPool {
    /// Returns the destination of a client's demand, from the same decision that answers queries.
    ///
    /// Returns `None` if the answer is not a choice among members.
    pub fn route(&self, kind: Kind, runtime: &RuntimeState, client: ClientNet, draw: Draw) -> Option<Route<'_>> {
        let mut trace = AssignmentTrace::default();
        let choice = self.choose(kind, runtime, client, draw, &mut trace);
        let number = choice.members.as_slice().first()?;
        Some(Route { cluster: self.cluster(*number), assignment: trace.0, demand: self.demand(client, draw) })
    }

    /// Returns the id of a client's demand on this pool.
    pub fn demand(&self, client: ClientNet, draw: Draw) -> Demand {
        self.demand_of(self.client_seed(client, draw))
    }

    #[inline]
    pub(super) fn demand_of(&self, seed: u64) -> Demand {
        Demand(mix(seed ^ self.key))
    }

    /// Returns the clusters of the slots of a client's class. `None` without a table.
    #[inline]
    pub(super) fn class_table<'a>(&self, request: &LoadRequest<'a>) -> Option<&'a SlotClusters> {
        request.balanced?.table(self.load_begin, request.class)
    }

    /// Returns the member for a client, and the rule. `None` if no member is a candidate.
    #[inline(always)]
    pub(super) fn member_by_load<T: Trace>(
        &self,
        request: &LoadRequest<'_>,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<(RankedCandidate, Assignment)> {
        if let Some(table) = self.class_table(request) {
            let cluster = table[self.demand_of(request.seed).slot()];
            if let Some(entry) = self.slot_member(request.order, cluster, &fits, trace) {
                return Some((entry, Assignment::Slot));
            }
        }
        let mut groups = request.order.chunk_by(|step, _| !step.ends_group());
        let nearest = groups.find_map(|group| match group {
            [step] => {
                let is_partial = fits(&self.members[usize::from(step.index)], trace)?;
                Some(RankedCandidate { score: Score::FIRST, index: step.index, is_partial })
            }
            _ => self.best_of(group, request.seed, &fits, trace),
        });
        Some((nearest?, Assignment::Nearest))
    }

    /// Returns the member of the cluster of a slot, if it is a candidate.
    #[inline]
    fn slot_member<T: Trace>(
        &self,
        order: &[OrderStep],
        cluster: u16,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<RankedCandidate> {
        let is_wanted = |step: &&OrderStep| self.members[usize::from(step.index)].cluster == cluster;
        let step = order.iter().find(is_wanted).filter(|_| cluster != UNBALANCED)?;
        let member = &self.members[usize::from(step.index)];
        let is_partial = fits(member, trace).filter(|_| !member.standby)?;
        Some(RankedCandidate { score: Score::default(), index: step.index, is_partial })
    }

    /// Returns the candidate of a group that the client would get without load.
    ///
    /// Not inlined, so that with one member per group the loop of the caller keeps its registers.
    #[inline(never)]
    fn best_of<T: Trace>(
        &self,
        group: &[OrderStep],
        seed: u64,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<RankedCandidate> {
        let mut best = None::<RankedCandidate>;
        for step in group {
            let member = &self.members[usize::from(step.index)];
            let Some(is_partial) = fits(member, trace) else { continue };
            let score = Score::weighted(seed, member.key, member.weight);
            let entry = RankedCandidate { score, index: step.index, is_partial };
            if best.is_none_or(|best| entry.beats(&best)) {
                best = Some(entry);
            }
        }
        best
    }

    /// Chooses in a stage of a pool that balances by load. `None` if there is no candidate in either family.
    #[inline(never)]
    pub(super) fn choose_by_load<const K: usize, T: Trace>(
        &self,
        stage: &Stage<'_>,
        request: &LoadRequest<'_>,
        trace: &mut T,
    ) -> Option<Choice> {
        let observed = |member: &Member, trace: &mut T| {
            let candidacy = stage.candidacy(member);
            trace.member(member.number, candidacy);
            fit(candidacy)
        };
        let mut picked = BestCandidates::<K>::new(stage.wanted);
        if let Some((entry, assignment)) = self.member_by_load(request, observed, trace) {
            trace.assigned(assignment);
            picked.begin(entry, group_of(request.order, entry.index));
            if K > 1 && !entry.is_partial {
                self.join(request, &mut picked, |member| fit(stage.candidacy(member)));
            }
        }
        picked.elsewhere =
            request.order.iter().any(|s| stage.candidacy(&self.members[usize::from(s.index)]) == Candidacy::Elsewhere);
        self.answer(stage, &picked)
    }

    /// Adds members of the same group, for answers with several members. With a table, only those that it has for the class.
    fn join<const K: usize>(
        &self,
        request: &LoadRequest<'_>,
        picked: &mut BestCandidates<K>,
        fits: impl Fn(&Member) -> Fit,
    ) {
        let (first, group) = picked.first_and_group();
        let table = self.class_table(request);
        for step in request.order.iter().filter(|step| step.group == group && step.index != first) {
            let member = &self.members[usize::from(step.index)];
            if table.is_none_or(|table| table.contains(&member.cluster)) && fits(member) == Some(false) {
                let score = Score::weighted(request.seed, member.key, member.weight);
                picked.consider(RankedCandidate { score, index: step.index, is_partial: false });
            }
        }
    }
}

fn fit(candidacy: Candidacy) -> Fit {
    matches!(candidacy, Candidacy::Candidate | Candidacy::Partial).then_some(candidacy == Candidacy::Partial)
}

/// Trace that keeps the assignment.
#[derive(Default)]
struct AssignmentTrace(Assignment);

impl Trace for AssignmentTrace {
    fn assigned(&mut self, assignment: Assignment) {
        self.0 = assignment;
    }
}
