//! Short runs with goals, so that an error in steering or balancing makes one of them fail.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Optimum, Population, Recording, Rng, Runs, Traffic, elsewhere, random, read, run,
    scenario::{Deployment, Scenario, Start},
};

/// Returns a scenario of four clusters, two thirds of the demand near the first, after a change: as in `bench/scenarios`, with a quarter of
/// the networks.
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
    read(file).unwrap_or_else(|error| panic!("{error}"))
}

/// Asserts that a run reaches all goals.
fn assert_goals(scenario: &Scenario) {
    let runs = Runs::of_seeds(scenario, &[3]);
    let missed: Vec<_> = runs.goals.iter().filter(|goal| !goal.is_reached()).collect();
    assert!(missed.is_empty(), "missed goals: {missed:#?}");
}

fn goal(figure: &str, from: u32, to: u32, least: f64, most: f64) -> Value {
    json!({ "figure": figure, "from": from, "to": to, "atLeast": least, "atMost": most })
}

#[test]
fn steady_demand_stays_near_within_targets_and_does_not_move() {
    assert_goals(&scenario(|file| {
        file["goals"] = json!([
            goal("peak", 25, 40, 0.7, 0.9),
            goal("churn", 25, 40, 0.0, 0.01),
            goal("near", 25, 40, 0.6, 0.75),
            goal("highest", 0, 40, 0.0, 1.1),
        ]);
    }));
}

#[test]
fn heavy_hitter_does_not_oscillate() {
    assert_goals(&scenario(|file| {
        file["clients"]["zipf"] = json!(1.0);
        file["goals"] = json!([goal("peak", 25, 40, 0.7, 1.05), goal("churn", 25, 40, 0.0, 0.03)]);
    }));
}

#[test]
fn failure_does_not_overload_other_clusters_and_return_is_gradual() {
    assert_goals(&scenario(|file| {
        file["offered"] = json!(0.6);
        file["events"] = json!([{ "at": 15, "dies": "a" }, { "at": 25, "returns": "a" }]);
        file["goals"] = json!([
            goal("peak", 15, 25, 0.8, 1.0),
            goal("highest", 15, 40, 0.8, 1.1),
            goal("near", 17, 25, 0.0, 0.35),
            goal("slope", 27, 40, 0.01, 0.35),
        ]);
    }));
}

#[test]
fn report_of_no_load_is_rejected() {
    assert_goals(&scenario(|file| {
        file["events"] = json!([{ "at": 15, "lies": "a" }]);
        file["goals"] = json!([goal("highest", 15, 40, 0.5, 1.0)]);
    }));
}

#[test]
fn without_reports_shares_fade_to_the_declared_split() {
    assert_goals(&scenario(|file| {
        file["offered"] = json!(0.45);
        file["length"] = json!(60);
        file["events"] = json!([{ "at": 25, "reports": "lost" }, { "at": 45, "reports": "back" }]);
        file["goals"] = json!([
            goal("offSplit", 42, 45, 0.0, 0.06),
            goal("slope", 25, 45, 0.0, 0.2),
            goal("highest", 25, 60, 0.4, 0.95),
        ]);
    }));
}

#[test]
fn drain_predicts_its_end() {
    assert_goals(&scenario(|file| {
        file["offered"] = json!(0.6);
        file["length"] = json!(25);
        file["clients"]["abusers"] = json!(0.05);
        file["events"] = json!([{ "at": 15, "drain": "a" }]);
        file["goals"] = json!([goal("drainError", 15, 25, 0.0, 0.1), goal("highest", 15, 25, 0.8, 1.1)]);
    }));
}

#[test]
fn partition_from_the_server_overloads_no_cluster() {
    assert_goals(&scenario(|file| {
        file["offered"] = json!(0.6);
        file["events"] = json!([{ "at": 15, "partition": "b" }, { "at": 20, "heal": "b" }]);
        file["goals"] = json!([goal("highest", 15, 40, 0.6, 1.1)]);
    }));
}

#[test]
fn equal_seeds_give_equal_runs() {
    let short = scenario(|file| {
        file["length"] = json!(6);
        file["reports"]["noise"] = json!(0.2);
    });
    let loads = |recording: &Recording| recording.samples.iter().map(|s| s.loads.clone()).collect::<Vec<_>>();
    assert_eq!(loads(&run(&short, 1)), loads(&run(&short, 1)));
    assert_ne!(loads(&run(&short, 1)), loads(&run(&short, 2)));
}

