//! Load from elsewhere on random geometries: a cluster carries 30 % of its capacity that no client here causes, on and off.

use std::time::Duration;

use serde_json::json;

use super::{
    Recording, Sample, random, read, run_with_optima,
    scenario::{Deployment, Scenario},
};

/// TTLs before the load comes for the first time: load control is at its optimum.
const SETTLED: u32 = 30;
/// TTLs from one time to the next. For the first half the load is there.
const PERIOD: u32 = 20;
/// Number of times.
const TIMES: u32 = 10;
/// Part of the capacity.
const PART: f64 = 0.3;
/// Most networks at the start, so that with those that arrive a run has at most 200,000.
const NETWORKS_MAX: u64 = 15_900;

/// Figures of one run. Loads are relative to the optimum: less what its highest load at that time is over 0.85.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Highest load of any cluster, from the first time that the load comes.
    pub highest: f64,
    /// The same without the first two TTLs and the lag of reports after the load comes: until then clients keep their answers.
    pub highest_after: f64,
    /// Most TTLs until the cluster was back under its target, or the highest load of the optimum; infinite if it was not while the load
    /// was there.
    pub back: f64,
    /// The same, less the lag of reports.
    pub back_after_lag: f64,
    /// Number of times that it was not back within two TTLs and the lag of reports.
    pub late: f64,
    /// The same, if up to 0.05 over its target counts as back: steady loads are over it, too.
    pub late_by_more: f64,
}

/// Draws the scenario of a seed.
///
/// # Errors
///
/// The error of [`read`]: a wrong list of servers.
pub fn draw(seed: u64, deployment: &Deployment) -> Result<Scenario, String> {
    let mut file = random::file(seed);
    let cluster = random::busiest(&file);
    let event = |at: u32, part: f64| json!({ "at": at, "elsewhere": { "cluster": cluster, "part": part } });
    let both = |start: u32| [event(start, PART), event(start + PERIOD / 2, 0.0)];
    file["events"] = starts().flat_map(both).collect();
    file["length"] = json!(SETTLED + TIMES * PERIOD);
    deployment.write(&mut file);
    let networks = &mut file["clients"]["networks"];
    *networks = json!(networks.as_u64().map(|networks| networks.min(NETWORKS_MAX)));
    read(file)
}

/// Returns the TTLs at which the load comes.
fn starts() -> impl Iterator<Item = u32> {
    (0..TIMES).map(|time| SETTLED + time * PERIOD)
}

/// Runs a scenario of [`draw`] once.
pub fn figures(scenario: &Scenario, seed: u64) -> Figures {
    let recording = run_with_optima(scenario, seed);
    let cluster = random::largest(&scenario.clients.near);
    let target = f64::from(scenario.clusters[cluster].soft.thousandths()) / 1000.0;
    let lag = scenario.reports.late.div_duration_f64(scenario.ttl);
    let ttls = |sample: &Sample| sample.at.div_duration_f64(scenario.ttl);
    let highest = |from: f64| -> f64 {
        let is_in = |ttls: f64| starts().any(|start| (from..f64::from(PERIOD)).contains(&(ttls - f64::from(start))));
        let part = recording.samples.iter().filter(|sample| is_in(ttls(sample)));
        let relative = |sample: &Sample| {
            let load = sample.loads.iter().copied().fold(0.0, f64::max);
            load - (optimum(&recording, sample.at) - 0.85).max(0.0)
        };
        part.map(relative).fold(0.0, f64::max)
    };
    let back = |start: u32, margin: f64| -> f64 {
        let part = f64::from(start)..f64::from(start + PERIOD / 2);
        let mut samples = recording.samples.iter().filter(|sample| part.contains(&ttls(sample)));
        let back = samples.find(|sample| sample.loads[cluster] <= margin + target.max(optimum(&recording, sample.at)));
        back.map_or(f64::INFINITY, |sample| ttls(sample) - f64::from(start))
    };
    let late = |margin: f64| starts().filter(|start| back(*start, margin) > 2.0 + lag).count() as f64;
    let (late, late_by_more) = (late(0.0), late(0.05));
    let back = starts().map(|start| back(start, 0.0)).fold(0.0, f64::max);
    Figures {
        highest: highest(0.0),
        highest_after: highest(2.0 + lag),
        back,
        back_after_lag: (back - lag).max(0.0),
        late,
        late_by_more,
    }
}

/// Returns the highest load of the optimum at a time: of the next one that is recorded, as the load may have come just before.
fn optimum(recording: &Recording, at: Duration) -> f64 {
    let next = recording.optima.partition_point(|(time, _)| *time < at);
    recording.optima.get(next).or_else(|| recording.optima.last()).map_or(0.0, |(_, optimum)| optimum.peak)
}
