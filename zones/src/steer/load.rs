//! Pools that balance by load: each member accepts a share of its clients, and the others go to the next member.
//!
//! For a client, in the order of its location class:
//!
//! 1. Pinned demand goes to its cluster, if that can be answered.
//! 2. Each group tests the member that the client would get without load. The member accepts the client if a draw of 16
//!    bits, hashed from client and group, is below its accepted share. The *local* share applies in the first group
//!    with a candidate, the *overflow* share in all others. If it does not accept, the next group is tried. Standby
//!    members are tried only if no other member is a candidate.
//! 3. If no member accepts, the client goes to one of all candidates by weight × local share, or by weight if all of
//!    that is 0.
//!
//! A member accepts `acceptance / 65535` of its clients, whatever other members its group has. So a changed share moves
//! only clients of that member, at the margin. The draw belongs to the group: a client that moves within the group is
//! not drawn again.

use fairway_model::{ClusterName, Demand, mix};

use super::{
    answer::{Candidacy, Choice, Kind},
    client_net::ClientNet,
    log2,
    order::OrderStep,
    pick::{BestCandidates, RankedCandidate, Stage},
    pool::{Member, SteerPool},
    trace::Trace,
    weighted,
};
use crate::{
    client::Draw,
    hash::seed,
    runtime::RuntimeState,
    shares::CompiledShares,
    steer::{
        answer::{AcceptanceTest, Assignment},
        order::group_of,
        score::Score,
    },
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
pub(super) struct ShareRequest<'a> {
    pub(super) order: &'a [OrderStep],
    /// Hash of the client or of the draw.
    pub(super) seed: u64,
    /// Accepted shares. `None` if no cluster limits its share.
    pub(super) balanced: Option<&'a CompiledShares>,
}

