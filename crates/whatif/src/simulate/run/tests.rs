//! Tests of single parts of a run.

use serde_json::{Value, json};

use super::{super::read, *};

/// Returns a scenario of two clusters with an event, and without noise.
fn scenario(event: Value) -> Scenario {
    let file = json!({
        "version": 1, "title": "test", "ttl": 30, "length": 8, "offered": 0.5, "seeds": [],
        "clusters": [{ "name": "a", "capacity": 100, "near": 0.5 }, { "name": "b", "capacity": 100, "near": 0.5 }],
        "clients": { "networks": 100, "zipf": 0.4 }, "reports": { "every": 10, "late": 0 },
        "events": [event, { "at": 5, "demand": { "near": "a", "offered": 0.8 } }],
    });
    read(file).unwrap()
}

/// Returns the reports of the first cluster in a part of the run, in TTLs.
fn reports(run: &Run<'_>, from: f64, to: f64) -> Vec<u32> {
    let at = |ttls: f64| run.start + run.scenario.ttl.mul_f64(ttls);
    let part = run.reports.iter().filter(|report| report.at > at(from) && report.at <= at(to));
    part.filter(|report| report.backend.cluster.as_str() == "a").map(|report| report.load.0).collect()
}

#[test]
fn frozen_exporter_reports_its_last_load_while_the_load_changes() {
    let scenario = scenario(json!({ "at": 3.1, "freeze": "a" }));
    let mut run = Run::new(&scenario, 1);
    run.play();
    let before = reports(&run, 2.5, 3.1);
    let last = before.last().copied().unwrap();
    assert_eq!(reports(&run, 3.1, 8.0), vec![last; 15]);
    let grown = run.recording.samples.last().unwrap().loads[0];
    assert!(grown > 1.2 * f64::from(last) / 1000.0, "load {grown}, reported {last}");
    let sequences: Vec<u64> = run.reports.iter().map(|report| report.sequence).collect();
    assert_eq!(sequences.last(), Some(&24), "each report counts as a new one");
}

#[test]
fn load_from_elsewhere_is_in_reports_and_samples() {
    let scenario = scenario(json!({ "at": 1.1, "elsewhere": { "cluster": "a", "part": 3.0 } }));
    let mut run = Run::new(&scenario, 1);
    run.play();
    let loads: Vec<f64> = run.recording.samples.iter().map(|sample| sample.loads[0]).collect();
    assert!(loads[40] < 1.0 && loads[50] > 3.0, "load {} before, {} with 3.0 from elsewhere", loads[40], loads[50]);
    assert!(reports(&run, 0.0, 1.1).iter().all(|load| *load < 1000));
    assert!(reports(&run, 1.1, 8.0).iter().all(|load| *load > 3000));
    assert!(run.recording.samples.iter().all(|sample| sample.near <= 1.0), "clients do not cause it");
}
