//! What is answered when nothing is live or pending: never NXDOMAIN, and never a member that an operator took out.

use super::{
    Answer, Basis, Choice, Kind, SteerPool, Trace,
    pick::{Asked, Lens},
    pool::Down,
    standing::{NOT_OUT, OUT},
};
use crate::Conditions;

impl SteerPool {
    /// The pool's down answer. Where every member is out, `all` and `last-good` have nothing left to answer.
    pub(super) fn down_answer<T: Trace>(
        &self,
        asked: Asked<'_>,
        lens: &Lens<'_>,
        conditions: &Conditions,
        trace: &mut T,
    ) -> Choice {
        trace.stage(Basis::Down);
        let answer = match self.down {
            Down::All => return self.everyone(asked, lens, trace),
            Down::LastGood => {
                let remembered = lens.only(conditions.last_good(self));
                let choice = self.stage(asked, &remembered, Basis::Down, NOT_OUT, trace);
                return choice.unwrap_or_else(|| self.everyone(asked, lens, trace));
            }
            Down::Empty => Answer::Nothing,
            Down::FallbackAddresses => match asked.kind {
                Kind::Addresses(family) => self.fallback_set(family).map_or(Answer::Nothing, Answer::Set),
                Kind::Cname => Answer::FallbackAddresses,
            },
            Down::FallbackCname => Answer::FallbackCname,
            Down::Refuse => Answer::Refuse,
        };
        Choice::plain(answer, Basis::Down)
    }

    /// Every address of the family at once. That list is made in advance; where an operator took some of it out, it
    /// cannot be given, and the client gets the member it would get if the others were up.
    fn everyone<T: Trace>(&self, asked: Asked<'_>, lens: &Lens<'_>, trace: &mut T) -> Choice {
        if let Kind::Addresses(family) = asked.kind
            && let Some(all) = self.plans[family as usize].all
            && self.members.iter().all(|m| lens.standings(&m.spots[family as usize]) & OUT == 0)
        {
            trace.stage(Basis::Down);
            return Choice::plain(Answer::Set(all), Basis::Down);
        }
        let choice = self.stage(asked, lens, Basis::Down, NOT_OUT, trace);
        choice.unwrap_or_else(|| Choice::plain(Answer::Nothing, Basis::Down))
    }
}
