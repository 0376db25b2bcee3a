//! Short runs with their marks: a line of the deciding or balancing code that breaks makes one of them fail.

use serde_json::{Value, json};

use super::{Recording, Runs, play, read, scenario::Scenario};

/// Four clusters, two thirds of the demand near the first, as in `bench/scenarios`, with a quarter of the networks.
fn scenario(change: impl FnOnce(&mut Value)) -> Scenario {
    let mut file = json!({
        "version": 1, "title": "test", "ttl": 30, "length": 40, "offered": 0.75, "seeds": [],
        "clusters": [
            { "name": "a", "capacity": 1000, "near": 0.667 }, { "name": "b", "capacity": 1000, "near": 0.111 },
            { "name": "c", "capacity": 1000, "near": 0.111 }, { "name": "d", "capacity": 500, "near": 0.111 },
        ],
        "clients": { "networks": 500, "zipf": 0.6 },
        "reports": { "every": 10, "late": 10 },
    });
    change(&mut file);
    read(file).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Plays one seed and tells every mark that it misses.
fn hold(scenario: &Scenario) {
    let runs = Runs::play(scenario, &[3]);
    let missed: Vec<_> = runs.marks.iter().filter(|reached| !reached.holds()).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

fn mark(figure: &str, from: u32, to: u32, least: f64, most: f64) -> Value {
    json!({ "figure": figure, "from": from, "to": to, "atLeast": least, "atMost": most })
}

#[test]
fn a_calm_day_is_near_and_within_budgets_and_nothing_moves() {
    hold(&scenario(|file| {
        file["marks"] = json!([
            mark("peak", 25, 40, 0.7, 0.9),
            mark("churn", 25, 40, 0.0, 0.01),
            mark("near", 25, 40, 0.6, 0.75),
            mark("highest", 0, 40, 0.0, 1.1),
        ]);
    }));
}

#[test]
fn a_network_with_a_third_of_a_capacity_does_not_swing() {
    hold(&scenario(|file| {
        file["clients"]["zipf"] = json!(1.0);
        file["marks"] = json!([mark("peak", 25, 40, 0.7, 1.05), mark("churn", 25, 40, 0.0, 0.03)]);
    }));
}

#[test]
fn survivors_of_a_death_are_not_overrun_and_the_return_is_slow() {
    hold(&scenario(|file| {
        file["offered"] = json!(0.6);
        file["events"] = json!([{ "at": 15, "dies": "a" }, { "at": 25, "returns": "a" }]);
        file["marks"] = json!([
            mark("peak", 15, 25, 0.8, 1.0),
            mark("highest", 15, 40, 0.8, 1.1),
            mark("near", 17, 25, 0.0, 0.35),
            mark("slope", 27, 40, 0.01, 0.35),
        ]);
    }));
}

#[test]
fn a_gateway_that_lies_is_not_believed() {
    hold(&scenario(|file| {
        file["events"] = json!([{ "at": 15, "lies": "a" }]);
        file["marks"] = json!([mark("highest", 15, 40, 0.5, 1.0)]);
    }));
}

#[test]
fn silence_fades_to_the_declared_split() {
    hold(&scenario(|file| {
        file["offered"] = json!(0.45);
        file["length"] = json!(60);
        file["events"] = json!([{ "at": 25, "reports": "lost" }, { "at": 45, "reports": "back" }]);
        file["marks"] = json!([
            mark("offSplit", 42, 45, 0.0, 0.06),
            mark("slope", 25, 45, 0.0, 0.2),
            mark("highest", 25, 60, 0.4, 0.95),
        ]);
    }));
}

#[test]
fn a_drain_says_when_it_is_over() {
    hold(&scenario(|file| {
        file["offered"] = json!(0.6);
        file["length"] = json!(25);
        file["clients"]["abusers"] = json!(0.05);
        file["events"] = json!([{ "at": 15, "drain": "a" }]);
        file["marks"] = json!([mark("drainError", 15, 25, 0.0, 0.1), mark("highest", 15, 25, 0.8, 1.0)]);
    }));
}

#[test]
fn a_partition_from_the_observer_ends_as_it_began() {
    hold(&scenario(|file| {
        file["offered"] = json!(0.6);
        file["events"] = json!([{ "at": 15, "partition": "b" }, { "at": 20, "heal": "b" }]);
        file["marks"] = json!([mark("highest", 15, 40, 0.6, 1.1)]);
    }));
}

#[test]
fn a_seed_gives_the_same_run_again_and_another_one_another() {
    let short = scenario(|file| {
        file["length"] = json!(6);
        file["reports"]["noise"] = json!(0.2);
    });
    let loads = |run: &Recording| run.samples.iter().map(|s| s.loads.clone()).collect::<Vec<_>>();
    assert_eq!(loads(&play(&short, 1)), loads(&play(&short, 1)));
    assert_ne!(loads(&play(&short, 1)), loads(&play(&short, 2)));
}

#[test]
fn a_picture_has_a_line_a_cluster() {
    let short = scenario(|file| file["length"] = json!(3));
    let picture = super::draw(&short, &play(&short, 1), 1);
    assert_eq!(picture.matches("<polyline").count(), 4 + 2);
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
}

#[test]
fn what_is_wrong_with_a_scenario_is_said() {
    let fault = |change: &dyn Fn(&mut Value)| {
        let mut file = json!({
            "version": 1, "title": "t", "ttl": 30, "length": 1, "offered": 0.5, "seeds": [],
            "clusters": [{ "name": "a", "capacity": 10, "near": 1 }],
            "clients": { "networks": 1, "zipf": 1 }, "reports": { "every": 1, "late": 0 },
        });
        change(&mut file);
        read(file).err().unwrap_or_else(|| "no fault".to_owned())
    };
    assert_eq!(fault(&|_| ()), "no fault");
    assert_eq!(fault(&|f| f["version"] = json!(2)), "version 2 is not known; this program reads version 1");
    assert_eq!(fault(&|f| f["ttl"] = json!(0)), "ttl: 0 is not over 0");
    assert_eq!(fault(&|f| f["clusters"][0]["near"] = json!(0.5)), "clusters: the parts `near` do not add up to 1");
    assert_eq!(fault(&|f| f["clusters"][0]["capacity"] = json!(0)), "clusters: a has no capacity; give at least 1");
    let nowhere = json!({ "latitude": 91, "longitude": 0 });
    let fault_of_place = fault(&|f| f["clusters"][0]["location"] = nowhere.clone());
    assert_eq!(fault_of_place, "clusters: a: no place on earth is at 91, 0");
    let here = json!({ "latitude": 1, "longitude": 1 });
    let [a, b] = ["a", "b"].map(|name| json!({ "name": name, "capacity": 1, "near": 0.5, "location": here }));
    let fault_of_two = fault(&|f| f["clusters"] = json!([a, b]));
    assert_eq!(fault_of_two, "clusters: a and b are at one place; none is the nearer");
    assert_eq!(fault(&|f| f["clients"]["networks"] = json!(0)), "clients.networks: 0 is not from 1 to 200000");
    let events = |event: Value| fault(&|f| f["events"] = json!([event]));
    assert_eq!(events(json!({ "at": 1, "dies": "z" })), "events: dies: \"z\" is no declared cluster");
    assert!(events(json!({ "at": 1, "sleeps": "a" })).contains("nothing that can happen"));
    let marks = fault(&|f| f["marks"] = json!([{ "figure": "joy", "from": 0, "to": 1, "atMost": 1 }]));
    assert_eq!(marks, "marks: \"joy\" is no figure; see docs/simulate.md");
    assert!(fault(&|f| f["speed"] = json!(1)).contains("unknown field `speed`"));
}
