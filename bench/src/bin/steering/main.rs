//! Runs the scenarios of `bench/scenarios`, or random ones, against the real server, in scaled time, and in the simulator. Prints the figures
//! of both next to the goals, or next to each other. `bench/steering` builds what is needed and calls it.

mod gateway;
mod live;
mod random;
mod server;
mod table;

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Parser;
use fairway_control::on_all_cores;
use fairway_whatif::simulate::{self, Recording, Runs, scenario::Scenario};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    task::JoinSet,
};

use crate::live::Outcome;

/// Compares steering with its goals, on the real server and in the simulator. Exit status 1 if a goal is missed.
#[derive(Parser)]
struct Options {
    /// Scenarios.
    #[arg(required_unless_present = "random")]
    scenarios: Vec<PathBuf>,
    /// Draw this many scenarios, as `fairway simulate --random` does.
    #[arg(long, requires = "seed", conflicts_with_all = ["scenarios", "seeds", "only", "live", "simulated"])]
    random: Option<u64>,
    /// Seed of the first random scenario; the next ones have the following numbers.
    #[arg(long, requires = "random")]
    seed: Option<u64>,
    /// The server's program.
    #[arg(long, default_value = "target/dist/fairway")]
    server: PathBuf,
    /// Seeds, in place of those of the scenarios.
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Scenarios by name, of those given.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// TTL of a live run, in whole seconds; every other time keeps its ratio to it.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    ttl: u64,
    /// Number of concurrent live runs.
    #[arg(long, default_value_t = 6)]
    at_once: usize,
    /// The real server only.
    #[arg(long, conflicts_with = "simulated")]
    live: bool,
    /// The simulator only.
    #[arg(long)]
    simulated: bool,
    /// File that the table is written to as well.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Text above the table in that file: date, commit, machine.
    #[arg(long, default_value = "")]
    head: String,
    /// Folder for pictures of the first live run of each scenario.
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// A scenario and its results.
struct ScenarioRuns {
    name: String,
    scenario: Scenario,
    /// True if it was drawn: it has no goals, and its figures are relative to the optimum.
    is_random: bool,
    live: Option<Runs>,
    simulated: Option<Runs>,
}

/// Quality of all live runs together.
#[derive(Default)]
struct LiveQuality {
    lost: u64,
    held_up: Vec<Duration>,
    failures: Vec<String>,
}

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let options = Options::parse();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        status = run(&options) => status,
        // Dropping the other branch ends the servers.
        _ = interrupt.recv() => Ok(ExitCode::from(130)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

async fn run(options: &Options) -> io::Result<ExitCode> {
    let mut all = match (options.random, options.seed) {
        (Some(count), Some(first)) => random::draw((first..).take(count as usize), Duration::from_secs(options.ttl))?,
        _ => read(options)?,
    };
    let mut quality = LiveQuality::default();
    // The simulator first, since it takes the whole processor, and live runs must not be delayed.
    if !options.live {
        all = tokio::task::spawn_blocking(|| simulated(all)).await?;
    }
    if !options.simulated {
        live(options, &mut all, &mut quality).await?;
    }
    let (table, is_reached) = match options.random {
        Some(_) => random::table(&all),
        None => (table::text(&all), goals_are_reached(&all)),
    };
    let text = table + &table::quality_text(&quality, options.ttl);
    io::stdout().write_all(text.as_bytes())?;
    if let Some(out) = &options.out {
        fs::write(out, format!("{}\n{text}", options.head))?;
    }
    Ok(if is_reached && quality.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn goals_are_reached(all: &[ScenarioRuns]) -> bool {
    all.iter().flat_map(|runs| [&runs.live, &runs.simulated]).flatten().all(Runs::reach_all_goals)
}

/// Reads the scenarios that were asked for.
fn read(options: &Options) -> io::Result<Vec<ScenarioRuns>> {
    let mut all = Vec::new();
    for path in &options.scenarios {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if options.only.is_empty() || options.only.contains(&name) {
            let mut scenario = simulate::read_file(path).map_err(io::Error::other)?;
            if !options.seeds.is_empty() {
                scenario.seeds.clone_from(&options.seeds);
            }
            all.push(ScenarioRuns { name, scenario, is_random: false, live: None, simulated: None });
        }
    }
    Ok(all)
}

/// Runs all scenarios in the simulator, on all cores.
fn simulated(all: Vec<ScenarioRuns>) -> Vec<ScenarioRuns> {
    on_all_cores(all, |runs| {
        let play = if runs.is_random { simulate::run_with_optima } else { simulate::run };
        let recordings = runs.scenario.seeds.iter().map(|seed| (*seed, play(&runs.scenario, *seed))).collect();
        let simulated = Runs::of_recordings(&runs.scenario, recordings);
        eprintln!("steering: {}: simulated", runs.name);
        ScenarioRuns { simulated: Some(simulated), ..runs }
    })
}

/// Runs all scenarios against real servers, several at once.
async fn live(options: &Options, all: &mut [ScenarioRuns], quality: &mut LiveQuality) -> io::Result<()> {
    let ttl = Duration::from_secs(options.ttl);
    let slots = Arc::new(Semaphore::new(options.at_once.max(1)));
    let mut runs: JoinSet<(usize, u64, io::Result<Outcome>)> = JoinSet::new();
    for (number, of_scenario) in all.iter().enumerate() {
        let scenario = Arc::new(of_scenario.scenario.scaled(ttl));
        for seed in of_scenario.scenario.seeds.clone() {
            let (scenario, slots, program) = (Arc::clone(&scenario), Arc::clone(&slots), options.server.clone());
            runs.spawn(async move {
                let _slot = slots.acquire().await;
                (number, seed, live::run(&program, &scenario, seed).await)
            });
        }
    }
    let mut recordings: Vec<Vec<(u64, Recording)>> = all.iter().map(|_| Vec::new()).collect();
    while let Some(ended) = runs.join_next().await {
        let (number, seed, outcome) = ended?;
        match outcome {
            Ok(outcome) => {
                quality.lost += outcome.lost;
                quality.held_up.push(outcome.held_up);
                eprintln!("steering: {} seed {seed}: done, {} runs left", all[number].name, runs.len());
                recordings[number].push((seed, outcome.recording));
            }
            Err(error) => quality.failures.push(format!("{} seed {seed}: {error}", all[number].name)),
        }
    }
    for (of_scenario, mut recordings) in all.iter_mut().zip(recordings) {
        recordings.sort_by_key(|(seed, _)| *seed);
        let scenario = of_scenario.scenario.scaled(ttl);
        if let (Some(folder), Some((seed, recording))) = (&options.svg, recordings.first()) {
            let picture = simulate::draw(&scenario, recording, *seed);
            fs::write(folder.join(&of_scenario.name).with_extension("svg"), picture)?;
        }
        of_scenario.live = Some(Runs::of_recordings(&scenario, recordings));
    }
    Ok(())
}
