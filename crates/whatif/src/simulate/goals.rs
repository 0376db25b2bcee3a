//! Results of several runs of a scenario, compared with its goals. The worst seed counts.

use super::{
    Recording, run,
    scenario::{Goal, Scenario},
};

/// All runs of a scenario.
#[derive(Debug)]
pub struct Runs {
    /// Seed and recording of each run.
    pub recordings: Vec<(u64, Recording)>,
    /// Results in the order of the scenario's goals.
    pub goals: Vec<GoalResult>,
}

/// A goal with the worst figure of all runs.
#[derive(Clone, Debug)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// Figure that is farthest from the goal; `None` if a run has no such figure.
    pub worst: Option<f64>,
    /// Seed of the run with that figure.
    pub seed: u64,
}

impl GoalResult {
    /// True if every seed reached the goal.
    pub fn is_reached(&self) -> bool {
        self.worst.is_some_and(|worst| self.goal.within.contains(&worst))
    }
}

impl Runs {
    /// Runs the scenario once per seed.
    pub fn of_seeds(scenario: &Scenario, seeds: &[u64]) -> Self {
        Self::of_recordings(scenario, seeds.iter().map(|seed| (*seed, run(scenario, *seed))).collect())
    }

    /// Compares recordings, each with its seed, with the goals of their scenario.
    pub fn of_recordings(scenario: &Scenario, recordings: Vec<(u64, Recording)>) -> Self {
        let goals = scenario.goals.iter().map(|goal| worst(goal, &recordings)).collect();
        Self { recordings, goals }
    }

    /// True if every goal is reached.
    pub fn reach_all_goals(&self) -> bool {
        self.goals.iter().all(GoalResult::is_reached)
    }
}

fn worst(goal: &Goal, recordings: &[(u64, Recording)]) -> GoalResult {
    let figure = |(seed, recording): &(u64, Recording)| (*seed, recording.figure(goal.figure, goal.from, goal.to));
    let all = recordings.iter().map(figure);
    let worst = all.max_by(|a, b| distance(goal, a.1).total_cmp(&distance(goal, b.1)));
    let (seed, worst) = worst.unwrap_or((0, None));
    GoalResult { goal: goal.clone(), worst, seed }
}

/// Returns how far a value is outside the goal; negative inside. A missing value is infinitely far.
fn distance(goal: &Goal, value: Option<f64>) -> f64 {
    let Some(value) = value else { return f64::INFINITY };
    (value - goal.within.end()).max(goal.within.start() - value)
}
