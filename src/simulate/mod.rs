//! The simulator.
mod chance;
mod clients;
mod recording;
pub mod scenario;
mod steering;
mod world;

pub use recording::Recording;
use scenario::Scenario;

/// Plays a scenario once.
pub fn play(scenario: &Scenario, seed: u64) -> Recording {
    world::World::new(scenario, seed).play()
}
