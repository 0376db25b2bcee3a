//! `fairway simulate`: plays scenarios and prints what was reached beside what is asked for.

use std::{path::Path, process::ExitCode};

use anyhow::Context;

use super::{
    args::SimulateArgs,
    output::{Cell, Out, Tone, table},
};
use fairway_whatif::simulate::{self, Reached, Runs, scenario::Scenario};

/// Plays every scenario; tells by the exit status whether the marks hold, where that is asked.
pub(super) fn simulate(out: Out, args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let scenarios = args.scenarios.iter().map(|path| Ok((path, read(path)?)));
    let scenarios = scenarios.collect::<anyhow::Result<Vec<_>>>()?;
    let mut holds = true;
    for (path, scenario) in &scenarios {
        let seeds = if args.seeds.is_empty() { &scenario.seeds } else { &args.seeds };
        let runs = Runs::play(scenario, seeds);
        holds &= runs.hold();
        show(out, path, scenario, &runs)?;
        if let Some(folder) = &args.svg {
            draw(folder, path, scenario, &runs)?;
        }
    }
    Ok(if args.check && !holds { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn read(path: &Path) -> anyhow::Result<Scenario> {
    simulate::read_file(path).map_err(anyhow::Error::msg)
}

fn show(out: Out, path: &Path, scenario: &Scenario, runs: &Runs) -> anyhow::Result<()> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    out.line(&format!("{name}: {}; {} seeds", scenario.title, runs.recordings.len()))?;
    let rows: Vec<Vec<Cell>> = runs.marks.iter().map(|reached| row(scenario, reached)).collect();
    out.print(&table(out.palette, 2, &["FIGURE", "FROM", "TO", "ASKED", "WORST", "SEED", ""], &rows))?;
    Ok(())
}

fn row(scenario: &Scenario, reached: &Reached) -> Vec<Cell> {
    let ttls = |at: std::time::Duration| format!("{:.0}", at.as_secs_f64() / scenario.ttl.as_secs_f64());
    let (least, most) = (*reached.mark.within.start(), *reached.mark.within.end());
    let asked = match (least.is_finite(), most.is_finite()) {
        (true, true) => format!("{least} to {most}"),
        (true, false) => format!(">= {least}"),
        _ => format!("<= {most}"),
    };
    let worst = reached.worst.map_or_else(|| "none".to_owned(), |worst| format!("{worst:.4}"));
    let (tone, word) = if reached.holds() { (Tone::Good, "reached") } else { (Tone::Bad, "missed") };
    let plain = |text: String| Cell::new(Tone::Plain, text);
    vec![
        plain(reached.mark.figure.shown(scenario)),
        plain(ttls(reached.mark.from)),
        plain(ttls(reached.mark.to)),
        plain(asked),
        plain(worst),
        plain(reached.seed.to_string()),
        Cell::new(tone, word),
    ]
}

fn draw(folder: &Path, path: &Path, scenario: &Scenario, runs: &Runs) -> anyhow::Result<()> {
    let Some((seed, recording)) = runs.recordings.first() else { return Ok(()) };
    let file = folder.join(path.file_stem().unwrap_or_default()).with_extension("svg");
    let picture = simulate::draw(scenario, recording, *seed);
    std::fs::write(&file, picture).with_context(|| format!("{}: cannot be written", file.display()))
}
