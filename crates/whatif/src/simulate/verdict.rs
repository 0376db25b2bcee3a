//! Runs of one scenario held against its marks: the worst seed counts.

use super::{
    Recording, play,
    scenario::{Mark, Scenario},
};

/// All runs of a scenario.
#[derive(Debug)]
pub struct Runs {
    /// By seed.
    pub recordings: Vec<(u64, Recording)>,
    /// The marks, in the order of the scenario.
    pub marks: Vec<Reached>,
}

/// A mark, and what was reached.
#[derive(Clone, Debug)]
pub struct Reached {
    /// What was asked for.
    pub mark: Mark,
    /// The figure that is farthest from it, of all seeds; none where one run has no such figure.
    pub worst: Option<f64>,
    /// The seed of that.
    pub seed: u64,
}

impl Reached {
    /// Whether every seed reached it.
    pub fn holds(&self) -> bool {
        self.worst.is_some_and(|worst| self.mark.within.contains(&worst))
    }
}

impl Runs {
    /// Plays the scenario with each seed.
    pub fn play(scenario: &Scenario, seeds: &[u64]) -> Self {
        Self::judge(scenario, seeds.iter().map(|seed| (*seed, play(scenario, *seed))).collect())
    }

    /// Holds recordings, by seed, against the marks of their scenario.
    pub fn judge(scenario: &Scenario, recordings: Vec<(u64, Recording)>) -> Self {
        let marks = scenario.marks.iter().map(|mark| worst(mark, &recordings)).collect();
        Self { recordings, marks }
    }

    /// Whether every mark holds.
    pub fn hold(&self) -> bool {
        self.marks.iter().all(Reached::holds)
    }
}

/// How far a value is outside of what is asked; the higher, the worse, also where it is inside.
fn miss(mark: &Mark, value: Option<f64>) -> f64 {
    let Some(value) = value else { return f64::INFINITY };
    (value - mark.within.end()).max(mark.within.start() - value)
}

fn worst(mark: &Mark, recordings: &[(u64, Recording)]) -> Reached {
    let figure = |(seed, recording): &(u64, Recording)| (*seed, recording.figure(mark.figure, mark.from, mark.to));
    let all = recordings.iter().map(figure);
    let worst = all.max_by(|a, b| miss(mark, a.1).total_cmp(&miss(mark, b.1)));
    let (seed, worst) = worst.unwrap_or((0, None));
    Reached { mark: mark.clone(), worst, seed }
}
