//! `fairway simulate`: runs scenarios and prints their figures next to the goals.

mod random;

use std::{path::Path, process::ExitCode};

use anyhow::Context;

use super::{
    args::SimulateArgs,
    output::{Cell, Out, Tone, table},
};
use fairway_whatif::simulate::{self, GoalResult, Runs, scenario::Scenario};

/// Runs every scenario. With `--check` it fails if a goal is missed.
pub(super) fn simulate(out: Out, args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    if let Some(count) = args.random {
        random::simulate(out, count, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let read = |path| simulate::read_file(path).map_err(anyhow::Error::msg);
    let scenarios: Vec<Scenario> = args.scenarios.iter().map(|path| read(path)).collect::<anyhow::Result<_>>()?;
    let mut all_reached = true;
    for (path, scenario) in args.scenarios.iter().zip(&scenarios) {
        let seeds = if args.seeds.is_empty() { &scenario.seeds } else { &args.seeds };
        let runs = Runs::of_seeds(scenario, seeds);
        all_reached &= runs.reach_all_goals();
        print(out, path, scenario, &runs)?;
        if let Some(folder) = &args.svg {
            draw(folder, path, scenario, &runs)?;
        }
    }
    Ok(if args.check && !all_reached { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(out: Out, path: &Path, scenario: &Scenario, runs: &Runs) -> anyhow::Result<()> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    out.line(&format!("{name}: {}; {} seeds", scenario.title, runs.recordings.len()))?;
    let rows = runs.goals.iter().map(|result| row(scenario, result));
    Ok(out.print(&table(out.palette, 2, &["FIGURE", "FROM", "TO", "GOAL", "WORST", "SEED", ""], rows))?)
}

fn row(scenario: &Scenario, result: &GoalResult) -> Vec<Cell> {
    let ttls = |at: std::time::Duration| format!("{:.0}", at.as_secs_f64() / scenario.ttl.as_secs_f64());
    let goal = &result.goal;
    let (least, most) = (*goal.within.start(), *goal.within.end());
    let range = match (least.is_finite(), most.is_finite()) {
        (true, true) => format!("{least} to {most}"),
        (true, false) => format!(">= {least}"),
        _ => format!("<= {most}"),
    };
    let worst = result.worst.map_or_else(|| "none".to_owned(), |worst| format!("{worst:.4}"));
    let (tone, word) = if result.is_reached() { (Tone::Good, "reached") } else { (Tone::Bad, "missed") };
    vec![
        goal.figure.label(scenario).into(),
        ttls(goal.from).into(),
        ttls(goal.to).into(),
        range.into(),
        worst.into(),
        result.seed.to_string().into(),
        Cell::new(tone, word),
    ]
}

fn draw(folder: &Path, path: &Path, scenario: &Scenario, runs: &Runs) -> anyhow::Result<()> {
    let Some((seed, recording)) = runs.recordings.first() else { return Ok(()) };
    let file = folder.join(path.file_stem().unwrap_or_default()).with_extension("svg");
    let picture = simulate::draw(scenario, recording, *seed);
    std::fs::write(&file, picture).with_context(|| format!("cannot write {}", file.display()))
}
