//! The simulator: the server's own steering, judging and balancing code in virtual time, between caches that ask and
//! gateways that carry and report. Seeded: a scenario and a seed give the same run on every machine.
//!
//! No second implementation: what chooses is `fairway_zones`, what judges and balances is `fairway_health`. It opens no
//! socket and reads no clock.

mod answer;
mod chance;
mod clients;
mod paths;
mod plot;
mod pool_wire;
mod recording;
pub mod scenario;
mod scenario_wire;
mod steering;
mod verdict;
mod world;

#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde_json::Value;

use self::scenario::Scenario;
pub use self::{
    chance::Chance,
    clients::{Network, Population, is_near},
    plot::draw,
    recording::{Drained, Recording, Sample, Turned},
    verdict::{Reached, Runs},
};

/// Reads a scenario; what is wrong with it, in words.
pub fn read_file(path: &Path) -> Result<Scenario, String> {
    let tree = fairway_config::read_tree(path).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        faults.join("\n")
    })?;
    read(tree).map_err(|what| format!("{}: {what}", path.display()))
}

/// Reads a scenario from the tree of its file; what is wrong with it, in words.
pub fn read(tree: Value) -> Result<Scenario, String> {
    scenario_wire::read(tree)
}

/// Plays a scenario once.
pub fn play(scenario: &Scenario, seed: u64) -> Recording {
    world::World::new(scenario, seed).play()
}
