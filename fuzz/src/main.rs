//! `fairway-fuzz TARGET [--seconds N] [--inputs N] [--seed N] [FILE…]`: fuzzes one target, or runs the files given.
//!
//! Ends with 0 when the bounds are reached, with 1 when a rule was broken: the input is printed and kept.

use std::{process::ExitCode, time::Duration};

use fairway_fuzz::{Bounds, Target, config, corpus, fuzz, metrics, packet, run_once, zone};

/// Options of the command line.
struct Options {
    target: String,
    bounds: Bounds,
    seed: u64,
    files: Vec<String>,
}

fn main() -> ExitCode {
    let options = match read_arguments(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(fault) => {
            eprintln!(
                "{fault}\nusage: fairway-fuzz packet|zone|config|metrics [--seconds N] [--inputs N] [--seed N] [FILE…]"
            );
            return ExitCode::from(2);
        }
    };
    // The checker tells of panics itself, with the input.
    std::panic::set_hook(Box::new(|_| {}));
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
    let bounds = Bounds { time: Duration::from_secs(60), inputs: 1_000_000 };
    let mut options = Options { target, bounds, seed: 1, files: vec![] };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{value:?} is no number"))
        };
        match argument.as_str() {
            "--seconds" => options.bounds.time = Duration::from_secs(number()?),
            "--inputs" => options.bounds.inputs = number()?,
            "--seed" => options.seed = number()?,
            flag if flag.starts_with('-') => return Err(format!("{flag} is not known")),
            file => options.files.push(file.to_owned()),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), String> {
    let mut target: Box<dyn Target> = match options.target.as_str() {
        "packet" => Box::new(packet::Packets::new()),
        "zone" => Box::new(zone::ZoneText::new()),
        "config" => Box::new(config::ConfigText::new().map_err(|e| e.to_string())?),
        "metrics" => Box::new(metrics::Metrics::default()),
        other => return Err(format!("{other:?} is no target: packet, zone, config, metrics")),
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
            println!("{}: {} inputs, {} kept, no rule broken", options.target, summary.inputs, summary.kept);
            Ok(())
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
