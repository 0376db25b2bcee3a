//! What is answered when nothing is live or pending, or nobody may be seen: never NXDOMAIN, and never a member that an
//! operator took out, that its schedule has closed, or that is hidden from the client.

use super::{
    answer::{Answer, Basis, Choice, Kind},
    eligibility::NOT_OUT,
    pick::{ChoiceRequest, MemberFilter},
    pool::{Down, SteerPool},
    trace::Trace,
};
use crate::runtime::RuntimeState;

impl SteerPool {
    /// The pool's down answer. Where every member is out or closed, `all` and `last-good` have nothing left to answer.
    pub(super) fn down_answer<T: Trace>(
        &self,
        request: ChoiceRequest<'_>,
        filter: &MemberFilter<'_>,
        runtime: &RuntimeState,
        trace: &mut T,
    ) -> Choice {
        trace.stage(Basis::Down);
        match self.down {
            Down::All => self.all(request, filter, trace),
            Down::LastGood => {
                let remembered = filter.only(runtime.last_good(self));
                let choice = self.stage(request, &remembered, Basis::Down, NOT_OUT, trace);
                choice.unwrap_or_else(|| self.all(request, filter, trace))
            }
            Down::Refuse => Choice::without_members(Answer::Refuse, Basis::Down),
            Down::Empty | Down::FallbackAddresses | Down::FallbackCname => {
                self.fallback_answer(request.kind, Basis::Down)
            }
        }
    }

    /// What is answered in place of members: the fallback, if the pool has one, and no data else. Where members are hidden
    /// and not down, nothing is broken that another server could do better: that is no reason to refuse.
    pub(super) fn fallback_answer(&self, kind: Kind, basis: Basis) -> Choice {
        let answer = match (self.down, kind) {
            (Down::FallbackAddresses, Kind::Addresses(family)) => {
                self.fallback_set(family).map_or(Answer::Nothing, Answer::Set)
            }
            (Down::FallbackAddresses, Kind::Cname) => Answer::FallbackAddresses,
            (Down::FallbackCname, _) => Answer::FallbackCname,
            (Down::All | Down::Empty | Down::LastGood | Down::Refuse, _) => Answer::Nothing,
        };
        Choice::without_members(answer, basis)
    }

    /// Every address of the family at once, of the members that the client may see. That list is made in advance, for as
    /// many views as are numbered; where there is none for the client's, or an operator took some of it out, it cannot be
    /// given, and the client gets the member it would get if the others were up.
    fn all<T: Trace>(&self, request: ChoiceRequest<'_>, filter: &MemberFilter<'_>, trace: &mut T) -> Choice {
        if let Kind::Addresses(family) = request.kind
            && let Some(all) = self.plans[family as usize].everyone(request.place)
            && request.class.iter().all(|step| !filter.is_out(&self.members[usize::from(step.place)], family))
        {
            trace.stage(Basis::Down);
            return Choice::without_members(Answer::Set(all), Basis::Down);
        }
        let choice = self.stage(request, filter, Basis::Down, NOT_OUT, trace);
        choice.unwrap_or_else(|| Choice::without_members(Answer::Nothing, Basis::Down))
    }
}
