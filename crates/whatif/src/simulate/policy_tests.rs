//! Pools other than the default one: that their scenarios reach their marks, that their pages show them, that faults are
//! told.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{Runs, play, read, read_file, scenario::Scenario};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Scenarios of policies by the name of their policy.
fn scenarios() -> Vec<(String, Scenario)> {
    let paths = fs::read_dir(root().join("bench/scenarios/policies")).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let policy = path.file_stem().unwrap().to_string_lossy().into_owned();
        (policy, read_file(&path).unwrap_or_else(|fault| panic!("{fault}")))
    };
    paths.map(read).collect()
}

/// Two clusters, half of the demand near each, and what is changed of that.
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
fn each_policy_does_in_its_scenario_what_its_page_says() {
    for (policy, scenario) in scenarios() {
        let runs = Runs::play(&scenario, &scenario.seeds[..1]);
        let missed: Vec<_> = runs.marks.iter().filter(|reached| !reached.holds()).collect();
        assert!(!runs.marks.is_empty() && missed.is_empty(), "{policy}: {missed:#?}");
    }
}

#[test]
fn each_page_of_a_policy_shows_the_picture_of_its_scenario() {
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
        assert!(drawn.contains(&scenario.title), "{picture} is of another scenario; draw it anew: bench/pictures");
    }
    assert_eq!(pages.len(), scenarios.len() + 2, "a page a policy, one of load, and one of all");
}

#[test]
fn a_pool_is_read_as_a_configuration_would_and_its_faults_are_told_in_the_same_words() {
    let fault = |pool: Value| read(file(|file| file["pool"] = pool)).err().unwrap_or_else(|| "no fault".to_owned());
    assert_eq!(fault(json!({ "policy": "failover" })), "no fault");
    let late = "pool.policy[1]: no step can follow weighted, which chooses among equals; put it last";
    assert_eq!(fault(json!({ "policy": ["weighted", "load"] })), late);
    assert!(fault(json!({ "policy": "random" })).starts_with("pool.policy: "));
    assert!(fault(json!({ "policy": "weighted", "members": [{ "cluster": "c" }] })).contains("cluster c"));
    assert!(fault(json!({ "policy": "latency" })).contains("latency table"));
    assert!(fault(json!({ "policy": "geo" })).contains("but no preference"));
    assert_eq!(fault(json!({ "policy": "weighted", "ttl": "5s" })), "pool: ttl is not played; take it out");
    let probed = json!({ "policy": "weighted", "members": [{ "cluster": "a", "probe": "127.0.0.1:1" }] });
    assert_eq!(fault(probed), "pool: probe is not played; take it out");
    let drawn = fault(json!({ "policy": ["load", "weighted"], "spread": "query" }));
    assert_eq!(drawn, "pool: load with spread: query is not played; take one of both out");
    assert_eq!(fault(json!("weighted")), "pool: write it as in a configuration, with its policy");
}

#[test]
fn what_is_wrong_around_a_pool_is_said() {
    let fault = |change: &dyn Fn(&mut Value)| read(file(change)).err().unwrap_or_else(|| "no fault".to_owned());
    let place = fault(&|file| file["clusters"][1]["clients"] = json!({ "country": "Nowhere" }));
    assert!(place.starts_with("clients of clusters[1].country: "), "{place}");
    let event = |event: Value| fault(&|file| file["events"] = json!([event.clone()]));
    assert_eq!(
        event(json!({ "at": 1, "measured": 0.1 })),
        "events: measured: there is no table of latencies; give `latencies`"
    );
    assert!(event(json!({ "at": 1, "pool": { "policy": "random" } })).starts_with("events: pool.policy: "));
    let mark = |mark: Value| fault(&|file| file["marks"] = json!([mark.clone()]));
    let of =
        |figure: &str, cluster: &str| json!({ "figure": figure, "cluster": cluster, "from": 0, "to": 1, "atMost": 1 });
    assert_eq!(mark(of("load", "a")), "no fault");
    assert_eq!(mark(of("load", "z")), "marks: \"z\" is no declared cluster");
    assert_eq!(mark(of("peak", "a")), "marks: \"peak\" is no figure; see docs/simulate.md");
    assert!(fault(&|file| file["begins"] = json!("now")).starts_with("begins: "));
    assert_eq!(fault(&|file| file["latencies"] = json!({ "detour": -1 })), "latencies.detour: -1 is not from 0 to 100");
}

#[test]
fn a_member_that_the_pool_leaves_out_gets_nobody_and_numbers_are_those_of_the_clusters() {
    let scenario = read(file(|file| file["pool"] = json!({ "policy": "weighted", "members": [{ "cluster": "b" }] })));
    let recording = play(&scenario.unwrap(), 1);
    let last = recording.samples.last().unwrap();
    assert_eq!(last.loads[0], 0.0);
    assert!((last.loads[1] - 1.0).abs() < 1e-9, "{}", last.loads[1]);
}

#[test]
fn a_scenario_that_says_its_default_pool_plays_as_one_that_says_none() {
    let said =
        json!({ "policy": ["nearest", "load", "weighted"], "members": [{ "cluster": "a" }, { "cluster": "b" }] });
    let [silent, said] = [file(|_| ()), file(|file| file["pool"] = said)].map(|file| read(file).unwrap());
    assert_eq!(silent.pools, said.pools);
    assert_eq!(silent.pools[0].policy, Scenario::default_policy());
    let [silent, said] = [silent, said].map(|scenario| play(&scenario, 2).answers);
    assert_eq!(silent, said);
}
