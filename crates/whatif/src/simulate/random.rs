//! Random geometries: scenarios that nobody tuned load control for, and how close to the optimum it gets.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Recording, Rng, read, run_with_optima,
    scenario::{Deployment, Scenario, Start},
};

/// Length of a run in TTLs.
const LENGTH: f64 = 60.0;
/// TTLs after which load control should be at its optimum.
const SETTLED: f64 = 30.0;

/// Draws a scenario: 2 to 16 clusters whose capacities differ by up to 20, up to three of them nearest to nobody; 200 to 20,000 networks
/// whose demand follows Zipf's law with an exponent of 0.4 to 1, of which others take the place of 5 % per TTL; TTLs of 5 to 120 s; reports
/// every sixth of a TTL to every TTL, up to a TTL late, with errors up to 20 %; up to 9 % of networks that keep answers for five TTLs; and
/// a demand that swings by 40 % in an hour, at most 50 to 90 % of the capacity.
///
/// # Errors
///
/// The error of [`read`]: a wrong list of servers. All that is drawn is in its range.
pub fn draw(seed: u64, start: Start, deployment: &Deployment) -> Result<Scenario, String> {
    let mut file = file(seed);
    file["start"] = json!(<&str>::from(start));
    deployment.write(&mut file);
    read(file)
}

/// Draws the file of a scenario.
pub(super) fn file(seed: u64) -> Value {
    let mut rng = Rng::new(seed);
    let mut between = |low: f64, high: f64| low + (high - low) * rng.fraction();
    let count = between(2.0, 17.0) as usize;
    let far = (between(0.0, 4.0) as usize).min(count - 1);
    let mut weights: Vec<f64> = (0..count).map(|_| -between(1e-9, 1.0).ln()).collect();
    weights[..far].fill(0.0);
    let sum: f64 = weights.iter().sum();
    let mut cluster = |number: usize| {
        json!({
            "name": format!("c{number}"), "capacity": (1_000.0 * between(0.0, 20f64.ln()).exp()) as u64,
            "near": weights[number] / sum,
            "location": { "latitude": between(-60.0, 70.0), "longitude": between(-180.0, 180.0) },
        })
    };
    let clusters: Vec<Value> = (0..count).map(&mut cluster).collect();
    let ttl = between(5.0, 120.0);
    json!({
        "version": 1, "title": format!("Random geometry {seed}"), "ttl": ttl, "length": LENGTH, "seeds": [seed],
        "offered": between(0.5, 0.9), "clusters": clusters,
        "clients": {
            "networks": between(200f64.ln(), 20_000f64.ln()).exp() as u32, "zipf": between(0.4, 1.0),
            "abusers": between(0.0, 0.09), "abuse": 5.0, "arrivals": 0.05, "swing": 0.4,
        },
        "reports": { "every": ttl * between(1.0 / 6.0, 1.0), "late": ttl * between(0.0, 1.0), "noise": between(0.0, 0.2) },
    })
}

/// Returns the name of the cluster that most clients are near to.
pub(super) fn busiest(file: &Value) -> Value {
    let clusters = file["clusters"].as_array().map_or(&[][..], Vec::as_slice);
    let near: Vec<f64> = clusters.iter().filter_map(|cluster| cluster["near"].as_f64()).collect();
    file["clusters"][largest(&near)]["name"].clone()
}

/// Returns the index of the largest value.
pub(super) fn largest(values: &[f64]) -> usize {
    (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap_or_default()
}

/// Figures of one run.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Demand at the nearest cluster relative to the optimum, after half of the run.
    pub near: f64,
    /// The same relative to the bound of divided networks.
    pub near_to_bound: f64,
    /// 99th percentile of the load of the fullest cluster minus the highest one of the optimum, after half of the run.
    pub peak: f64,
    /// Highest load of any cluster after the first TTL.
    pub highest: f64,
    /// Longest time in TTLs for which a cluster had a load over 1.1.
    pub overload: f64,
    /// Time in TTLs until the mean over a TTL is 95 % of the optimum.
    pub reached: f64,
    /// The same, with no cluster over 1.1 in that TTL, unless the optimum has one over 1.0. With everything at one cluster that many
    /// clients are near to, nearness alone says little.
    pub settled: f64,
    /// Part of the answers that changed although they could have stayed, after half of the run.
    pub churn: f64,
    /// Highest load of the optimum.
    pub optimum_peak: f64,
}

