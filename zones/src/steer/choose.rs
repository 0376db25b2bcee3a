//! The decision: the answer of a pool for a client in a runtime state.
//!
//! Every choice can be made here. [`super::fast_path`] makes the frequent ones in two thirds of the instructions.

use fairway_model::{Selection, Spread, mix};

use super::{
    client_net::ClientNet,
    eligibility::{DOWN, EXHAUSTED, EligibilitySet, LIVE, NOT_OUT, PENDING},
    load::LoadRequest,
    pick::{ChoiceRequest, MemberFilter, Stage},
    pool::{Down, Member, SteerPool},
    trace::Trace,
};
use crate::{
    client::Draw,
    hash::seed,
    runtime::RuntimeState,
    steer::{
        answer::{Answer, Basis, Choice, Family, Kind},
        score::Score,
    },
};

impl SteerPool {
    /// Returns the hash of the client's network, or of the draw.
    #[inline]
    pub(super) fn client_seed(&self, client: ClientNet, draw: Draw) -> u64 {
        match self.spread {
            Spread::Client => client.hash(),
            Spread::Query => mix(seed::DRAW ^ draw.0),
        }
    }

    /// Chooses the answer for a client.
    ///
    /// `kind` must fit the pool's mode. `client` comes from [`SteerPool::client_net`]. Only pools with `spread: query`
    /// read the draw.
    pub fn choose<T: Trace>(
        &self,
        kind: Kind,
        runtime: &RuntimeState,
        client: ClientNet,
        draw: Draw,
        trace: &mut T,
    ) -> Choice {
        let class = client.class();
        let request = ChoiceRequest { kind, class, order: self.orders.class(class), seed: self.seed(client, draw) };
        let filter = MemberFilter::new(self, runtime, kind);
        trace.begin(self, kind, runtime, client, draw);
        let choice = self.decide(request, &filter, runtime, trace);
        trace.end(&choice);
        choice
    }

    /// Returns the number of the fallback addresses in [`SteerPool::sets`].
    pub fn fallback_set(&self, family: Family) -> Option<u16> {
        self.plans[family as usize].fallback
    }

    /// Tries the stages until one gives an answer.
    ///
    /// A stage with live members is chosen for the pool and not for the family. If its members have the other family only, this
    /// family has no data, and clients use the other one.
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
        if request.order.is_empty() && !self.members.is_empty() {
            return self.fallback_answer(request.kind, Basis::Hidden);
        }
        if self.panic_threshold != 0 && self.panics(request, filter) {
            let choice = self.stage(request, filter, Basis::Panic, NOT_OUT & !EXHAUSTED, trace);
            return choice
                .or_else(|| self.stage(request, filter, Basis::Panic, NOT_OUT, trace))
                .unwrap_or_else(|| Choice::without_members(Answer::Nothing, Basis::Panic));
        }
        let live = self.stage(request, filter, Basis::Live, LIVE, trace);
        let has_answer = |choice: &Choice| choice.answer != Answer::Nothing;
        let choice = live.filter(has_answer).or_else(|| {
            // An exhausted gateway is better than one that was never probed, and than no data in this family.
            let any = self.stage(request, filter, Basis::Exhausted, LIVE | EXHAUSTED, trace);
            any.filter(|choice| live.is_none() || has_answer(choice)).or(live)
        });
        // Pending members without an address of this family say nothing about it. A server without a route to one family never
        // evaluates that family's addresses.
        let pending = choice.or_else(|| match self.down {
            Down::FallbackCname if !self.are_all_families_pending(request, filter) => None,
            Down::FallbackCname => self.stage(request, filter, Basis::Pending, PENDING, trace),
            _ => self.stage(request, filter, Basis::Pending, PENDING, trace).filter(has_answer),
        });
        pending.unwrap_or_else(|| self.down_answer(request, filter, runtime, trace))
    }

    /// True if each family has a pending address, of those in which a visible member can be answered. A fallback name is the answer for both families or for
    /// neither, since a CNAME holds for every type.
    #[cold]
    fn are_all_families_pending(&self, request: ChoiceRequest<'_>, filter: &MemberFilter<'_>) -> bool {
        Family::BOTH.into_iter().all(|family| {
            let members = request.order.iter().map(|step| &self.members[usize::from(step.index)]);
            let seen = members.fold(0, |seen, member| seen | filter.of_family(member, family));
            seen & NOT_OUT == 0 || seen & PENDING != 0
        })
    }

    /// Chooses among the members with an admitted eligibility. `None` if there is none in either family.
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
        let stage = Stage { filter, order: request.order, basis, admitted, wanted: self.wanted(request.kind) };
        let weighted = |_, member: &Member| Score::weighted(request.seed, member.key, member.weight);
        if self.load {
            let request = LoadRequest {
                order: request.order,
                seed: request.seed,
                balanced: filter.balanced,
                class: request.class,
            };
            return match several {
                false => self.choose_by_load::<1, T>(&stage, &request, trace),
                true => self.choose_by_load::<8, T>(&stage, &request, trace),
            };
        }
        // Four instances of one loop, so that each keeps its few variables in registers.
        match (self.chooses, several) {
            (Selection::First, false) => self.pick::<1, T>(&stage, Score::by_place, trace),
            (Selection::First, true) => self.pick::<8, T>(&stage, Score::by_place, trace),
            (Selection::Weighted, false) => self.pick::<1, T>(&stage, weighted, trace),
            (Selection::Weighted, true) => self.pick::<8, T>(&stage, weighted, trace),
        }
    }

    /// Returns the hash of the client or the draw, or 0 if every client gets the same answer.
    pub(super) fn seed(&self, client: ClientNet, draw: Draw) -> u64 {
        if self.chooses.is_by_client() || self.load { self.client_seed(client, draw) } else { 0 }
    }

    /// True if the pool never has an answer of this kind, since no member has the family.
    ///
    /// Fallback addresses may still be answered when the other family is down. A fallback name even must be, since a
    /// CNAME holds for every type.
    fn lacks(&self, kind: Kind) -> bool {
        let Kind::Addresses(family) = kind else { return false };
        let plan = &self.plans[family as usize];
        plan.members == 0 && plan.fallback.is_none() && self.down != Down::FallbackCname
    }

    /// True if so little of the visible weight is live that the prober is more likely to be wrong than the members to
    /// be down.
    ///
    /// Exhausted members are not down and count as live. Standby members, those that an override takes out and those that were never evaluated do not count: new members are no evidence that
    /// the prober is wrong. If no weight is live, standby members and the down answer apply instead.
    fn panics(&self, request: ChoiceRequest<'_>, filter: &MemberFilter<'_>) -> bool {
        let (mut live, mut total, mut any_down) = (0u64, 0u64, false);
        let members = request.order.iter().map(|step| &self.members[usize::from(step.index)]);
        for member in members.filter(|member| !member.standby) {
            let eligibility = filter.any(member);
            let weight = u64::from(member.weight);
            let is_live = eligibility & (LIVE | EXHAUSTED) != 0;
            live += if is_live { weight } else { 0 };
            total += if is_live || eligibility & DOWN != 0 { weight } else { 0 };
            any_down |= !is_live && eligibility & DOWN != 0;
        }
        any_down && live > 0 && live * 1000 < total * u64::from(self.panic_threshold)
    }
}