#[test]
fn picture_has_one_line_per_cluster() {
    let short = scenario(|file| file["length"] = json!(3));
    let picture = super::draw(&short, &run(&short, 1), 1);
    assert_eq!(picture.matches("<polyline").count(), 4 + 2);
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
}

#[test]
fn scenario_errors_name_key_and_value() {
    let error = |change: &dyn Fn(&mut Value)| {
        let mut file = json!({
            "version": 1, "title": "t", "ttl": 30, "length": 1, "offered": 0.5, "seeds": [],
            "clusters": [{ "name": "a", "capacity": 10, "near": 1 }],
            "clients": { "networks": 1, "zipf": 1 }, "reports": { "every": 1, "late": 0 },
        });
        change(&mut file);
        read(file).err().unwrap_or_default()
    };
    assert_eq!(error(&|_| ()), "");
    assert_eq!(error(&|f| f["version"] = json!(2)), "version 2 is not supported; use version 1");
    assert_eq!(error(&|f| f["ttl"] = json!(0)), "ttl: 0 is not greater than 0");
    assert_eq!(error(&|f| f["clusters"][0]["near"] = json!(0.5)), "clusters: the sum of all `near` is not 1");
    assert_eq!(error(&|f| f["clusters"][0]["capacity"] = json!(0)), "clusters: a: capacity 0; give at least 1");
    let nowhere = json!({ "latitude": 91, "longitude": 0 });
    let position = error(&|f| f["clusters"][0]["location"] = nowhere.clone());
    assert_eq!(position, "clusters: a: 91, 0 is not a position on earth");
    let here = json!({ "latitude": 1, "longitude": 1 });
    let [a, b] = ["a", "b"].map(|name| json!({ "name": name, "capacity": 1, "near": 0.5, "location": here }));
    let same = error(&|f| f["clusters"] = json!([a, b]));
    assert_eq!(same, "clusters: a and b have the same location, so neither is nearer");
    assert_eq!(error(&|f| f["clients"]["networks"] = json!(0)), "clients.networks: 0 is not from 1 to 200000");
    let events = |event: Value| error(&|f| f["events"] = json!([event]));
    assert_eq!(events(json!({ "at": 1, "dies": "z" })), "events: dies: \"z\" is not a declared cluster");
    assert!(events(json!({ "at": 1, "sleeps": "a" })).contains("is not an event"));
    let elsewhere = events(json!({ "at": 1, "elsewhere": { "cluster": "a" } }));
    assert_eq!(elsewhere, "events: elsewhere: give `cluster` and `part`");
    assert_eq!(error(&|f| f["start"] = json!("warm")), "start: \"warm\" is not cold, one or mirror");
    assert_eq!(error(&|f| f["servers"] = json!([])), "servers: 0 are given; give 1 to 16");
    assert_eq!(error(&|f| f["servers"] = json!([1, 0])), "servers: 0 is not greater than 0");
    let goals = error(&|f| f["goals"] = json!([{ "figure": "joy", "from": 0, "to": 1, "atMost": 1 }]));
    assert_eq!(goals, "goals: \"joy\" is not a figure; docs/reference/scenario.md lists them");
    assert!(error(&|f| f["speed"] = json!(1)).contains("unknown field `speed`"));
}

#[test]
fn networks_that_arrive_take_over_the_demand_of_those_that_leave() {
    let scenario = scenario(|file| {
        file["clients"]["arrivals"] = json!(0.1);
        file["goals"] = json!([goal("peak", 25, 40, 0.7, 0.95), goal("near", 25, 40, 0.55, 0.75)]);
    });
    let population = Population::new(&scenario, &mut Rng::new(3));
    assert_eq!(population.arrivals.len(), 2_000, "a tenth of 500 in each of 40 TTLs");
    let demand = population.demand();
    let mut traffic = Traffic::new(population, 4);
    for arrival in 0..2_000 {
        let (old, new) = traffic.population().arrivals[arrival];
        let before = traffic.population().networks[old as usize].demand;
        assert!(before > 0.0, "arrival {arrival}: network {old} has left before");
        assert_eq!(traffic.replace(arrival).0, new);
        assert!(!traffic.is_present(old));
        assert_eq!(traffic.population().networks[new as usize].demand, before);
    }
    assert!((traffic.population().demand() - demand).abs() < 1e-6 * demand);
    assert_goals(&scenario);
}

