//! Answers if no visible member is live or pending. They are never NXDOMAIN, and never name a member that an override
//! takes out, that its schedule closes or that is hidden from the client.

use super::{
    answer::{Answer, Basis, Choice, Kind},
    eligibility::NOT_OUT,
    pick::{ChoiceRequest, MemberFilter},
    pool::{Down, SteerPool},
    trace::Trace,
};
use crate::runtime::RuntimeState;

impl SteerPool {
    /// Returns the pool's down answer. If every member is out or closed, `all` and `last-good` have no member to answer
    /// with.
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

    /// Returns the fallback of the pool, or no data.
    ///
    /// It is never SERVFAIL if members are hidden and not down, since another server could not do better.
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

    /// Answers with every address of the family, of the members that the client may see.
    ///
    /// These lists are written in advance for a bounded number of views. If there is none for the client's view, or if
    /// an override takes some of the addresses out, the client gets the member that it would get if all were up.
    fn all<T: Trace>(&self, request: ChoiceRequest<'_>, filter: &MemberFilter<'_>, trace: &mut T) -> Choice {
        if let Kind::Addresses(family) = request.kind
            && let Some(all) = self.plans[family as usize].everyone(request.class)
            && request.order.iter().all(|step| !filter.is_out(&self.members[usize::from(step.index)], family))
        {
            trace.stage(Basis::Down);
            return Choice::without_members(Answer::Set(all), Basis::Down);
        }
        let choice = self.stage(request, filter, Basis::Down, NOT_OUT, trace);
        choice.unwrap_or_else(|| Choice::without_members(Answer::Nothing, Basis::Down))
    }
}
