//! The decision: which answer this client gets from this pool under this runtime state.

use fairway_model::Selection;

use super::{
    client_net::ClientNet,
    eligibility::{DOWN, EligibilitySet, LIVE, NOT_OUT, PENDING},
    failover,
    load::ShareRequest,
    pick::{ChoiceRequest, MemberFilter, Stage},
    pool::{Down, Member, SteerPool},
    trace::Trace,
    weighted,
};
use crate::{
    client::Draw,
    runtime::RuntimeState,
    steer::answer::{Answer, Basis, Choice, Family, Kind},
};

impl SteerPool {
    /// Chooses the answer for a client.
    ///
    /// `kind` must fit the pool's mode. `client` is what [`SteerPool::client_net`] gives; the draw is read by pools that
    /// spread per query only.
    pub fn choose<T: Trace>(
        &self,
        kind: Kind,
        runtime: &RuntimeState,
        client: ClientNet,
        draw: Draw,
        trace: &mut T,
    ) -> Choice {
        let place = client.class();
        let request = ChoiceRequest { kind, place, class: self.orders.class(place), seed: self.seed(client, draw) };
        let filter = MemberFilter::new(self, runtime, kind);
        trace.begin(self, kind, runtime, client, draw);
        let choice = self.decide(request, &filter, runtime, trace);
        trace.end(&choice);
        choice
    }

    /// The number of the fallback addresses in a family's [`SteerPool::sets`], if there are any.
    pub fn fallback_set(&self, family: Family) -> Option<u16> {
        self.plans[family as usize].fallback
    }

    /// Walks the stages until one gives an answer.
    ///
    /// A stage is the pool's, not the family's: where it has members in the other family only, this family has no data,
    /// and clients use the one that works.
    fn decide<T: Trace>(
        &self,
        request: ChoiceRequest<'_>,
        filter: &MemberFilter<'_>,
        runtime: &RuntimeState,
        trace: &mut T,
    ) -> Choice {
        if self.lacks(request.kind) {
            return Choice::without_members(Answer::Nothing, Basis::NoFamily);
        }
        if request.class.is_empty() && !self.members.is_empty() {
            return self.fallback_answer(request.kind, Basis::Hidden);
        }
        if self.panic_threshold != 0 && self.panics(request, filter) {
            return self
                .stage(request, filter, Basis::Panic, NOT_OUT, trace)
                .unwrap_or_else(|| Choice::without_members(Answer::Nothing, Basis::Panic));
        }
        let choice = self.stage(request, filter, Basis::Live, LIVE, trace);
        let choice = choice.or_else(|| self.stage(request, filter, Basis::Pending, PENDING, trace));
        choice.unwrap_or_else(|| self.down_answer(request, filter, runtime, trace))
    }

    /// Chooses among the members whose standing is admitted; none where no member's is, in either family.
    pub(super) fn stage<T: Trace>(
        &self,
        request: ChoiceRequest<'_>,
        filter: &MemberFilter<'_>,
        basis: Basis,
        admitted: EligibilitySet,
        trace: &mut T,
    ) -> Option<Choice> {
        trace.stage(basis);
        let several = match request.kind {
            Kind::Addresses(family) => {
                let plan = &self.plans[family as usize];
                plan.answers > 1 && !plan.windows
            }
            Kind::Cname => false,
        };
        let stage = Stage { filter, class: request.class, basis, admitted, wanted: self.wanted(request.kind) };
        let weighted = |_, member: &Member| weighted::score(request.seed, member.key, member.weight);
        if self.load {
            let request = ShareRequest { class: request.class, seed: request.seed, balanced: filter.balanced };
            return match several {
                false => self.choose_by_load::<1, T>(&stage, &request, trace),
                true => self.choose_by_load::<8, T>(&stage, &request, trace),
            };
        }
        // Four copies of one loop, so that each keeps its few variables in registers.
        match (self.chooses, several) {
            (Selection::First, false) => self.pick::<1, T>(&stage, failover::score, trace),
            (Selection::First, true) => self.pick::<8, T>(&stage, failover::score, trace),
            (Selection::Weighted, false) => self.pick::<1, T>(&stage, weighted, trace),
            (Selection::Weighted, true) => self.pick::<8, T>(&stage, weighted, trace),
        }
    }

    /// What stands for the client in the decision; nothing where every client gets the same.
    pub(super) fn seed(&self, client: ClientNet, draw: Draw) -> u64 {
        match self.chooses {
            Selection::First if !self.load => 0,
            _ => weighted::seed(self.spread, client, draw),
        }
    }

    /// Whether the pool never has an answer of this kind, whatever the health: no member has the family.
    ///
    /// A fallback can still be answered when the other family is down; a fallback name even must be, since a CNAME holds
    /// for every type.
    fn lacks(&self, kind: Kind) -> bool {
        let Kind::Addresses(family) = kind else { return false };
        let plan = &self.plans[family as usize];
        plan.members == 0 && plan.fallback.is_none() && self.down != Down::FallbackCname
    }

    /// Whether so little of the weight that the client can see is live that the observer is the likelier one to be wrong.
    ///
    /// Standby members and those that are out by force count on neither side. While nothing of the weight is live there
    /// is no panic: standby members and the down answer are for that. Nor is there while nobody is down: members that
    /// were never judged are no evidence.
    fn panics(&self, request: ChoiceRequest<'_>, filter: &MemberFilter<'_>) -> bool {
        let (mut live, mut total, mut any_down) = (0u64, 0u64, false);
        let members = request.class.iter().map(|step| &self.members[usize::from(step.place)]);
        for member in members.filter(|member| !member.standby) {
            let eligibility = filter.any(member);
            let weight = u64::from(member.weight);
            live += if eligibility & LIVE != 0 { weight } else { 0 };
            total += if eligibility & NOT_OUT != 0 { weight } else { 0 };
            any_down |= eligibility & (LIVE | DOWN) == DOWN;
        }
        any_down && live > 0 && live * 1000 < total * u64::from(self.panic_threshold)
    }
}
