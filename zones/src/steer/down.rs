//! What is answered when nothing is live or pending, or nobody may be seen: never NXDOMAIN, and never a member that an
//! operator took out, that its schedule has closed, or that is hidden from the client.

use super::{
    Answer, Basis, Choice, Kind, SteerPool, Trace,
    pick::{Asked, Lens},
    pool::Down,
    standing::NOT_OUT,
};
use crate::RuntimeState;

impl SteerPool {
    /// The pool's down answer. Where every member is out or closed, `all` and `last-good` have nothing left to answer.
    pub(super) fn down_answer<T: Trace>(
        &self,
        asked: Asked<'_>,
        lens: &Lens<'_>,
        runtime: &RuntimeState,
        trace: &mut T,
    ) -> Choice {
        trace.stage(Basis::Down);
        match self.down {
            Down::All => self.all(asked, lens, trace),
            Down::LastGood => {
                let remembered = lens.only(runtime.last_good(self));
                let choice = self.stage(asked, &remembered, Basis::Down, NOT_OUT, trace);
                choice.unwrap_or_else(|| self.all(asked, lens, trace))
            }
            Down::Refuse => Choice::plain(Answer::Refuse, Basis::Down),
            Down::Empty | Down::FallbackAddresses | Down::FallbackCname => {
                self.fallback_answer(asked.kind, Basis::Down)
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
        Choice::plain(answer, basis)
    }

    /// Every address of the family at once, of the members that the client may see. That list is made in advance, for as
    /// many views as are numbered; where there is none for the client's, or an operator took some of it out, it cannot be
    /// given, and the client gets the member it would get if the others were up.
    fn all<T: Trace>(&self, asked: Asked<'_>, lens: &Lens<'_>, trace: &mut T) -> Choice {
        if let Kind::Addresses(family) = asked.kind
            && let Some(all) = self.plans[family as usize].everyone(asked.place)
            && asked.row.iter().all(|step| !lens.is_out(&self.members[usize::from(step.place)], family))
        {
            trace.stage(Basis::Down);
            return Choice::plain(Answer::Set(all), Basis::Down);
        }
        let choice = self.stage(asked, lens, Basis::Down, NOT_OUT, trace);
        choice.unwrap_or_else(|| Choice::plain(Answer::Nothing, Basis::Down))
    }
}
