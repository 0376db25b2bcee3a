//! Fuzz targets for packets, HTTP requests, webhook batches, zone text, configuration and metrics, on stable Rust.
//!
//! Mutates the inputs that had new results so far, runs them through the real code, and checks the output.
//! A result is new if the target has not reported it before (response code and sections, kinds of faults) in place of a compiler's coverage
//! counters, which stable Rust lacks. A run is a function of its seed and its corpus.
#![forbid(unsafe_code)]

pub mod config;
pub mod corpus;
#[cfg(feature = "server")]
pub mod http;
pub mod metrics;
pub mod mutate;
pub mod packet;
mod packet_check;
pub mod rng;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
pub mod webhook;
pub mod zone;

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rng::Rng;

/// Longest time that one input may take. Inputs stay under 64 kB, and the code under test is linear in them.
const INPUT_TIME_MAX: Duration = Duration::from_secs(2);

/// Maximum number of inputs that are kept because of their new results.
const POOL_MAX: usize = 4096;

/// A target: makes inputs, and checks the rules for each.
pub trait Target {
    /// Runs one input. Returns the kinds of its results as numbers, or the broken rule. A panic counts as a broken rule, too.
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String>;

    /// Mutates a kept input; `other` is a second one to take parts from.
    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8>;
}

/// Limits of a run, which ends at the first one that is reached.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum time.
    pub time: Duration,
    /// Maximum number of inputs.
    pub inputs: u64,
}

/// An input that broke a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The input, as small as possible.
    pub input: Vec<u8>,
    /// The broken rule, with details.
    pub what: String,
    /// Number of inputs tried until then.
    pub after: u64,
}

/// Summary of a run without a finding.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Number of inputs tried.
    pub inputs: u64,
    /// Number of inputs kept, with those of the corpus.
    pub kept: usize,
    /// Resident memory without the kept inputs after the warm-up, a quarter of the run, and at the end, in bytes.
    pub memory: [u64; 2],
}

impl Summary {
    /// Returns true if the memory has not grown since the warm-up, up to the bound.
    pub const fn is_memory_flat(&self) -> bool {
        self.memory[1] <= self.memory[0] + MEMORY_GROWTH_MAX
    }
}

/// Maximum growth of the memory between the warm-up and the end of a run. Short runs end before the server's histories are full: with the
/// kept inputs, the target `http` grew by 29 MiB in 12 seconds. At 10^7 inputs this shows a leak of nine bytes each.
pub const MEMORY_GROWTH_MAX: u64 = 64 << 20;

/// Returns the resident memory of this process without the kept inputs, in bytes; 0 if the system does not tell.
fn memory(kept: &[Vec<u8>]) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let resident = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1_024;
    resident.saturating_sub(kept.iter().map(|input| input.capacity() as u64).sum())
}

/// The last panic of any thread: tasks of the code under test do not pass theirs on.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Records panics instead of printing them; the checker reports them with the input.
pub fn record_panics() {
    std::panic::set_hook(Box::new(|panic| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
    }));
}

/// Fuzzes until a rule breaks or the bounds are reached.
pub fn fuzz(target: &mut dyn Target, corpus: &[Vec<u8>], seed: u64, bounds: Bounds) -> Result<Summary, Finding> {
    let mut rng = Rng::new(seed);
    let begun = Instant::now();
    let end = begun + bounds.time;
    let mut after_warm_up = None;
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
        if after_warm_up.is_none() && (inputs >= bounds.inputs / 4 || begun.elapsed() >= bounds.time / 4) {
            after_warm_up = Some(memory(&pool));
        }
        let (parent, other) = (rng.below(pool.len()), rng.below(pool.len()));
        let input = target.mutate(&mut rng, &pool[parent], &pool[other]);
        let before = seen.len();
        seen.extend(run(target, &input, inputs)?);
        if seen.len() > before && pool.len() < POOL_MAX {
            pool.push(input);
        }
    }
    let now = memory(&pool);
    Ok(Summary { inputs, kept: pool.len(), memory: [after_warm_up.unwrap_or(now), now] })
}

/// Runs one input. Panics and slowness count as broken rules.
pub fn run_once(target: &mut dyn Target, input: &[u8]) -> Result<Vec<u64>, String> {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    let taken = start.elapsed();
    if let Some(panic) = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(panic);
    }
    let outcome = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("panic: {text}"))
    });
    if taken > INPUT_TIME_MAX { Err(format!("one input of {} octets took {taken:?}", input.len())) } else { outcome }
}

/// Removes parts while the input still breaks a rule, until about `end`.
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

/// Returns the kind of an error: a hash of its words without numbers and quotations, so that errors of one kind are equal.
fn kind(what: &str) -> u64 {
    let plain = what.split_whitespace().filter(|word| word.bytes().all(|b| b.is_ascii_alphabetic()));
    plain.flat_map(str::bytes).fold(7, |hash, octet| mix(hash ^ u64::from(octet)))
}
