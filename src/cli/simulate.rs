//! `fairway simulate`: runs scenarios and prints their figures next to the goals.

mod random;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};

use super::output::{Cell, Out, Tone, table};
use fairway_whatif::simulate::{self, GoalResult, Runs, scenario::Scenario};

/// Simulate traffic, to test steering and load control in virtual time.
///
/// Caches send queries, gateways carry load and report it late, and the events of the scenario happen. The code that answers,
/// evaluates health and balances is that of the server. Prints the figures that the scenario sets goals for, each from the worst
/// seed. Minutes of traffic take seconds, and a seed gives the same run on every machine.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway simulate bench/scenarios/steady.yaml
  fairway simulate --check bench/scenarios/*.yaml bench/scenarios/policies/*.yaml
  fairway simulate --seeds 7,8,9 --svg /tmp bench/scenarios/death.yaml
  fairway simulate --random 20 --rows death,drain --seed 7
  fairway simulate --random 200 --rows all

Exit status:
  0  success; without --check also if a goal is missed
  1  with --check: a goal is missed; or the command failed, and the reason is on standard error
  2  the command line is invalid")]
pub(super) struct SimulateArgs {
    /// Scenario files; docs/reference/scenario.md describes the format.
    #[arg(value_name = "SCENARIO", required_unless_present = "random", value_hint = ValueHint::FilePath)]
    scenarios: Vec<PathBuf>,

    /// Draw this many scenarios at random, and compare their figures with the optimum.
    #[arg(long, value_name = "N", conflicts_with_all = ["scenarios", "seeds", "svg", "check"])]
    random: Option<u64>,

    /// Seed of the first random scenario; the next ones have the following numbers. Random by default, and printed.
    #[arg(long, value_name = "SEED", requires = "random")]
    seed: Option<u64>,

    /// Groups of rows of the table for random scenarios; each runs every scenario once or twice, `elsewhere` four times as long.
    #[arg(long, value_name = "GROUP,...", value_delimiter = ',', default_value = "cold", requires = "random")]
    rows: Vec<RowGroup>,

    /// Simulate several servers, that are queried by these parts of the client networks, such as 0.7,0.3.
    #[arg(long, value_name = "PART,PART,...", value_delimiter = ',', requires = "random")]
    servers: Vec<f64>,

    /// Let the servers share a store: the first of them leads.
    #[arg(long, requires = "servers")]
    shared_store: bool,

    /// Let load control know all demand of clients at once, instead of learning it from reports: the difference is what it does not know.
    #[arg(long, requires = "random")]
    informed: bool,

    /// Seeds, instead of those of the scenario.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    seeds: Vec<u64>,

    /// Draw the first seed of each scenario into this folder, as SCENARIO.svg.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    svg: Option<PathBuf>,

    /// Exit status 1 if a goal of a scenario is missed.
    #[arg(long)]
    check: bool,
}

/// Group of rows of the table for random scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RowGroup {
    /// Every group.
    All,
    /// A cold start.
    Cold,
    /// A start with everything on one cluster.
    One,
    /// A start with the mirror image of the optimum: clients at their farthest clusters.
    Mirror,
    /// A cluster dies and returns.
    Death,
    /// The demand near a cluster grows.
    Step,
    /// Load reports are lost, then back.
    Reports,
    /// A gateway reports 0.
    Liar,
    /// A gateway reports its last load for ever.
    Frozen,
    /// A cluster is drained.
    Drain,
    /// The server restarts, with its state and without.
    Restart,
    /// A cluster carries load from elsewhere, on and off.
    Elsewhere,
    /// Two servers without a shared store, compared with one.
    Servers,
    /// Two servers with a shared store, compared with one.
    SharedStore,
}

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
