//! Watching a decision while it is made: what `explain` listens to, and what compiles to nothing for queries.

use super::{Basis, Choice, ClientNet, Kind, Offer, Reach, SteerPool};
use crate::{Draw, RuntimeState};

/// What a member is to a stage of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// May be chosen.
    Candidate,
    /// May be chosen where no whole member is: only some of its addresses of the family fit.
    Part,
    /// Fits, but has no fitting address of the family asked.
    Elsewhere,
    /// Is not among those that were the last to be up.
    Excluded,
    /// Is closed by its schedule.
    Closed,
    /// Does not fit.
    Unfit,
}

/// Listens to [`SteerPool::choose`]. Every method may be left out; `()` listens to nothing and costs nothing.
pub trait Trace {
    /// A decision begins.
    fn begin(&mut self, pool: &SteerPool, kind: Kind, runtime: &RuntimeState, client: ClientNet, draw: Draw) {
        let _ = (pool, kind, runtime, client, draw);
    }

    /// A stage begins; what was heard of an earlier one did not lead to an answer.
    fn stage(&mut self, basis: Basis) {
        let _ = basis;
    }

    /// The stage looks at a member, by its number. Members it does not come to are not heard of.
    fn member(&mut self, number: u8, sight: Sight) {
        let _ = (number, sight);
    }

    /// A member that heeds load is asked whether it takes the client, and takes it or not.
    fn offer(&mut self, number: u8, offer: Offer) {
        let _ = (number, offer);
    }

    /// A pool that heeds load has chosen, and how the client came to the member.
    fn reached(&mut self, reach: Reach) {
        let _ = reach;
    }

    /// The decision is made.
    fn end(&mut self, choice: &Choice) {
        let _ = choice;
    }
}

impl Trace for () {}
