//! Random scenarios, as `fairway simulate --random` draws them: the figures of the real server next to those of the simulator.

use std::{fmt::Write as _, io, time::Duration};

use fairway_whatif::simulate::{
    Recording, Runs,
    random::{self, Figures},
    scenario::{Deployment, Start},
};

use crate::{
    ScenarioRuns,
    table::{median_of, value},
};

/// Largest accepted difference between the medians of simulator and live runs.
const DIFFERENCE_MAX: f64 = 0.05;

/// A figure of the table.
struct Column {
    name: &'static str,
    figure: fn(&Figures) -> f64,
    /// True if the medians must not differ by more than [`DIFFERENCE_MAX`].
    is_bounded: bool,
}

const COLUMNS: [Column; 4] = [
    Column { name: "near / optimum", figure: |figures| figures.near, is_bounded: true },
    Column { name: "peak - that of the optimum", figure: |figures| figures.peak, is_bounded: true },
    Column { name: "changed answers", figure: |figures| figures.churn, is_bounded: true },
    Column { name: "TTLs until 95 %", figure: |figures| figures.reached, is_bounded: false },
];

/// Draws a scenario of one server for each seed, and scales its time to a TTL. The simulator runs it in this time, too: load control expects
/// demand to change as in the course of a day, so that its figures depend on the length of a second.
pub(crate) fn draw(seeds: impl Iterator<Item = u64>, ttl: Duration) -> io::Result<Vec<ScenarioRuns>> {
    let draw = |seed: u64| {
        let scenario =
            random::draw(seed, Start::Cold, &Deployment::one_server()).map_err(io::Error::other)?.scaled(ttl);
        Ok(ScenarioRuns { name: seed.to_string(), scenario, is_random: true, live: None, simulated: None })
    };
    seeds.map(draw).collect()
}

/// Returns the tables in Markdown, and true if the medians are close enough to each other.
pub(crate) fn table(all: &[ScenarioRuns]) -> (String, bool) {
    let both: Vec<(&ScenarioRuns, [Figures; 2])> = all.iter().filter_map(|runs| Some((runs, figures(runs)?))).collect();
    let mut text = String::from("| seed | clusters | networks |");
    for column in &COLUMNS {
        let _ = write!(text, " {}: live | simulated |", column.name);
    }
    text += "\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (runs, figures) in &both {
        let scenario = &runs.scenario;
        let (clusters, networks) = (scenario.clusters.len(), scenario.clients.networks);
        let _ = write!(text, "| {} | {clusters} | {networks} |", runs.name);
        for column in &COLUMNS {
            let [live, simulated] = figures.map(|figures| number((column.figure)(&figures)));
            let _ = write!(text, " {live} | {simulated} |");
        }
        text += "\n";
    }
    text += "\n| figure | live median | simulated median | difference | median of the differences | |\n|---|---|---|---|---|---|\n";
    let mut is_reached = both.len() == all.len();
    for column in &COLUMNS {
        let values: Vec<[f64; 2]> = both.iter().map(|(_, figures)| figures.map(|own| (column.figure)(&own))).collect();
        let (row, is_close) = medians(column, &values);
        text += &row;
        is_reached &= is_close;
    }
    (text, is_reached)
}

/// Returns the row of a figure, and true if the medians are close enough. `values` are the live and simulated ones of each scenario.
fn medians(column: &Column, values: &[[f64; 2]]) -> (String, bool) {
    let of = |number: usize| median_of(values.iter().map(|pair| pair[number]).collect());
    let (live, simulated) = (of(0), of(1));
    let difference = live.zip(simulated).map(|(live, simulated)| (live - simulated).abs());
    let differences =
        values.iter().map(|[live, simulated]| if live == simulated { 0.0 } else { (live - simulated).abs() });
    let is_close = !column.is_bounded || difference.is_some_and(|difference| difference <= DIFFERENCE_MAX);
    let result = match (column.is_bounded, is_close) {
        (false, _) => "",
        (true, true) => "reached",
        (true, false) => "**missed**",
    };
    let median = median_of(differences.collect());
    let cells = [live, simulated, difference, median].map(value).join(" | ");
    (format!("| {} | {cells} | {result} |\n", column.name), is_close)
}

/// Returns the live and the simulated figures of a scenario; `None` without both. The demand is the same at each time of both, so the optima of
/// the simulated run are those of the live one.
fn figures(runs: &ScenarioRuns) -> Option<[Figures; 2]> {
    let recording = |runs: &Option<Runs>| -> Option<Recording> { Some(runs.as_ref()?.recordings.first()?.1.clone()) };
    let (mut live, simulated) = (recording(&runs.live)?, recording(&runs.simulated)?);
    live.optima.clone_from(&simulated.optima);
    Some([live, simulated].map(|recording| random::figures_of(&runs.scenario, &recording)))
}

fn number(number: f64) -> String {
    if number.is_finite() { format!("{number:.3}") } else { "never".to_owned() }
}

#[cfg(test)]
mod tests {
    use fairway_whatif::simulate;

    use super::*;

    #[test]
    fn run_is_compared_with_the_optima_of_the_simulated_one() {
        let mut all = draw([77].into_iter(), Duration::from_secs(2)).unwrap();
        let runs = &mut all[0];
        assert_eq!(runs.scenario.ttl, Duration::from_secs(2));
        assert!((runs.scenario.length.as_secs_f64() - 120.0).abs() < 1e-6, "60 TTLs: {:?}", runs.scenario.length);
        runs.scenario.clients.networks = 300;
        let of = |recording| Some(Runs::of_recordings(&runs.scenario, vec![(77, recording)]));
        (runs.simulated, runs.live) =
            (of(simulate::run_with_optima(&runs.scenario, 77)), of(simulate::run(&runs.scenario, 77)));
        let [live, simulated] = figures(runs).unwrap();
        assert!(
            live.near > 0.5 && (live.near, live.peak) == (simulated.near, simulated.peak),
            "{live:?} {simulated:?}"
        );
        let (text, is_reached) = table(&all);
        assert!(is_reached && text.contains("| near / optimum |"), "{text}");
    }

    #[test]
    fn medians_that_differ_miss_the_goal() {
        let near = &COLUMNS[0];
        assert!(medians(near, &[[0.9, 0.94], [1.0, 0.91], [0.5, 0.93]]).1, "single scenarios may differ more");
        assert!(!medians(near, &[[0.9, 0.96], [0.9, 0.97], [1.0, 0.99]]).1);
        assert!(!medians(near, &[]).1, "no run");
        assert!(medians(&COLUMNS[3], &[[8.0, f64::INFINITY]]).1, "for information");
    }
}
