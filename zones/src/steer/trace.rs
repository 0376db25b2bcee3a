//! Observer of a decision. `explain` implements it; for queries it compiles to nothing.

use super::{
    answer::{Assignment, Basis, Choice, Kind},
    client_net::ClientNet,
    pool::SteerPool,
};
use crate::{client::Draw, runtime::RuntimeState, steer::answer::Candidacy};

/// Observer of [`SteerPool::choose`]. Every method has a default that does nothing, and `()` costs nothing.
pub trait Trace {
    /// Called before a decision.
    fn begin(&mut self, _pool: &SteerPool, _kind: Kind, _runtime: &RuntimeState, _client: ClientNet, _draw: Draw) {}

    /// Called before a stage. Results of an earlier stage did not lead to an answer.
    fn stage(&mut self, _basis: Basis) {}

    /// Called for each member that the stage reads, by its number.
    fn member(&mut self, _number: u8, _candidacy: Candidacy) {}

    /// Called after the choice of a pool that balances by load.
    fn assigned(&mut self, _assignment: Assignment) {}

    /// Called with the decision.
    fn end(&mut self, _choice: &Choice) {}
}

impl Trace for () {}
