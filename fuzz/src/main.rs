//! `fairway-fuzz TARGET [--seconds N] [--inputs N] [--seed N] [FILE…]`: fuzzes one target, or runs the files given.
//!
//! Runs until the first bound that is given, or for a minute without one.
//! Ends with 0 when the bounds are reached, with 1 when a rule was broken: the input is printed and kept.

use std::{process::ExitCode, time::Duration};

use fairway_fuzz::{Bounds, MEMORY_GROWTH_MAX, Target, config, corpus, fuzz, metrics, packet, run_once, zone};
#[cfg(feature = "server")]
use fairway_fuzz::{http, webhook};

/// Options of the command line.
struct Options {
    target: String,
    bounds: Bounds,
    seed: u64,
    files: Vec<String>,
}

/// Bound of a run that has a number of inputs only: 30 days, as the clock cannot add every number.
const SECONDS_MAX: u64 = 30 * 24 * 60 * 60;

fn main() -> ExitCode {
    let options = match read_arguments(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(fault) => {
            eprintln!(
                "{fault}\nusage: fairway-fuzz packet|http|webhook|zone|config|metrics [--seconds N] [--inputs N] [--seed N] [FILE…]"
            );
            return ExitCode::from(2);
        }
    };
    fairway_fuzz::record_panics();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn read_arguments(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut arguments = arguments.peekable();
    let target = arguments.next().ok_or("name a target")?;
    let (mut seconds, mut inputs, mut seed, mut files) = (None, None, 1, vec![]);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{value:?} is no number"))
        };
        match argument.as_str() {
            "--seconds" => seconds = Some(number()?),
            "--inputs" => inputs = Some(number()?),
            "--seed" => seed = number()?,
            flag if flag.starts_with('-') => return Err(format!("{flag} is not known")),
            file => files.push(file.to_owned()),
        }
    }
    let seconds = seconds.unwrap_or_else(|| if inputs.is_some() { SECONDS_MAX } else { 60 });
    let bounds = Bounds { time: Duration::from_secs(seconds), inputs: inputs.unwrap_or(u64::MAX) };
    Ok(Options { target, bounds, seed, files })
}

fn run(options: &Options) -> Result<(), String> {
    let mut target: Box<dyn Target> = match options.target.as_str() {
        "packet" => Box::new(packet::Packets::new()),
        #[cfg(feature = "server")]
        "http" => Box::new(http::Requests::new()?),
        #[cfg(feature = "server")]
        "webhook" => Box::new(webhook::Batches::new()?),
        "zone" => Box::new(zone::ZoneText::new()),
        "config" => Box::new(config::ConfigText::new().map_err(|e| e.to_string())?),
        "metrics" => Box::new(metrics::Metrics::default()),
        other => {
            return Err(format!(
                "{other:?} is no target: packet, zone, config, metrics; http and webhook with the feature server"
            ));
        }
    };
    for file in &options.files {
        let input = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
        let shown = run_once(&mut *target, &input).map_err(|what| format!("{file}: {what}"))?;
        println!("{file}: holds, and shows {shown:016x?}");
    }
    if !options.files.is_empty() {
        return Ok(());
    }
    let inputs = corpus::load(&options.target).map_err(|e| e.to_string())?;
    println!("{}: seed {}, {} inputs of the corpus", options.target, options.seed, inputs.len());
    match fuzz(&mut *target, &inputs, options.seed, options.bounds) {
        Ok(summary) => {
            let [warm, end] = summary.memory.map(|bytes| bytes as f64 / f64::from(1 << 20));
            println!(
                "{}: {} inputs, {} kept, no rule broken; memory {warm:.1} MiB after the warm-up, {end:.1} at the end (at most {} more)",
                options.target,
                summary.inputs,
                summary.kept,
                MEMORY_GROWTH_MAX >> 20
            );
            match summary.is_memory_flat() {
                true => Ok(()),
                false => Err(format!("{}: memory grew by more than {} MiB", options.target, MEMORY_GROWTH_MAX >> 20)),
            }
        }
        Err(finding) => {
            let path = corpus::keep(&options.target, &finding.input).map_err(|e| e.to_string())?;
            let shown = String::from_utf8_lossy(&finding.input).into_owned();
            let hex = fairway_integration::present::hex(&finding.input);
            let (after, what) = (finding.after, &finding.what);
            Err(format!(
                "{}: seed {}: after {after} inputs: {what}\ninput ({}): {shown:?}\n  {hex}",
                options.target,
                options.seed,
                path.display()
            ))
        }
    }
}