/// Runs a scenario once.
pub fn figures(scenario: &Scenario, seed: u64) -> Figures {
    figures_of(scenario, &run_with_optima(scenario, seed))
}

/// Returns the figures of a recording that has the optima.
pub fn figures_of(scenario: &Scenario, recording: &Recording) -> Figures {
    let ttl = scenario.ttl.as_secs_f64();
    let ttls = |at: Duration| at.as_secs_f64() / ttl;
    let optimum = |at: Duration| {
        let optima = recording.optima.iter();
        optima.min_by_key(|(time, _)| time.abs_diff(at)).map(|(_, optimum)| *optimum)
    };
    let mean = |from: f64, to: f64, figure: &dyn Fn(Duration, f64) -> f64| {
        let part = recording.samples.iter().filter(|s| ttls(s.at) > from && ttls(s.at) <= to);
        let (sum, count) = part.fold((0.0, 0u32), |(sum, count), s| (sum + figure(s.at, s.near), count + 1));
        sum / f64::from(count.max(1))
    };
    let near = |_: Duration, near: f64| near;
    let best = |at: Duration, _: f64| optimum(at).map_or(0.0, |optimum| optimum.near);
    let bound = |at: Duration, _: f64| optimum(at).map_or(0.0, |optimum| optimum.bound);
    let ratio = |from: f64, to: f64, best: &dyn Fn(Duration, f64) -> f64| mean(from, to, &near) / mean(from, to, best);
    let starts = (0..LENGTH as u32 - 1).map(f64::from);
    let is_overloaded = |from: f64| {
        let part = recording.samples.iter().filter(|s| ttls(s.at) > from && ttls(s.at) <= from + 1.0);
        let is_avoidable = |at: Duration| optimum(at).is_some_and(|optimum| optimum.peak <= 1.0);
        part.into_iter().any(|s| s.loads.iter().any(|load| *load > 1.1) && is_avoidable(s.at))
    };
    let mut reached = starts.filter(|from| ratio(*from, from + 1.0, &best) >= 0.95);
    let settled = reached.clone().find(|from| !is_overloaded(*from));
    let figure = |figure, from: f64| {
        recording.figure(figure, scenario.ttl.mul_f64(from), scenario.length).unwrap_or(f64::INFINITY)
    };
    let late = recording.optima.iter().filter(|(at, _)| ttls(*at) >= SETTLED);
    let optimum_peak = late.map(|(_, optimum)| optimum.peak).fold(0.0, f64::max);
    Figures {
        near: ratio(SETTLED, LENGTH, &best),
        near_to_bound: ratio(SETTLED, LENGTH, &bound),
        peak: figure(super::scenario::Figure::Peak, SETTLED) - optimum_peak,
        highest: figure(super::scenario::Figure::Highest, 1.0),
        overload: overload(recording, ttl),
        reached: reached.next().unwrap_or(f64::INFINITY),
        settled: settled.unwrap_or(f64::INFINITY),
        churn: figure(super::scenario::Figure::Churn, SETTLED),
        optimum_peak,
    }
}

/// Returns the longest time in TTLs, after the first one, for which one cluster had a load over 1.1.
fn overload(recording: &Recording, ttl: f64) -> f64 {
    let clusters = recording.samples.first().map_or(0, |sample| sample.loads.len());
    let mut longest: f64 = 0.0;
    for cluster in 0..clusters {
        let mut since = None;
        for sample in recording.samples.iter().filter(|sample| sample.at.as_secs_f64() > ttl) {
            let at = sample.at.as_secs_f64();
            if sample.loads[cluster] <= 1.1 {
                since = None;
            } else {
                longest = longest.max((at - *since.get_or_insert(at)) / ttl);
            }
        }
    }
    longest
}