#[test]
fn demand_swings_within_an_hour_up_to_what_is_offered() {
    let scenario = scenario(|file| file["clients"]["swing"] = json!(0.4));
    let population = Population::new(&scenario, &mut Rng::new(3));
    let mut traffic = Traffic::new(population, 4);
    let minute = |minute: u64| Duration::from_secs(60 * minute);
    let demands: Vec<f64> = (0..60).map(|at| traffic.follow_demand(minute(at), minute(at + 1))).collect();
    let (least, most) =
        demands.iter().fold((f64::MAX, 0.0), |(least, most), demand| (demand.min(least), demand.max(most)));
    let offered = 0.75 * scenario.capacity();
    assert!((most / offered - 1.0).abs() < 0.01, "{most} at the top; {offered} is offered");
    assert!(least < 0.9 * most, "between {least} and {most}");
}

#[test]
fn scaled_scenario_has_the_same_demand_after_each_ttl() {
    let scenario = scenario(|file| file["clients"]["swing"] = json!(0.4));
    let scaled = scenario.scaled(Duration::from_secs(2));
    let demands = |scenario: &Scenario| -> Vec<f64> {
        let mut traffic = Traffic::new(Population::new(scenario, &mut Rng::new(3)), 4);
        let ttls = 0..scenario.length.div_duration_f64(scenario.ttl).round() as u32;
        ttls.map(|ttl| traffic.follow_demand(ttl * scenario.ttl, (ttl + 1) * scenario.ttl)).collect()
    };
    let (original, scaled) = (demands(&scenario), demands(&scaled));
    assert_eq!(scaled.len(), 40);
    assert!(original[0] != original[39]);
    assert!(original.iter().zip(&scaled).all(|(a, b)| (a - b).abs() < 1e-6 * a), "{original:?} {scaled:?}");
}

#[test]
fn random_scenarios_are_valid_and_their_figures_are_finite() {
    let two = Deployment { servers: vec![0.7, 0.3], shared_store: true, ..Deployment::one_server() };
    for seed in 0..300 {
        random::draw(seed, Start::Cold, &Deployment::one_server())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        elsewhere::draw(seed, &two).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let scenario = scenario(|file| file["length"] = json!(60));
    let figures = random::figures(&scenario, 3);
    let [near, bound, optimum] = [figures.near, figures.near_to_bound, figures.optimum_peak];
    assert!((0.8..1.05).contains(&near), "{figures:?}");
    assert!((bound / near - 1.0).abs() < 0.02, "with 500 networks the optimum is close to the bound: {figures:?}");
    assert!((0.7..0.83).contains(&optimum), "the target is 0.8: {figures:?}");
    assert!(figures.overload == 0.0 && figures.highest < 1.1, "{figures:?}");
}

#[test]
fn informed_load_control_needs_no_reports() {
    let loads = |is_informed: bool, event: &str| -> Vec<Vec<f64>> {
        let scenario = scenario(|file| {
            file["informed"] = json!(is_informed);
            file["events"] = json!([{ "at": 0, event: "a" }]);
        });
        run(&scenario, 3).samples.into_iter().map(|sample| sample.loads).collect()
    };
    assert_eq!(loads(true, "lies"), loads(true, "honest"));
    assert!(loads(false, "lies") != loads(false, "honest"), "others need them");
    let highest = loads(true, "lies").into_iter().skip(100).flatten().fold(0.0, f64::max);
    assert!(highest < 0.85, "the target is 0.8: {highest}");
}

#[test]
fn optimum_avoids_clusters_that_are_down_or_carry_load_from_elsewhere() {
    let scenario = scenario(|file| file["offered"] = json!(0.5));
    let mut traffic = Traffic::new(Population::new(&scenario, &mut Rng::new(3)), 4);
    let optimum = Optimum::of(&traffic, &scenario, |_| true);
    assert!((optimum.peak - 0.8).abs() < 0.02, "cluster a is filled to its target: {optimum:?}");
    // Half of the demand is lower than what a can carry beside other load.
    traffic.set_elsewhere(0, 500.0);
    let beside = Optimum::of(&traffic, &scenario, |_| true);
    assert!(beside.near < optimum.near - 0.2 && (beside.peak - 0.8).abs() < 0.02, "{beside:?}");
    let without = Optimum::of(&traffic, &scenario, |cluster| cluster != 0);
    assert!(without.near < 0.34, "two thirds of the demand are nearest to a: {without:?}");
    let highest = 0.5 + 0.5 * 3500.0 / 2500.0;
    assert!(without.peak < highest, "the load at a from elsewhere does not count: {without:?}");
}
