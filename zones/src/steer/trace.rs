//! Observer of a decision. `explain` implements it; for queries it compiles to nothing.

use super::{
    answer::{AcceptanceTest, Assignment, Basis, Choice, Kind},
    client_net::ClientNet,
    pool::SteerPool,
};
use crate::{client::Draw, runtime::RuntimeState, steer::answer::Candidacy};

/// Observer of [`SteerPool::choose`]. Every method has a default that does nothing, and `()` costs nothing.
pub trait Trace {
    /// Called before a decision.
    fn begin(&mut self, pool: &SteerPool, kind: Kind, runtime: &RuntimeState, client: ClientNet, draw: Draw) {
        let _ = (pool, kind, runtime, client, draw);
    }

    /// Called before a stage. Results of an earlier stage did not lead to an answer.
    fn stage(&mut self, basis: Basis) {
        let _ = basis;
    }

    /// Called for each member that the stage reads, by its number.
    fn member(&mut self, number: u8, candidacy: Candidacy) {
        let _ = (number, candidacy);
    }

    /// Called after the acceptance test of a member, in a pool that balances by load.
    fn acceptance_test(&mut self, number: u8, acceptance_test: AcceptanceTest) {
        let _ = (number, acceptance_test);
    }

    /// Called after the choice of a pool that balances by load.
    fn assigned(&mut self, assignment: Assignment) {
        let _ = assignment;
    }

    /// Called with the decision.
    fn end(&mut self, choice: &Choice) {
        let _ = choice;
    }
}

impl Trace for () {}