impl ShareRequest<'_> {
    /// Returns the acceptance test of a member, by its local share unless the rule is overflow. `group` is the key of
    /// the first member of its group.
    #[inline]
    fn test(&self, balanced: &CompiledShares, group: u64, member: &Member, rule: Assignment) -> AcceptanceTest {
        let is_local = rule != Assignment::Overflow;
        let acceptance = balanced.acceptance(member.cluster);
        let acceptance = if is_local { acceptance.local } else { acceptance.overflow };
        let hash = mix(mix(self.seed ^ group) ^ seed::OFFER);
        // 16 bits scaled to 0 to 65534, so that a share of 65535 accepts every client.
        AcceptanceTest { is_local, acceptance, draw: (((hash >> 48) * 65_535) >> 16) as u16 }
    }
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
        self.demand_of(weighted::seed(self.spread, client, draw))
    }

    #[inline]
    pub(super) fn demand_of(&self, seed: u64) -> Demand {
        Demand(mix(seed ^ self.key))
    }

    /// Returns the member that accepts the client, and the rule. `None` if no member does or is a candidate.
    #[inline(always)]
    pub(super) fn accepting_member<T: Trace>(
        &self,
        request: &ShareRequest<'_>,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<(RankedCandidate, Assignment)> {
        let pinned = request.balanced.filter(|balanced| balanced.has_pins());
        let pinned = pinned.and_then(|balanced| balanced.pin(self.demand_of(request.seed)));
        if let Some(entry) = pinned.and_then(|cluster| self.pinned_member(request.order, cluster, &fits, trace)) {
            return Some((entry, Assignment::Pinned));
        }
        let mut assignment = Assignment::Local;
        for group in request.order.chunk_by(|step, _| !step.ends_group()) {
            let first = &self.members[usize::from(group[0].index)];
            if first.standby
                && assignment == Assignment::Overflow
                && self.has_regular_candidate(request.order, &fits, trace)
            {
                break;
            }
            let best = match group {
                [_] => fits(first, trace).map(|part| {
                    (RankedCandidate { score: Score::FIRST, index: group[0].index, is_partial: part }, first)
                }),
                _ => self.best_of(group, request.seed, &fits, trace),
            };
            let Some((entry, member)) = best else { continue };
            let Some(balanced) = request.balanced else { return Some((entry, assignment)) };
            let test = request.test(balanced, first.key, member, assignment);
            trace.acceptance_test(member.number, test);
            if test.is_accepted() {
                return Some((entry, assignment));
            }
            assignment = Assignment::Overflow;
        }
        None
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
    ) -> Option<(RankedCandidate, &Member)> {
        let mut best = None::<(RankedCandidate, &Member)>;
        for step in group {
            let member = &self.members[usize::from(step.index)];
            let Some(part) = fits(member, trace) else { continue };
            let entry = RankedCandidate {
                score: weighted::score(seed, member.key, member.weight),
                index: step.index,
                is_partial: part,
            };
            if best.is_none_or(|(best, _)| entry.beats(&best)) {
                best = Some((entry, member));
            }
        }
        best
    }

    /// True if a member that is not standby is a candidate. Then standby members are not tried.
    #[cold]
    fn has_regular_candidate<T: Trace>(
        &self,
        order: &[OrderStep],
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> bool {
        let members = order.iter().map(|step| &self.members[usize::from(step.index)]);
        members.filter(|member| !member.standby).any(|member| fits(member, trace).is_some())
    }

    /// Returns the member of the cluster that the demand is pinned to, if it is a candidate.
    #[cold]
    fn pinned_member<T: Trace>(
        &self,
        order: &[OrderStep],
        cluster: u16,
        fits: impl Fn(&Member, &mut T) -> Fit,
        trace: &mut T,
    ) -> Option<RankedCandidate> {
        let mut others = false;
        for step in order {
            let member = &self.members[usize::from(step.index)];
            let Some(part) = fits(member, trace) else { continue };
            if member.cluster == cluster {
                return (!member.standby || !others).then_some(RankedCandidate {
                    score: Score::default(),
                    index: step.index,
                    is_partial: part,
                });
            }
            others |= !member.standby;
        }
        None
    }

    /// Returns one of all candidates, for a client that no member accepts.
    #[cold]
    pub(super) fn rest(&self, request: &ShareRequest<'_>, fits: impl Fn(&Member) -> Fit) -> Option<RankedCandidate> {
        let seed = mix(request.seed ^ seed::REST);
        let mut best: Option<(RemainderScore, u8)> = None;
        for step in request.order {
            let member = &self.members[usize::from(step.index)];
            if member.standby && best.as_ref().is_some_and(|(_, index)| !self.members[usize::from(*index)].standby) {
                break;
            }
            let Some(part) = fits(member) else { continue };
            let local = request.balanced.map_or(u16::MAX, |balanced| balanced.acceptance(member.cluster).local);
            let left = RemainderScore {
                is_partial: part,
                cost: log2::cost(mix(seed ^ member.key)),
                accepted: u32::from(member.weight) * u32::from(local),
                weight: member.weight,
            };
            if best.as_ref().is_none_or(|(best, _)| left.beats(best)) {
                best = Some((left, step.index));
            }
        }
        best.map(|(left, index)| RankedCandidate { score: Score::default(), index, is_partial: left.is_partial })
    }

    /// Chooses in a stage of a pool that balances by load. `None` if there is no candidate in either family.
    #[inline(never)]
    pub(super) fn choose_by_load<const K: usize, T: Trace>(
        &self,
        stage: &Stage<'_>,
        request: &ShareRequest<'_>,
        trace: &mut T,
    ) -> Option<Choice> {
        let observed = |member: &Member, trace: &mut T| {
            let candidacy = stage.candidacy(member);
            trace.member(member.number, candidacy);
            fit(candidacy)
        };
        let assigned = self.accepting_member(request, observed, trace);
        let assigned = assigned
            .or_else(|| Some((self.rest(request, |member| fit(stage.candidacy(member)))?, Assignment::Remainder)));
        let mut picked = BestCandidates::<K>::new(stage.wanted);
        if let Some((entry, assignment)) = assigned {
            trace.assigned(assignment);
            picked.begin(entry, group_of(request.order, entry.index));
            if K > 1 && !entry.is_partial {
                self.join(request, &mut picked, assignment, |member| fit(stage.candidacy(member)));
            }
        }
        picked.elsewhere =
            request.order.iter().any(|s| stage.candidacy(&self.members[usize::from(s.index)]) == Candidacy::Elsewhere);
        self.answer(stage, &picked)
    }

    /// Adds members of the same group that accept the client too, for answers with several members.
    fn join<const K: usize>(
        &self,
        request: &ShareRequest<'_>,
        picked: &mut BestCandidates<K>,
        rule: Assignment,
        fits: impl Fn(&Member) -> Fit,
    ) {
        let (first, group) = picked.first_and_group();
        let mut members = request.order.iter().filter(|step| step.group == group).peekable();
        let key = members.peek().map_or(0, |step| self.members[usize::from(step.index)].key);
        for step in members.filter(|step| step.index != first) {
            let member = &self.members[usize::from(step.index)];
            let is_accepted =
                request.balanced.is_none_or(|balanced| request.test(balanced, key, member, rule).is_accepted());
            if is_accepted && fits(member) == Some(false) {
                let score = weighted::score(request.seed, member.key, member.weight);
                picked.consider(RankedCandidate { score, index: step.index, is_partial: false });
            }
        }
    }
}

fn fit(candidacy: Candidacy) -> Fit {
    matches!(candidacy, Candidacy::Candidate | Candidacy::Partial).then_some(candidacy == Candidacy::Partial)
}

/// Score of a candidate for a client that no member accepts.
struct RemainderScore {
    is_partial: bool,
    cost: u64,
    /// Weight × local share.
    accepted: u32,
    weight: u16,
}

impl RemainderScore {
    fn beats(&self, other: &Self) -> bool {
        if self.is_partial != other.is_partial {
            return other.is_partial;
        }
        match (self.accepted, other.accepted) {
            (0, 0) => self.cost * u64::from(other.weight) < other.cost * u64::from(self.weight),
            (0, _) => false,
            (_, 0) => true,
            // Costs have 47 bits and weights 32 here.
            (own, theirs) => u128::from(self.cost) * u128::from(theirs) < u128::from(other.cost) * u128::from(own),
        }
    }
}

/// Trace that keeps the assignment.
#[derive(Default)]
struct AssignmentTrace(Assignment);

impl Trace for AssignmentTrace {
    fn assigned(&mut self, assignment: Assignment) {
        self.0 = assignment;
    }
}
