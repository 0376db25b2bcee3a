//! Plays the scenarios of `bench/scenarios` against the running server, in scaled time, and in the simulator; prints both
//! beside the marks. `bench/steering` builds what is needed and calls it.

mod gateway;
mod live;
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
use fairway_whatif::simulate::{
    self, Recording, Runs,
    scenario::{Mark, Scenario},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    task::JoinSet,
};

use crate::live::Outcome;

/// Compares steering with its goals, on the running server and in the simulator. Exit status 1 if a goal is missed.
#[derive(Parser)]
struct Options {
    /// Scenarios.
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
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
    /// Live runs at once.
    #[arg(long, default_value_t = 6)]
    at_once: usize,
    /// The running server only.
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
struct Played {
    name: String,
    scenario: Scenario,
    live: Option<Runs>,
    simulated: Option<Runs>,
}

/// Figures about all live runs together.
#[derive(Default)]
struct Conduct {
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
        // What was started ends with what is dropped here.
        _ = interrupt.recv() => Ok(ExitCode::from(130)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

async fn run(options: &Options) -> io::Result<ExitCode> {
    let mut all = Vec::new();
    for path in &options.scenarios {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if options.only.is_empty() || options.only.contains(&name) {
            let mut scenario = simulate::read_file(path).map_err(io::Error::other)?;
            if !options.seeds.is_empty() {
                scenario.seeds.clone_from(&options.seeds);
            }
            all.push(Played { name, scenario, live: None, simulated: None });
        }
    }
    let mut conduct = Conduct::default();
    // First what takes the whole processor, then what must not be held up.
    if !options.live {
        all = tokio::task::spawn_blocking(|| simulated(all)).await?;
    }
    if !options.simulated {
        live(options, &mut all, &mut conduct).await?;
    }
    let text = table::text(&all, &conduct, options.ttl);
    io::stdout().write_all(text.as_bytes())?;
    if let Some(out) = &options.out {
        fs::write(out, format!("{}\n{text}", options.head))?;
    }
    let holds = all.iter().all(|played| [&played.live, &played.simulated].into_iter().flatten().all(Runs::hold));
    Ok(if holds && conduct.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays everything in the simulator, one after the other.
fn simulated(mut all: Vec<Played>) -> Vec<Played> {
    for played in &mut all {
        played.simulated = Some(Runs::play(&played.scenario, &played.scenario.seeds));
    }
    all
}

/// Plays everything against servers, some runs at once.
async fn live(options: &Options, all: &mut [Played], conduct: &mut Conduct) -> io::Result<()> {
    let ttl = Duration::from_secs(options.ttl);
    let places = Arc::new(Semaphore::new(options.at_once.max(1)));
    let mut runs: JoinSet<(usize, u64, io::Result<Outcome>)> = JoinSet::new();
    for (number, played) in all.iter().enumerate() {
        let scenario = Arc::new(scaled(&played.scenario, ttl));
        for seed in played.scenario.seeds.clone() {
            let (scenario, places, program) = (Arc::clone(&scenario), Arc::clone(&places), options.server.clone());
            runs.spawn(async move {
                let _place = places.acquire().await;
                (number, seed, live::play(&program, &scenario, seed).await)
            });
        }
    }
    let mut recordings: Vec<Vec<(u64, Recording)>> = all.iter().map(|_| Vec::new()).collect();
    while let Some(ended) = runs.join_next().await {
        let (number, seed, outcome) = ended?;
        match outcome {
            Ok(outcome) => {
                conduct.lost += outcome.lost;
                conduct.held_up.push(outcome.held_up);
                eprintln!("steering: {} seed {seed}: done, {} runs left", all[number].name, runs.len());
                recordings[number].push((seed, outcome.recording));
            }
            Err(error) => conduct.failures.push(format!("{} seed {seed}: {error}", all[number].name)),
        }
    }
    for (played, mut recordings) in all.iter_mut().zip(recordings) {
        recordings.sort_by_key(|(seed, _)| *seed);
        let scenario = scaled(&played.scenario, ttl);
        if let (Some(folder), Some((seed, recording))) = (&options.svg, recordings.first()) {
            let picture = simulate::draw(&scenario, recording, *seed);
            fs::write(folder.join(&played.name).with_extension("svg"), picture)?;
        }
        played.live = Some(Runs::judge(&scenario, recordings));
    }
    Ok(())
}

/// The same in another TTL.
fn scaled(scenario: &Scenario, ttl: Duration) -> Scenario {
    let factor = ttl.as_secs_f64() / scenario.ttl.as_secs_f64();
    let time = |time: Duration| time.mul_f64(factor);
    let mut scaled = scenario.clone();
    scaled.ttl = ttl;
    for span in [&mut scaled.length, &mut scaled.reports.every, &mut scaled.reports.late, &mut scaled.probes.period] {
        *span = time(*span);
    }
    scaled.events.iter_mut().for_each(|(at, _)| *at = time(*at));
    scaled.marks.iter_mut().for_each(|mark| *mark = Mark { from: time(mark.from), to: time(mark.to), ..mark.clone() });
    scaled
}
