//! Scenarios with a pool of their own: their goals, their pictures in the manual, and their errors.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{Runs, read, read_file, run, scenario::Scenario};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the scenarios of the policies, with the name of the policy.
fn scenarios() -> Vec<(String, Scenario)> {
    let paths = fs::read_dir(root().join("bench/scenarios/policies")).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let policy = path.file_stem().unwrap().to_string_lossy().into_owned();
        (policy, read_file(&path).unwrap_or_else(|error| panic!("{error}")))
    };
    paths.map(read).collect()
}

/// Returns a scenario of two clusters, half of the demand near each, after a change.
fn file(change: impl FnOnce(&mut Value)) -> Value {
    let mut file = json!({
        "version": 1, "title": "test", "ttl": 30, "length": 6, "offered": 0.5, "seeds": [],
        "clusters": [{ "name": "a", "capacity": 1000, "near": 0.5 }, { "name": "b", "capacity": 1000, "near": 0.5 }],
        "clients": { "networks": 100, "zipf": 0.2 }, "reports": { "every": 10, "late": 10 },
    });
    change(&mut file);
    file
}

#[test]
fn policy_scenarios_reach_their_goals() {
    for (policy, scenario) in scenarios() {
        let runs = Runs::of_seeds(&scenario, &scenario.seeds[..1]);
        let missed: Vec<_> = runs.goals.iter().filter(|goal| !goal.is_reached()).collect();
        assert!(!runs.goals.is_empty() && missed.is_empty(), "{policy}: {missed:#?}");
    }
}

#[test]
fn policy_page_shows_the_picture_of_its_scenario() {
    let folder = root().join("docs/policies");
    let pages = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<_> = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    let scenarios = scenarios();
    for page in pages.iter().filter(|page| !page.ends_with("README.md")) {
        let policy = page.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(page).unwrap();
        let (name, scenario) = match scenarios.iter().find(|(name, _)| *name == policy) {
            Some((name, scenario)) => (name.as_str(), scenario.clone()),
            None => ("steady", read_file(&root().join("bench/scenarios/steady.yaml")).unwrap()),
        };
        let picture = format!("{policy}/{name}.svg");
        assert!(text.contains(&format!("]({picture})")), "{} shows no {picture}", page.display());
        let drawn = fs::read_to_string(folder.join(&picture)).unwrap_or_else(|error| panic!("{picture}: {error}"));
        assert!(drawn.contains(&scenario.title), "{picture} is of another scenario; run bench/pictures");
    }
    assert_eq!(pages.len(), scenarios.len() + 2, "one page per policy, one for load, and the overview");
}

#[test]
fn pool_errors_are_those_of_a_configuration() {
    let error = |pool: Value| read(file(|file| file["pool"] = pool)).err().unwrap_or_default();
    assert_eq!(error(json!({ "policy": "failover" })), "");
    let late = "pool.policy[1]: no step can follow weighted, which chooses among equals; put it last";
    assert_eq!(error(json!({ "policy": ["weighted", "load"] })), late);
    assert!(error(json!({ "policy": "random" })).starts_with("pool.policy: "));
    assert!(error(json!({ "policy": "weighted", "members": [{ "cluster": "c" }] })).contains("cluster c"));
    assert!(error(json!({ "policy": "latency" })).contains("latency table"));
    assert!(error(json!({ "policy": "geo" })).contains("but no preference"));
    assert_eq!(error(json!({ "policy": "weighted", "ttl": "5s" })), "pool: ttl is not simulated; remove it");
    let probed = json!({ "policy": "weighted", "members": [{ "cluster": "a", "probe": "127.0.0.1:1" }] });
    assert_eq!(error(probed), "pool: probe is not simulated; remove it");
    let drawn = error(json!({ "policy": ["load", "weighted"], "spread": "query" }));
    assert_eq!(drawn, "pool: load with spread: query is not simulated; remove one of them");
    assert_eq!(error(json!("weighted")), "pool: write it as in a configuration, with its policy");
}

#[test]
fn errors_outside_the_pool_name_their_key() {
    let error = |change: &dyn Fn(&mut Value)| read(file(change)).err().unwrap_or_default();
    let country = error(&|file| file["clusters"][1]["clients"] = json!({ "country": "Nowhere" }));
    assert!(country.starts_with("clients of clusters[1].country: "), "{country}");
    let event = |event: Value| error(&|file| file["events"] = json!([event.clone()]));
    assert_eq!(
        event(json!({ "at": 1, "measured": 0.1 })),
        "events: measured: there is no latency table; add `latencies`"
    );
    assert!(event(json!({ "at": 1, "pool": { "policy": "random" } })).starts_with("events: pool.policy: "));
    let goal = |goal: Value| error(&|file| file["goals"] = json!([goal.clone()]));
    let of =
        |figure: &str, cluster: &str| json!({ "figure": figure, "cluster": cluster, "from": 0, "to": 1, "atMost": 1 });
    assert_eq!(goal(of("load", "a")), "");
    assert_eq!(goal(of("load", "z")), "goals: \"z\" is not a declared cluster");
    assert_eq!(goal(of("peak", "a")), "goals: \"peak\" is not a figure; docs/reference/scenario.md lists them");
    assert!(error(&|file| file["begins"] = json!("now")).starts_with("begins: "));
    assert_eq!(error(&|file| file["latencies"] = json!({ "detour": -1 })), "latencies.detour: -1 is not from 0 to 100");
}

#[test]
fn cluster_outside_the_pool_gets_no_clients() {
    let scenario = read(file(|file| file["pool"] = json!({ "policy": "weighted", "members": [{ "cluster": "b" }] })));
    let recording = run(&scenario.unwrap(), 1);
    let last = recording.samples.last().unwrap();
    assert_eq!(last.loads[0], 0.0);
    assert!((last.loads[1] - 1.0).abs() < 1e-9, "{}", last.loads[1]);
}

#[test]
fn scenario_with_the_default_pool_runs_as_one_without_a_pool() {
    let default_pool =
        json!({ "policy": ["nearest", "load", "weighted"], "members": [{ "cluster": "a" }, { "cluster": "b" }] });
    let [without, with] = [file(|_| ()), file(|file| file["pool"] = default_pool)].map(|file| read(file).unwrap());
    assert_eq!(without.pools, with.pools);
    assert_eq!(without.pools[0].policy, Scenario::default_policy());
    let [without, with] = [without, with].map(|scenario| run(&scenario, 2).answers);
    assert_eq!(without, with);
}
