//! The table of results: each goal with the figures of live and simulated runs, and the difference between simulator and live runs.

use std::{fmt::Write as _, time::Duration};

use fairway_whatif::simulate::{
    GoalResult, Runs,
    scenario::{Figure, Goal, Scenario},
};

use crate::{LiveQuality, ScenarioRuns};

/// Largest accepted difference between the median peaks of simulator and live runs.
const DIFFERENCE_MAX: f64 = 0.10;
/// Part of a TTL that this program may be late. Later figures are not usable.
const LATE_MAX: f64 = 0.1;

/// Returns the tables in Markdown.
pub(crate) fn text(all: &[ScenarioRuns]) -> String {
    let mut text = String::from(
        "| scenario | figure | TTLs | goal | live worst (seed) | live median | simulated worst | median | |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for runs in all {
        for (number, goal) in runs.scenario.goals.iter().enumerate() {
            text += &row(runs, number, goal);
        }
    }
    text += "\n| scenario | p99 of the second half: live median | simulated median | difference | |\n|---|---|---|---|---|\n";
    for runs in all {
        text += &peaks(runs);
    }
    text
}

fn row(runs: &ScenarioRuns, number: usize, goal: &Goal) -> String {
    let ttls = |at: Duration| at.as_secs_f64() / runs.scenario.ttl.as_secs_f64();
    // The cells of the worst value and of the median, which are empty without runs.
    let cells = |runs: &Option<Runs>| {
        let Some(runs) = runs else { return " | ".to_owned() };
        let GoalResult { goal, worst, seed } = &runs.goals[number];
        format!("{} ({seed}) | {}", value(*worst), value(median(runs, goal.figure, goal.from, goal.to)))
    };
    let is_reached = |runs: &Option<Runs>| runs.as_ref().is_none_or(|runs| runs.goals[number].is_reached());
    let verb = match [is_reached(&runs.live), is_reached(&runs.simulated)] {
        [true, true] => "reached",
        [false, true] => "**missed live**",
        [true, false] => "**missed simulated**",
        [false, false] => "**missed**",
    };
    format!(
        "| {} | {} | {:.0}–{:.0} | {} | {} | {} | {verb} |\n",
        runs.name,
        goal.figure.label(&runs.scenario),
        ttls(goal.from),
        ttls(goal.to),
        range(goal),
        cells(&runs.live),
        cells(&runs.simulated),
    )
}

fn range(goal: &Goal) -> String {
    let (least, most) = (*goal.within.start(), *goal.within.end());
    match (least.is_finite(), most.is_finite()) {
        (true, true) => format!("{least} to {most}"),
        (true, false) => format!("≥ {least}"),
        _ => format!("≤ {most}"),
    }
}

pub(crate) fn value(value: Option<f64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("{value:.3}"))
}

/// Returns the median over all seeds; `None` if a run has no such figure.
fn median(runs: &Runs, figure: Figure, from: Duration, to: Duration) -> Option<f64> {
    let values = runs.recordings.iter().map(|(_, recording)| recording.figure(figure, from, to));
    median_of(values.collect::<Option<_>>()?)
}

/// Returns the median of values; `None` without any.
pub(crate) fn median_of(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

fn peaks(runs: &ScenarioRuns) -> String {
    let peak = |runs: &Option<Runs>, length: Duration| {
        runs.as_ref().and_then(|runs| median(runs, Figure::Peak, length / 2, length))
    };
    // Live runs have other times than the scenario, since they are scaled.
    let length = |runs: &Option<Runs>, scenario: &Scenario| {
        let last = runs.as_ref().and_then(|runs| runs.recordings.first()?.1.samples.last().map(|sample| sample.at));
        last.unwrap_or(scenario.length)
    };
    let live = peak(&runs.live, length(&runs.live, &runs.scenario));
    let simulated = peak(&runs.simulated, runs.scenario.length);
    let difference = live.zip(simulated).map(|(live, simulated)| (live - simulated).abs());
    let result =
        difference.map_or("", |difference| if difference <= DIFFERENCE_MAX { "reached" } else { "**missed**" });
    format!("| {} | {} | {} | {} | {result} |\n", runs.name, value(live), value(simulated), value(difference))
}

/// Returns lines that show if the live figures are usable.
pub(crate) fn quality_text(quality: &LiveQuality, ttl: u64) -> String {
    let mut text = String::new();
    if let Some(most) = quality.held_up.iter().max() {
        let limit = Duration::from_secs(ttl).mul_f64(LATE_MAX);
        let late = quality.held_up.iter().filter(|held_up| **held_up > limit).count();
        let _ = writeln!(
            text,
            "\nTTL {ttl} s live. Of {} live runs {late} were delayed by the machine for over {limit:?} (at most {most:?}); \
             {} queries were sent again.",
            quality.held_up.len(),
            quality.lost,
        );
    }
    for failure in &quality.failures {
        let _ = writeln!(text, "\n**Failed**: {failure}");
    }
    text
}
