//! `fairway simulate`: runs scenarios and prints their figures next to the goals.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    process::ExitCode,
};

use anyhow::Context;

use super::{
    args::SimulateArgs,
    output::{Cell, Out, Tone, table},
};
use fairway_whatif::simulate::{
    self, GoalResult, Runs,
    random::{self, Figures},
    scenario::Scenario,
};

/// Runs every scenario. With `--check` it fails if a goal is missed.
pub(super) fn simulate(out: Out, args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    if let Some(count) = args.random {
        return simulate_random(out, count, args.seed);
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

/// Runs random scenarios and prints how close they come to the optimum.
fn simulate_random(out: Out, count: u64, seed: Option<u64>) -> anyhow::Result<ExitCode> {
    let first = seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()) >> 32);
    out.line(&format!("{count} random scenarios, seeds {first} to {}", first.saturating_add(count.saturating_sub(1))))?;
    let mut all = Vec::new();
    for seed in (first..).take(count as usize) {
        let scenario = random::draw(seed).map_err(anyhow::Error::msg)?;
        all.push((seed, random::figures(&scenario, seed)));
    }
    let row = |name: &str, is_low_bad: bool, figure: &dyn Fn(&Figures) -> f64| {
        let mut values: Vec<(f64, u64)> = all.iter().map(|(seed, figures)| (figure(figures), *seed)).collect();
        values.sort_by(|a, b| if is_low_bad { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
        let value = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
        let text = |value: f64| if value.is_finite() { format!("{value:.3}") } else { "never".to_owned() };
        let (worst, seed) = value(1.0);
        vec![
            name.into(),
            text(value(0.5).0).into(),
            text(value(0.9).0).into(),
            text(worst).into(),
            seed.to_string().into(),
        ]
    };
    if all.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let rows = [
        row("near / optimum", true, &|figures| figures.near),
        row("near / bound of divided networks", true, &|figures| figures.near_to_bound),
        row("peak - that of the optimum", false, &|figures| figures.peak),
        row("highest load after the first TTL", false, &|figures| figures.highest),
        row("TTLs over 1.1", false, &|figures| figures.overload),
        row("TTLs until 95 % of the optimum", false, &|figures| figures.reached),
        row("answers changed that could have stayed", false, &|figures| figures.churn),
        row("peak of the optimum", false, &|figures| figures.optimum_peak),
    ];
    out.print(&table(out.palette, 1, &["FIGURE", "MEDIAN", "90 %", "WORST", "SEED"], rows))?;
    Ok(ExitCode::SUCCESS)
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
