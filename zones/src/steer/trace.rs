//! Watching a decision while it is made: what `explain` listens to, and what compiles to nothing for queries.

use super::{
    answer::{AcceptanceTest, Assignment, Basis, Choice, Kind},
    client_net::ClientNet,
    pool::SteerPool,
};
use crate::{client::Draw, runtime::RuntimeState, steer::answer::Candidacy};

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
    fn member(&mut self, number: u8, candidacy: Candidacy) {
        let _ = (number, candidacy);
    }

    /// A member that heeds load is asked whether it takes the client, and takes it or not.
    fn acceptance_test(&mut self, number: u8, acceptance_test: AcceptanceTest) {
        let _ = (number, acceptance_test);
    }

    /// A pool that heeds load has chosen, and how the client came to the member.
    fn assigned(&mut self, assignment: Assignment) {
        let _ = assignment;
    }

    /// The decision is made.
    fn end(&mut self, choice: &Choice) {
        let _ = choice;
    }
}

impl Trace for () {}
