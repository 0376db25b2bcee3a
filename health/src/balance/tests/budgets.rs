//! What each cluster may get, for means that are written down.

use fairway_model::Permille;

use super::settings;
use crate::balance::{
    Settings,
    budgets::{self, Budgets, Means},
    demands::Demands,
    evidence::Evidence,
};

/// Seconds at which these clusters have long been there.
const LATE: f64 = 10_000.0;

/// What follows for clusters of which each was heard of at this time.
fn budgets(settings: &Settings, heard: &[f64], available: &[bool], since: &[f64], now: f64, demand: f64) -> Budgets {
    let mut demands = Demands::new(30.0);
    let evidence: Vec<Evidence> = heard
        .iter()
        .map(|at| {
            let mut evidence = Evidence::default();
            assert!(evidence.hear(0, 1.0, *at, None, &mut demands));
            evidence
        })
        .collect();
    let held = vec![Some(800.0); heard.len()];
    let means = Means { settings, evidence: &evidence, available, since, lag: 10.0, held: &held, now };
    budgets::budgets(&means, demand)
}

/// The same where all report, and have been there for long.
fn calm(settings: &Settings, demand: f64) -> Vec<f64> {
    let count = settings.clusters.len();
    budgets(settings, &vec![LATE; count], &vec![true; count], &vec![0.0; count], LATE, demand).now
}

fn close(actual: &[f64], expected: &[f64]) {
    let all = actual.iter().zip(expected).all(|(a, e)| (a - e).abs() < 0.5);
    assert!(all && actual.len() == expected.len(), "{actual:?}, expected {expected:?}");
}

#[test]
fn a_budget_is_the_soft_target_and_nothing_where_a_cluster_is_away() {
    let settings = settings(&[1000, 500]);
    close(&calm(&settings, 100.0), &[800.0, 400.0]);
    let away = budgets(&settings, &[LATE; 2], &[true, false], &[0.0; 2], LATE, 100.0);
    close(&away.now, &[800.0, 0.0]);
}

#[test]
fn a_cluster_that_is_back_gets_its_budget_over_five_ttls() {
    let settings = settings(&[1000, 1000]);
    let after = |secs: f64| budgets(&settings, &[LATE + secs; 2], &[true; 2], &[0.0, LATE], LATE + secs, 100.0).now;
    close(&after(0.0), &[800.0, 0.0]);
    close(&after(75.0), &[800.0, 400.0]);
    close(&after(150.0), &[800.0, 800.0]);
    close(&after(1_500.0), &[800.0, 800.0]);
}

#[test]
fn where_soft_targets_are_too_little_all_get_more_and_nobody_over_its_hard_limit_while_others_have_room() {
    let mut settings = settings(&[1000, 1000]);
    settings.clusters[0].hard = Permille::new(900).unwrap();
    settings.clusters[1].soft = Permille::new(400).unwrap();
    close(&calm(&settings, 1_160.0), &[800.0, 400.0]);
    // 3 % more than the demand is wanted, in the proportion of the soft targets.
    close(&calm(&settings, 1_200.0), &[824.0, 412.0]);
    // The first one is full, and the other has all of the rest.
    close(&calm(&settings, 1_500.0), &[900.0, 645.0]);
    // More than both can carry: each is over by the same part.
    close(&calm(&settings, 2_400.0), &[1_648.0, 824.0]);
}

#[test]
fn who_is_silent_keeps_its_budget_for_three_periods_and_then_comes_to_its_declared_split() {
    let mut settings = settings(&[1000, 1000, 1000]);
    settings.clusters[0].split = 200;
    settings.clusters[2].split = 5_000;
    let silent = |secs: f64| {
        let heard = [LATE, LATE + secs, LATE + secs];
        budgets(&settings, &heard, &[true, true, false], &[0.0; 3], LATE + secs, 600.0)
    };
    // Three periods, and as much later as reports are.
    close(&silent(40.0).now, &[800.0, 800.0, 0.0]);
    let long = silent(5_000.0);
    close(&long.now, &[100.0, 800.0, 0.0]);
    close(&long.unfaded, &[800.0, 800.0, 0.0]);
    let way = silent(190.0).now;
    assert!((300.0..600.0).contains(&way[0]), "half of the way: {way:?}");
}

#[test]
fn who_has_just_come_back_is_not_silent_yet() {
    let settings = settings(&[1000, 1000]);
    let now = LATE + 150.0;
    let back = budgets(&settings, &[1.0, now], &[true; 2], &[now - 40.0, 0.0], now, 100.0);
    assert_eq!(back.now, back.unfaded, "it had no time to report");
}
