//! The simulator: the server's own code for steering, health evaluation and balancing in virtual time. Around it are caches that
//! send queries, and gateways that carry load and report it.
//!
//! `fairway_zones` chooses, `fairway_health` evaluates, `fairway_steering` balances; nothing of that is implemented a second time. The simulator
//! opens no socket and reads no clock. A scenario and a seed give the same run on every machine.

mod answer;
mod clients;
pub mod elsewhere;
mod flood;
mod goals;
pub mod incidents;
mod optimum;
mod paths;
mod plot;
mod pool_wire;
mod queue;
pub mod random;
mod recording;
mod rng;
mod run;
pub mod scenario;
mod scenario_wire;
mod server;
mod start;
mod steering;
mod traffic;

#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use fairway_model::{DesiredState, Name, Network, Timestamp};
use fairway_zones::ServingState;
use serde_json::Value;

use self::scenario::Scenario;
pub use self::{
    answer::Answer,
    clients::{ClientNetwork, Population},
    goals::{GoalResult, Runs},
    optimum::Optimum,
    plot::draw,
    queue::{Next, Queue},
    recording::{Drain, Recording, Sample, ScheduleChange},
    rng::Rng,
    traffic::Traffic,
};

/// Reads a scenario file.
///
/// # Errors
///
/// The errors of the file as text, one per line.
pub fn read_file(path: &Path) -> Result<Scenario, String> {
    let tree = fairway_config::read_tree(path).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("\n")
    })?;
    read(tree).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a scenario from the tree of its file.
///
/// # Errors
///
/// The first error as text.
pub fn read(tree: Value) -> Result<Scenario, String> {
    scenario_wire::read(tree)
}

/// Runs a scenario once.
pub fn run(scenario: &Scenario, seed: u64) -> Recording {
    run::Run::new(scenario, seed).run()
}

/// A query that is about to be answered.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Time, on the clock of the server.
    pub at: Timestamp,
    /// The desired state.
    pub desired: &'a Arc<DesiredState>,
    /// The state that the query is answered from.
    pub serving: &'a ServingState,
    /// Name of the query.
    pub name: &'a Name,
    /// Network of the client.
    pub client: Network,
}

/// Runs a scenario once, and calls `observe` before each query.
pub fn run_observed(scenario: &Scenario, seed: u64, observe: impl FnMut(Observed<'_>)) -> Recording {
    run::Run::new(scenario, seed).observed(observe).run()
}

/// Runs a scenario once, and records the optimum once per TTL.
pub fn run_with_optima(scenario: &Scenario, seed: u64) -> Recording {
    run::Run::new(scenario, seed).with_optima().run()
}
