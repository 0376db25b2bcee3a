//! Fuzz targets for packets, zone text, configuration and metrics, on stable Rust.
//!
//! Mutates inputs that looked new so far, runs them through the real code, and checks the output.
//! New is what a target reports as not seen before (response code and sections, kinds of faults) in place of a compiler's coverage counters, which stable Rust lacks. A run is a function of its seed and its corpus.
#![forbid(unsafe_code)]

pub mod config;
pub mod corpus;
pub mod metrics;
pub mod mutate;
pub mod packet;
mod packet_check;
pub mod rng;
pub mod zone;

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use rng::Rng;

/// Longest time that one input may take. Inputs stay under 64 kB, and the code under test is linear in them.
const INPUT_TIME_MAX: Duration = Duration::from_secs(2);

/// Most inputs that are kept because they looked new.
const POOL_MAX: usize = 4096;

/// A target: makes inputs, and states what must hold for each.
pub trait Target {
    /// Runs one input. Gives what it showed, one number a kind, or what rule was broken. A panic is a broken rule, too.
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String>;

    /// Makes a new input out of one that was kept; `other` is a second one to take parts from.
    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8>;
}

/// When a run ends, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time that it may take.
    pub time: Duration,
    /// Inputs that it may try.
    pub inputs: u64,
}

/// An input that broke a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The input, made as small as it still breaks the rule.
    pub input: Vec<u8>,
    /// Which rule, and how.
    pub what: String,
    /// Number of inputs tried until then.
    pub after: u64,
}

/// Summary of a run without a finding.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Inputs tried.
    pub inputs: u64,
    /// Inputs kept, the corpus included.
    pub kept: usize,
}

/// Fuzzes until a rule breaks or the bounds are reached.
pub fn fuzz(target: &mut dyn Target, corpus: &[Vec<u8>], seed: u64, bounds: Bounds) -> Result<Summary, Finding> {
    let mut rng = Rng::new(seed);
    let end = Instant::now() + bounds.time;
    let mut seen = HashSet::new();
    let mut pool: Vec<Vec<u8>> = Vec::new();
    let mut inputs = 0;
    let run = |target: &mut dyn Target, input: &[u8], inputs| {
        let outcome = run_once(target, input);
        outcome.map_err(|what| Finding { input: minimise(target, input, end), what, after: inputs })
    };
    for input in corpus {
        inputs += 1;
        seen.extend(run(target, input, inputs)?);
        pool.push(input.clone());
    }
    if pool.is_empty() {
        pool.push(Vec::new());
    }
    while inputs < bounds.inputs && Instant::now() < end {
        inputs += 1;
        let (parent, other) = (rng.below(pool.len()), rng.below(pool.len()));
        let input = target.mutate(&mut rng, &pool[parent], &pool[other]);
        let before = seen.len();
        seen.extend(run(target, &input, inputs)?);
        if seen.len() > before && pool.len() < POOL_MAX {
            pool.push(input);
        }
    }
    Ok(Summary { inputs, kept: pool.len() })
}

/// Runs one input. Panics and slowness count as broken rules.
pub fn run_once(target: &mut dyn Target, input: &[u8]) -> Result<Vec<u64>, String> {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    let taken = start.elapsed();
    let outcome = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("panic: {text}"))
    });
    if taken > INPUT_TIME_MAX { Err(format!("one input of {} octets took {taken:?}", input.len())) } else { outcome }
}

/// Cuts pieces off while the input still breaks a rule; never past `end` by much.
fn minimise(target: &mut dyn Target, input: &[u8], end: Instant) -> Vec<u8> {
    let end = end.max(Instant::now() + Duration::from_secs(5));
    let mut best = input.to_vec();
    let mut piece = best.len() / 2;
    while piece > 0 && Instant::now() < end {
        let mut at = 0;
        while at + piece <= best.len() && Instant::now() < end {
            let shorter = [&best[..at], &best[at + piece..]].concat();
            if run_once(target, &shorter).is_err() {
                best = shorter;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    best
}

/// Spreads the bits of a number.
fn mix(value: u64) -> u64 {
    Rng::new(value).number()
}

/// The kind of a fault: its words, with numbers and quotations left out, so that two of a kind look alike.
fn kind(what: &str) -> u64 {
    let plain = what.split_whitespace().filter(|word| word.bytes().all(|b| b.is_ascii_alphabetic()));
    plain.flat_map(str::bytes).fold(7, |hash, octet| mix(hash ^ u64::from(octet)))
}
